"""CPUs as devices: some or all cores of this machine."""
