"""Current state of the GPU: modes, limits, clocks, temperature, other processes."""

import os
from typing import TYPE_CHECKING

from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.gpu_sensors import reasons_function
from cotenant.devices.nvidia.library import ask
from cotenant.devices.nvidia.nvml import GpuFacts, handle
from cotenant.devices.nvidia.sharing import compute_mode
from cotenant.devices.nvidia.tools import torch_build
from cotenant.devices.nvidia.torch_side import SEAM, on_cpu
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

if TYPE_CHECKING:
    from cotenant.devices.nvidia.cuda_device import CudaDevice


NEAR_C = 5
SLOWED = {
    0x04: "the power limit lowers the clock",
    0x08: "the hardware lowers the clock",
    0x20: "the driver lowers the clock because of heat",
    0x40: "the hardware lowers the clock because of heat",
    0x80: "the power supply signals a slowdown",
}
"""Bits of the driver's event reasons."""
LOCKED = 0x02
_SLOWDOWN, _VOLATILE, _UNCORRECTED = 1, 0, 1


def compute_mode_now(gpu: GpuFacts) -> Finding | None:
    """The compute mode: how many processes may use the GPU."""
    now = compute_mode.read(gpu)
    if now is None:
        return None
    if now == compute_mode.DEFAULT:
        return Finding("compute mode", "ok", "default: several processes may share the GPU")
    fix = f"sudo nvidia-smi -i {gpu.index} -c 0"
    name = compute_mode.NAMES.get(now, str(now))
    if now == compute_mode.PROHIBITED:
        return Finding("compute mode", "problem", f"{name}: no process may use the GPU", fix)
    return Finding("compute mode", "warning", f"{name}: one process only, so `processes` can't be measured", fix)


def persistence(gpu: GpuFacts) -> Finding | None:
    """Check that the driver stays loaded."""
    if gpu.persistence is None:
        return None
    if gpu.persistence:
        return Finding("persistence", "ok", "on")
    text = "off: the driver unloads when the GPU is unused, losing settings and energy counters"
    return Finding("persistence", "warning", text, f"sudo nvidia-smi -i {gpu.index} -pm 1 (or: cotenant doctor --fix)")


def ecc(gpu: GpuFacts) -> Finding | None:
    """Check ECC, and for uncorrected memory errors."""
    if gpu.ecc is None:
        return None
    broken = ask("nvmlDeviceGetTotalEccErrors", handle(gpu), _UNCORRECTED, _VOLATILE, of=gpu.label)
    if broken:
        text = f"{broken} uncorrected memory errors since the driver was loaded: results may be wrong"
        return Finding(
            "ECC", "problem", text, f"sudo nvidia-smi -i {gpu.index} --gpu-reset; replace the card if they recur"
        )
    return Finding("ECC", "ok" if gpu.ecc else "note", "on" if gpu.ecc else "off: memory errors go unnoticed")


def memory(gpu: GpuFacts) -> Finding:
    """Free memory."""
    free, total = nvml.free_memory_bytes(gpu), gpu.memory_bytes
    text = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    return Finding("memory", "ok" if free > 0.9 * total else "note" if free > 0.5 * total else "warning", text)


def foreign_processes(gpu: GpuFacts) -> Finding:
    """Other processes on it."""
    others = [process for process in nvml.processes(gpu) if process.pid != os.getpid()]
    if not others:
        return Finding("other processes", "ok", "none")
    named = [
        f"{(process.name or '?').rpartition('/')[2]} (pid {process.pid}"
        + (f", {process.memory_bytes / 2**30:.1f} GiB)" if process.memory_bytes else ")")
        for process in others[:3]
    ]
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    text = f"{', '.join(named)}{more}: their load counts as slowdown of the tenants"
    return Finding("other processes", "warning", text, f"stop them: kill {' '.join(str(one.pid) for one in others)}")


def power_limit(gpu: GpuFacts) -> Finding | None:
    """Check that the power limit is the default."""
    limits = gpu.power_limits
    if limits is None:
        return Finding("power limit", "note", "not reported by this GPU")
    if limits.now < limits.default - 1:
        text = f"{limits.now:g} W, below the usual {limits.default:g} W: the clock will drop under load"
        return Finding("power limit", "warning", text, f"sudo nvidia-smi -i {gpu.index} -pl {limits.default:g}")
    return Finding("power limit", "ok", f"{limits.now:g} W (can be {limits.low:g} to {limits.high:g} W)")


def clocks(gpu: GpuFacts) -> Finding | None:
    """The current clock and what lowers it."""
    now = ask("nvmlDeviceGetClockInfo", handle(gpu), 1, of=gpu.label)
    if now is None:
        return None
    told_by = reasons_function(gpu)
    reasons = int((told_by and ask(told_by, handle(gpu), of=gpu.label)) or 0)
    slowed = [words for bit, words in SLOWED.items() if reasons & bit]
    top = f" of at most {gpu.sm_clocks_mhz[0]}" if gpu.sm_clocks_mhz else ""
    text = f"SMs at {now}{top} MHz"
    if told_by is None:
        return Finding("clocks", "note", f"{text}; this driver does not report what lowers them")
    if slowed:
        fix = "let it cool down, or lock a clock it can sustain: settings: [{sm_clock_mhz: 70%}] (needs root)"
        return Finding("clocks", "warning", f"{text}: {'; '.join(slowed)}", fix)
    if reasons & LOCKED:
        text += ", locked or set by an administrator"
        return Finding("clocks", "note", text, f"sudo nvidia-smi -i {gpu.index} -rgc, if unintended")
    return Finding("clocks", "ok", f"{text}, free to boost: they follow power and heat unless a study locks them")


def temperature(gpu: GpuFacts) -> Finding | None:
    """Distance from the throttling temperature."""
    now = ask("nvmlDeviceGetTemperature", handle(gpu), 0, of=gpu.label)
    if now is None:
        return None
    limit = ask("nvmlDeviceGetTemperatureThreshold", handle(gpu), _SLOWDOWN, of=gpu.label)
    text = f"{now} °C" + (f"; it throttles at {limit} °C" if limit else "")
    if limit and now >= limit - NEAR_C:
        return Finding("temperature", "warning", text, "let it cool down, or improve its airflow")
    return Finding("temperature", "ok", text)


def controls(gpu: GpuFacts) -> Finding:
    """Check whether this user may set clocks and limits."""
    if compute_mode.may_write(gpu):
        return Finding("controls", "ok", "clocks, power limit and modes can be set")
    text = "only root may set clocks, power limit and modes: runs leave the clocks alone and record them"
    return Finding("controls", "note", text, "run studies with `settings` as root")


# --- checks that driver, GPU and torch are present and compatible

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
