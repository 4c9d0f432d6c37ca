"""Checks whether this GPU is ready to be measured: a function per question, each with the step that fixes it."""

from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.devices.cpu.checkup import software
from cotenant.devices.nvidia.checkup import sharings, sources, state
from cotenant.devices.nvidia.checkup.sharings import fix, restore
from cotenant.devices.nvidia.library import DriverProblem
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

if TYPE_CHECKING:
    from cotenant.devices.nvidia.cuda_device import CudaDevice

__all__ = ["absent", "checkup", "fix", "restore"]


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
