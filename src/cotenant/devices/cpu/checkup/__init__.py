"""Checks whether this CPU is ready to be measured: a function per question, each with the step that fixes it."""

from collections.abc import Callable
from pathlib import Path

from cotenant.devices.cpu.checkup import limits, load, software
from cotenant.devices.cpu.cores import Cores
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree

_CHECKS: tuple[Callable[[FileTree, Cores], Finding | None], ...] = (
    limits.cores,
    limits.hyper_threads,
    limits.quota,
    limits.virtual_machine,
    limits.tile_instructions,
    limits.governor,
    limits.boost,
    limits.huge_pages,
    limits.memory,
    limits.swap,
    limits.energy_sensor,
    limits.hardware_counters,
)


def checkup(tree: FileTree, cores: Cores) -> tuple[Finding, ...]:
    """Return the findings. Takes half a second, and a few more the first time to measure the peak rates."""
    found = [check(tree, cores) for check in _CHECKS]
    found += load.over_a_moment(tree, cores)
    found += [
        load.load_average(tree, cores),
        load.sleep_overshoot(),
        software.torch_build(cores),
        software.thread_environment(),
        software.waiting_threads(cores),
        software.python_version(),
        software.disk_space(Path.cwd()),
        limits.peak_rates(tree, cores),
    ]
    return tuple(finding for finding in found if finding is not None)
