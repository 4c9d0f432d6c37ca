"""The compute mode of a GPU: how many processes may use it."""

from cotenant.devices.nvidia.library import DriverProblem, ask, call
from cotenant.devices.nvidia.nvml import GpuFacts, handle

DEFAULT, PROHIBITED, EXCLUSIVE_PROCESS = 0, 2, 3
NAMES = {DEFAULT: "default", 1: "exclusive thread", PROHIBITED: "prohibited", EXCLUSIVE_PROCESS: "exclusive process"}


def read(gpu: GpuFacts) -> int | None:
    """The current mode; None if the driver doesn't say."""
    found = ask("nvmlDeviceGetComputeMode", handle(gpu), of=gpu.label)
    return None if found is None else int(found)


def write(gpu: GpuFacts, mode: int) -> None:
    """Set it. Raises DriverProblem."""
    call("nvmlDeviceSetComputeMode", handle(gpu), mode, of=gpu.label)


def may_write(gpu: GpuFacts) -> bool:
    """True if this user may set it, tested by setting the current value."""
    now = read(gpu)
    if now is None:
        return False
    try:
        write(gpu, now)
    except DriverProblem:
        return False
    return True
