"""Checks whether this GPU is ready to be measured: a function per question, each with the step that fixes it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.devices.cpu.checkup import software
from cotenant.devices.nvidia.checkup import sharings, sources, state
from cotenant.devices.nvidia.checkup.sharings import fix, restore
from cotenant.devices.nvidia.library import DriverProblem
from cotenant.devices.protocol import Device, Finding
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

if TYPE_CHECKING:
    from cotenant.devices.nvidia.cuda_device import CudaDevice

__all__ = ["absent", "checkup", "every_gpu_checked", "fixed", "restore"]


def checkup(device: "CudaDevice", tree: FileTree | None = None) -> tuple[Finding, ...]:
    """Findings on a GPU, after watching its sensors for about three seconds."""
    tree = tree or FileTree()
    gpu = device.gpu
    found: list[Finding | None] = [state.versions(), state.model(device), state.torch_for(gpu)]
    try:
        found += [
            state.compute_mode_now(gpu),
            state.persistence(gpu),
            state.ecc(gpu),
            state.memory(gpu),
            state.foreign_processes(gpu),
            state.power_limit(gpu),
            state.clocks(gpu),
            state.temperature(gpu),
            state.controls(gpu),
            *sources.every(device),
            sources.profiling_counters(tree),
            *sharings.every(device.place()),
            sharings.system_daemon(tree),
            sharings.instances(gpu),
            *sharings.left_behind(),
        ]
    except DriverProblem as problem:  # lost during the check
        found.append(Finding("GPU", "problem", problem.message, problem.hint))
    found += [software.python_version(), software.disk_space(Path.cwd())]
    return tuple(finding for finding in found if finding is not None)


def absent(error: DeviceError, tree: FileTree | None = None) -> tuple[Finding, ...]:
    """Findings when the requested GPU is missing."""
    found = [
        Finding("GPU", "problem", error.message, error.hint),
        state.hardware(tree or FileTree()),
        state.torch_for(None),
        *sharings.left_behind(),
    ]
    return tuple(finding for finding in found if finding is not None)


def every_gpu_checked() -> tuple[Finding, ...]:
    """Findings for every GPU; a single line on a machine without any."""
    from cotenant.devices.nvidia.cuda_device import open_cuda
    from cotenant.devices.nvidia.jetson_device import open_jetson

    gpus, lost, why_none = state.every_gpu()
    findings: list[Finding] = []
    for gpu in gpus:
        device = open_cuda(str(gpu.index))
        findings += [
            replace(finding, subject=f"cuda:{gpu.index} {finding.subject}")
            for finding in device.checkup()
            if finding.subject not in {"Python", "disk"}  # reported for the CPU
        ]
    findings += [
        Finding(f"cuda:{index} GPU", "problem", problem.message, problem.hint) for index, problem in lost.items()
    ]
    board = open_jetson() if not gpus else None
    if board is not None:
        return board.checkup()
    if why_none is not None:
        findings.append(Finding("NVIDIA GPUs", "note", why_none.message, "cotenant doctor --device cuda:0 says more"))
    elif not findings:
        findings.append(Finding("NVIDIA GPUs", "note", "the driver is installed and sees none"))
    return tuple(findings)


def fixed(device: Device | None) -> tuple[Finding, ...]:
    """What was fixed of a GPU, or of all; nothing of another device."""
    from cotenant.devices.nvidia.cuda_device import CudaDevice

    gpus = state.every_gpu()[0] if device is None else [device.gpu] if isinstance(device, CudaDevice) else []
    return tuple(fix(gpus))
