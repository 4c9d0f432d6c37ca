"""NVIDIA GPUs: the driver's sensors and controls, and the sharing modes of a GPU."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.devices.nvidia.green_contexts import SmPartition
    from cotenant.devices.nvidia.nvml import DriverProblem, GpuFacts, find, gpus
    from cotenant.devices.nvidia.process_use import Occupant, ProcessUse, occupants
    from cotenant.devices.nvidia.seat import GpuSeat, GpuSeatOptions
    from cotenant.devices.nvidia.sharing.green import grain, sms_for
else:
    __getattr__, __dir__ = front(__name__, __file__)
