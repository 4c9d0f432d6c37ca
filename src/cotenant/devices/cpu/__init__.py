"""CPUs as devices: some or all cores of this machine."""

from cotenant.devices.cpu.cpu_device import CpuDevice, open_cpu

__all__ = ["CpuDevice", "open_cpu"]
