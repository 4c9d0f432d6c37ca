"""Sharing modes of an NVIDIA GPU, each in its file: set up, verified, and undone even after a crash."""

from cotenant.devices.nvidia.sharing.every import Fixtures, arrange, sharing_modes
from cotenant.devices.nvidia.sharing.layout import GpuPlace

__all__ = ["Fixtures", "GpuPlace", "arrange", "sharing_modes"]
