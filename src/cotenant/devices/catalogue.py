"""Find devices by name."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotenant.devices.protocol import Device, SharingMode
from cotenant.errors import DeviceError
from cotenant.text import nearest

if TYPE_CHECKING:
    from cotenant.devices.nvidia.accelerator import TorchAccelerator
    from cotenant.devices.nvidia.cuda_device import CudaDevice

log = logging.getLogger(__name__)

FORMS = "cpu, cpu:0, cpu:0-1, cpu:0,2, cpu:each, cuda:0, cuda:GPU-UUID, sim:a100-sxm4-40gb, sim:v100-sxm2-16gb*4, all"
FAMILIES = ("cpu", "cuda", "rocm", "xpu", "sim")
_MEANT = {"gpu": "cuda", "nvidia": "cuda", "mig": "cuda:MIG-UUID", "mps": "cuda", "hip": "rocm", "amd": "rocm"}
"""Names users write, and the device family each belongs to."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One entry in the list of devices."""

    name: str
    meaning: str
    sharings: tuple[SharingMode, ...]
    simulated: bool = False


def find_device(name: str) -> Device:
    """Return the device with this name.

    Args:
        name: `cpu` (all cores this process may use) or some cores: `cpu:0`, `cpu:0-1`, `cpu:0,2`; or a
            GPU: `cuda:0`, `cuda:GPU-UUID`, a MIG instance `cuda:MIG-UUID`, `rocm:0`, `xpu:0`; a
            simulated GPU: `sim:a100-sxm4-40gb`, a member of a fleet `sim:v100-sxm2-16gb#17`, your own `sim:gpu.yaml`;
            or a group of devices: `cpu:each`, `cuda:all`, `cuda:0,1`, `sim:v100-sxm2-16gb*4`, `all`.

    Raises:
        DeviceError: There is no such device here.
    """
    from cotenant.devices.cpu.cpu_device import open_cpu
    from cotenant.devices.group_names import open_group

    name = name.strip()
    family, colon, part = name.partition(":")
    by_uuid = part.upper().startswith(("GPU-", "MIG-"))  # hyphens in a UUID are not a range
    group = None if by_uuid else open_group(name, find_device)
    if group is not None:
        return group
    if family == "cpu":
        return open_cpu(name, part if colon else None)
    if family.lower() == "sim":
        from cotenant.devices.simulated.simulated_gpu import open_simulated

        return open_simulated(part)
    if family == "cuda":
        return _cuda(name, part)
    if family in {"rocm", "xpu"}:
        from cotenant.devices.nvidia.accelerator import open_accelerator

        return open_accelerator(family, part or "0")
    near = nearest(family, FAMILIES, cutoff=0.5)
    meant = _MEANT.get(family.lower()) or (near[0] if near else None)
    guess = f"did you mean {meant!r}? " if meant else ""
    raise DeviceError(f"there is no device {name!r}", hint=f"{guess}devices are named {FORMS}")


def _cuda(name: str, part: str) -> Device:
    """Return an NVIDIA GPU; the error for a missing GPU lists those present."""
    from cotenant.devices.nvidia.cuda_device import open_cuda
    from cotenant.devices.nvidia.jetson_device import open_jetson
    from cotenant.devices.nvidia.torch_side import ON_CPU

    try:
        return open_cuda(part)
    except DeviceError as error:
        board = open_jetson()  # on a Jetson, the driver's library lists no GPU
        if board is not None and part.removesuffix(ON_CPU) in {"", "0"}:
            return board
        others = "or measure the CPU: --device cpu; or simulate a GPU: --device sim:a100-sxm4-40gb"
        raise DeviceError(
            f"there is no device {name!r}: {error.message}", hint=f"{error.hint}; {others}" if error.hint else others
        ) from None


def list_devices() -> tuple[DeviceInfo, ...]:
    """Every device of this machine and every GPU that can be simulated, with the sharing modes of each."""
    from cotenant.devices.cpu.cpu_device import open_cpu
    from cotenant.devices.simulated.catalogue import gpu_names
    from cotenant.devices.simulated.simulated_gpu import open_simulated

    cpu = open_cpu("cpu", None)
    simulated = [open_simulated(name) for name in gpu_names()]
    return (
        DeviceInfo(cpu.name, cpu.meaning, cpu.sharings()),
        *(DeviceInfo(gpu.name, gpu.meaning, gpu.sharings()) for gpu in accelerators()),
        *(DeviceInfo(gpu.name, gpu.meaning, gpu.sharings(), simulated=True) for gpu in simulated),
    )


def accelerators() -> "list[CudaDevice | TorchAccelerator]":
    """Accelerators found through a driver or torch; may be empty."""
    from cotenant.devices.nvidia import nvml
    from cotenant.devices.nvidia.accelerator import list_accelerators
    from cotenant.devices.nvidia.cuda_device import open_cuda
    from cotenant.devices.nvidia.jetson_device import open_jetson

    try:
        here: list[CudaDevice | TorchAccelerator] = [open_cuda(str(gpu.index)) for gpu in nvml.gpus()]
    except DeviceError as error:
        log.debug("no NVIDIA GPU: %s", error.message)
        here = []
    board = open_jetson() if not here else None
    return [*here, *(() if board is None else (board,)), *list_accelerators()]
