"""Undo what Ray sets in its workers' environment, which differs from that of the machine's own processes."""

import contextlib
import os

_BY_RAY = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""Ray's settings for an actor that reserves nothing. Tenants would inherit them: one thread, and no GPU."""


def as_outside_of_ray() -> None:
    """Remove Ray's settings; different values come from the machine itself, and stay."""
    for name, value in _BY_RAY.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    with contextlib.suppress(PermissionError):
        # Ray's workers run at nice 15; tenants would inherit that too.
        os.setpriority(os.PRIO_PROCESS, 0, 0)


def niceness() -> int:
    """Niceness of this process."""
    return os.getpriority(os.PRIO_PROCESS, 0)
