"""Where it runs: sensors, controls and sharing modes of each kind of device."""
