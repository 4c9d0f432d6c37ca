"""Selects a pass's profiler: Nsight Systems where installed and the device is a GPU, otherwise torch.profiler."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cotenant.devices.protocol import Device
from cotenant.errors import DeviceError
from cotenant.measure.profile.tenant_side import VARIABLE

NSYS, TORCH = "nsys", "torch"
TIMEOUT_S = 900.0
HELP_S = 60.0
METRICS_HZ = 10_000
ON_A_CPU = "On a CPU the kernels are torch's operators, from call to return, including waits for a core."
_NO_METRICS = {
    r"ERR_NVGPUCTRPERM|insufficient privilege|permission": "the profiling counters are for root only: run as root, or "
    "load the driver with NVreg_RestrictProfilingToAdminUsers=0",
    r"unsupported|not supported|none of the installed": "this GPU is older than Turing, which nsys can't sample",
    r"already (in use|under)|another": "another profiler or DCGM holds the counters (dcgmi profile --pause)",
}
"""nsys messages when it can't sample counters, and their meaning."""


@dataclass(frozen=True, slots=True)
class TorchTool:
    """torch.profiler, inside each tenant."""

    name: str = TORCH
    notes: tuple[str, ...] = ()

    def command(self, command: Sequence[str], folder: Path) -> list[str]:  # noqa: ARG002 - the same call for every profiler
        """The command itself."""
        return list(command)

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Profile itself, writing there."""
        return {VARIABLE: f"torch:{folder}"}

    def export(self, folder: Path) -> Path | None:  # noqa: ARG002 - the same call for every profiler
        """Nothing to do."""
        return None


@dataclass(frozen=True, slots=True)
class NsysTool:
    """Nsight Systems, around the trial and all of its processes."""

    path: str
    metrics: tuple[str, ...] = ()
    """Options that enable sampling of GPU counters."""
    name: str = NSYS
    notes: tuple[str, ...] = field(default=())

    def command(self, command: Sequence[str], folder: Path) -> list[str]:
        """Under `nsys profile`."""
        options = ["--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", *self.metrics]
        return [self.path, "profile", *options, f"--output={folder / 'report'}", *command]

    def environment(self, folder: Path) -> Mapping[str, str]:  # noqa: ARG002 - the same call for every profiler
        """Mark its work."""
        return {VARIABLE: "ranges"}

    def export(self, folder: Path) -> Path:
        """The report as SQLite. Raises DeviceError with nsys's message."""
        report, target = folder / "report.nsys-rep", folder / "report.sqlite"
        arguments = ["export", "--type=sqlite", "--force-overwrite=true", f"--output={target}", str(report)]
        done = _run([self.path, *arguments], TIMEOUT_S)
        if not target.exists():
            raise DeviceError(
                f"nsys did not export its report: {last_line(done) or 'no error message'}.",
                hint="profile without it: --tool torch",
            )
        return target


Tool = TorchTool | NsysTool
"""A profiler around a trial: its command, the tenants' environment, where kernels are afterwards."""


def choose(device: Device, wanted: str | None) -> Tool:
    """The profiler for a device.

    Raises:
        DeviceError: The requested profiler is missing, or nothing on this device can be profiled.
    """
    if device.simulated:
        raise DeviceError(
            f"{device.name} is simulated: there are no real kernels to profile",
            hint="profile on a real device, e.g. --device cpu; `cotenant explain RUN` says what binds its tenants",
        )
    path = shutil.which("nsys")
    if wanted == NSYS and path is None:
        raise DeviceError("nsys is not installed", hint="install Nsight Systems, or use --tool torch")
    index = device.nsys_index
    on_a_cpu = device.kind == "cpu" or device.stand_in
    if wanted == TORCH:
        return TorchTool(notes=(ON_A_CPU,) if on_a_cpu else ())
    if path is None or (index is None and wanted is None):
        missing = "nsys is not installed" if index is not None else "nsys profiles NVIDIA GPUs only"
        said = f"{missing}: torch.profiler recorded kernels inside each tenant, without GPU counters."
        return TorchTool(notes=(ON_A_CPU if on_a_cpu else said,))
    options, note = _metric_options(path, index)
    return NsysTool(path, options, notes=(note,) if note else ())


def interpreter() -> list[str]:
    """How our Python modules are started."""
    return [sys.executable, "-m"]


def last_line(done: "subprocess.CompletedProcess[str] | None") -> str:
    """The last line a tool printed."""
    if done is None:
        return "it did not answer"
    lines = [line.strip() for text in (done.stderr, done.stdout) for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _metric_options(nsys: str, index: int | None) -> tuple[tuple[str, ...], str | None]:
    """Options to sample the GPU's counters; or none, and why."""
    if index is None:
        return (), None
    for option in ("--gpu-metrics-devices", "--gpu-metrics-device"):  # the second is the older name
        done = _run([nsys, "profile", f"{option}=help"], HELP_S)
        output = "" if done is None else done.stdout + done.stderr
        if re.search(r"unrecogni[sz]ed option|unknown option", output, re.IGNORECASE):
            continue
        for pattern, why in _NO_METRICS.items():
            if re.search(pattern, output, re.IGNORECASE):
                return (), f"No SM, tensor core and DRAM timelines: {why}."
        return (f"{option}={index}", f"--gpu-metrics-frequency={METRICS_HZ}"), None
    return (), "No SM, tensor core and DRAM timelines: this release of nsys can't sample GPU counters."


def _run(command: Sequence[str], timeout_s: float) -> "subprocess.CompletedProcess[str] | None":
    try:
        return subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
