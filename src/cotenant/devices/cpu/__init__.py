"""CPUs as devices: some or all cores of this machine."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.devices.cpu.cgroup import group_of, memory_limit_bytes, quota_cores
    from cotenant.devices.cpu.core_sharing import CpuSeatOptions
    from cotenant.devices.cpu.cores import format_cores, parse_cores
    from cotenant.devices.cpu.cpu_device import open_cpu
    from cotenant.devices.cpu.machine import model_name
    from cotenant.devices.cpu.seat import CpuSeat
else:
    __getattr__, __dir__ = front(__name__, __file__)
