"""Checks that driver, GPU and torch are present and compatible."""

from typing import TYPE_CHECKING

from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.devices.nvidia.tools import torch_build
from cotenant.devices.nvidia.torch_side import SEAM, on_cpu
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

if TYPE_CHECKING:
    from cotenant.devices.nvidia.device import CudaDevice

INSTALL = "pip install torch --index-url https://download.pytorch.org/whl/cu126"
NVIDIA = "0x10de"


def versions() -> Finding:
    """The driver and the newest CUDA version it supports."""
    cuda = nvml.cuda_version()
    return Finding("driver", "ok", f"{nvml.driver_version()}" + (f", supports CUDA up to {cuda}" if cuda else ""))


def model(device: "CudaDevice") -> Finding:
    """The GPU."""
    gpu = device.gpu
    capability = ".".join(map(str, gpu.compute_capability))
    text = f"{device.meaning}; {gpu.architecture}, compute capability {capability}, {gpu.uuid}, PCI {gpu.pci}"
    return Finding("GPU", "ok", text)


def torch_for(gpu: GpuFacts | None) -> Finding:
    """Check from its build whether torch can use the GPU, without importing it, which would take seconds."""
    build = torch_build()
    if build is None:
        return Finding("torch", "problem", "torch is not installed: models can't be built", INSTALL)
    if on_cpu():
        text = f"{build.version}, kept on the CPU ({SEAM}=cpu): nothing is computed on the GPU"
        return Finding("torch", "warning", text, f"unset {SEAM}")
    if build.cuda is None:
        text = f"{build.version} is built for {build.built_for}: it can't use an NVIDIA GPU"
        return Finding("torch", "problem", text, INSTALL)
    served = nvml.cuda_version() if gpu is not None else None
    if served is not None and int(build.cuda.partition(".")[0]) > int(served.partition(".")[0]):
        text = f"{build.version} needs CUDA {build.cuda}, but the driver supports up to {served}"
        return Finding("torch", "problem", text, f"update the driver, or {INSTALL}")
    return Finding("torch", "ok", f"{build.version}, built for {build.built_for}")


def hardware(tree: FileTree) -> Finding:
    """Check for an NVIDIA device on the PCI bus."""
    found = [path for path in tree.glob("/sys/bus/pci/devices/*/vendor") if tree.text(path) == NVIDIA]
    loaded = tree.text("/proc/driver/nvidia/version")
    if loaded is not None:
        first = loaded.splitlines()[0].removeprefix("NVRM version:").strip()
        return Finding("kernel module", "ok", f"loaded: {first}")
    if found:
        text = f"{len(found)} NVIDIA device{'s'[: len(found) > 1]} on the PCI bus, but the kernel module is not loaded"
        return Finding("kernel module", "problem", text, "sudo modprobe nvidia, or install the driver")
    return Finding("kernel module", "note", "not loaded, and there is no NVIDIA device on the PCI bus")


def every_gpu() -> tuple[tuple[GpuFacts, ...], dict[int, DeviceError], DeviceError | None]:
    """GPUs that answer, lost GPUs, and the reason if there are none."""
    try:
        return nvml.gpus(), dict(nvml.lost()), None
    except DeviceError as error:
        return (), {}, error
