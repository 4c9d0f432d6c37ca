"""Checks that memory suffices before anything is allocated, so that the result is a message, not a killed process."""

from cotenant.errors import DoesNotFit
from cotenant.workloads.protocol import Place, WorkloadSpec


def require_room(spec: WorkloadSpec, needed_bytes: int, place: Place) -> None:
    """Refuse what exceeds the memory now free on the place."""
    free = _free_bytes(place.torch_device)
    if free is not None and needed_bytes > free:
        raise DoesNotFit(
            f"`{spec.name}` needs {needed_bytes / 2**30:.2f} GiB, but {place.torch_device} has {free / 2**30:.2f} GiB "
            "free",
            hint="lower `params: {size: ...}`",
        )


def _free_bytes(torch_device: str) -> int | None:
    if torch_device.startswith("cpu"):
        import psutil

        return int(psutil.virtual_memory().available)
    if torch_device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(torch_device)[0])
    return None
