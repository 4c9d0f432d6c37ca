"""The ways to share an NVIDIA GPU, one file each: set up, proven, and put back also after a crash."""

from cotenant.devices.nvidia.sharing.every import Fixtures, arrange, sharing_modes
from cotenant.devices.nvidia.sharing.layout import GpuPlace

__all__ = ["Fixtures", "GpuPlace", "arrange", "sharing_modes"]
