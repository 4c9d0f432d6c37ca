"""The compute mode of a GPU: who may be on it at all."""

from cotenant.devices.nvidia.library import DriverProblem, ask, call
from cotenant.devices.nvidia.nvml import GpuFacts, handle

DEFAULT, PROHIBITED, EXCLUSIVE_PROCESS = 0, 2, 3
NAMES = {DEFAULT: "default", 1: "exclusive thread", PROHIBITED: "prohibited", EXCLUSIVE_PROCESS: "exclusive process"}


def read(gpu: GpuFacts) -> int | None:
    """The mode now; None: the driver doesn't say."""
    found = ask("nvmlDeviceGetComputeMode", handle(gpu), of=gpu.label)
    return None if found is None else int(found)


def write(gpu: GpuFacts, mode: int) -> None:
    """Set it. Raises DriverProblem."""
    call("nvmlDeviceSetComputeMode", handle(gpu), mode, of=gpu.label)


def may_write(gpu: GpuFacts) -> bool:
    """Whether this user may set it, found by setting what is already there."""
    now = read(gpu)
    if now is None:
        return False
    try:
        write(gpu, now)
    except DriverProblem:
        return False
    return True
