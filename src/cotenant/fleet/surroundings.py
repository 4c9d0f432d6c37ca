"""What Ray sets in its workers' environment, put back: it is not what the machine's own processes would see."""

import contextlib
import os

_BY_RAY = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""What an actor that reserves nothing gets. Tenants would inherit it: one thread, and no GPU."""


def as_outside_of_ray() -> None:
    """Forget what Ray set; what the machine itself sets differs from it, and stays."""
    for name, value in _BY_RAY.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    with contextlib.suppress(PermissionError):
        # Ray's workers stand back behind all other processes (nice 15); tenants would inherit that too.
        os.setpriority(os.PRIO_PROCESS, 0, 0)


def niceness() -> int:
    """How far this process stands back behind others; 0: it doesn't."""
    return os.getpriority(os.PRIO_PROCESS, 0)
