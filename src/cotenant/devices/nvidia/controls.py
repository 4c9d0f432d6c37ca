"""Clocks, power limit and persistence of a GPU: set, read back, watched, and restored on every exit."""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cotenant import interruption
from cotenant.devices.nvidia import library, notes, nvml
from cotenant.devices.nvidia.clock_watch import ClockWatch
from cotenant.devices.nvidia.notes import SettingsNote
from cotenant.devices.nvidia.nvml import GpuFacts, handle
from cotenant.devices.nvidia.settings import Wanted, check

BASE_CLOCK = 0xFFFFFF01
"""NVML's symbol for the clock that the rated power sustains."""
NEAR_W = 1.0
"""A limit that reads back within this distance counts as set."""


@contextmanager
def applied(gpu: GpuFacts, settings: Mapping[str, Any]) -> Iterator[list[str]]:
    """Set the controls; yield a list of problems that is complete after leaving.

    Everything is restored on exit, also after an exception, Ctrl-C or SIGTERM. A note on disk lets
    `restore` or the next run do it after a kill: a trial without settings must not inherit another's.

    Args:
        gpu: The GPU.
        settings: See `settings.CONTROLS`; if empty, only leftovers of a killed run are undone.

    Raises:
        DeviceError: A setting is unknown or out of range.
        DriverProblem: The driver refuses, usually because it requires root.
    """
    wanted = check(gpu, settings)
    if not wanted.anything:
        yield _left_in_force(gpu)
        return
    restore(gpu, own=True)
    before = _before(gpu, wanted)
    with ExitStack() as undo:
        undo.enter_context(_sigterm_unwinds())
        notes.write(gpu.uuid, before)
        undo.callback(_put_back, gpu, before)
        _set(gpu, wanted)
        violations = _read_back(gpu, wanted)
        if not wanted.locks_clock:
            yield violations
            return
        with ClockWatch(gpu) as watch:
            yield violations
        violations += watch.violations(wanted.sm_clock_mhz)


def require_permission(gpu: GpuFacts, settings: Mapping[str, Any]) -> None:
    """Refuse settings this user may not set, by asking the driver to keep a mode as it is. Sets nothing.

    Raises:
        DeviceError: A setting is unknown or out of range.
        DriverProblem: It requires root.
    """
    first = next(_steps(check(gpu, settings)), None)
    if first is None:
        return
    try:
        mode = library.call("nvmlDeviceGetPersistenceMode", handle(gpu), of=gpu.label)
        library.call("nvmlDeviceSetPersistenceMode", handle(gpu), mode, of=gpu.label)
    except library.DriverProblem as problem:
        if problem.trouble == "no permission":  # any other failure says nothing about the settings
            raise _root_only(gpu, first, problem) from None


def restore(gpu: GpuFacts, *, own: bool = False) -> tuple[str, ...]:
    """Undo what a killed run left; return one sentence for each change undone.

    Args:
        gpu: The GPU.
        own: Also undo what this process could not, because the GPU was lost.

    Raises:
        DriverProblem: It requires root.
    """
    note = notes.read(gpu.uuid)
    if note is None or not (note.orphaned or (own and note.pid == os.getpid())):
        return ()
    _undo(gpu, note.before)
    notes.remove(gpu.uuid)
    return tuple(done for _, done in _work(gpu, note.before))


def _left_in_force(gpu: GpuFacts) -> list[str]:
    """Undo what a killed run left; return a sentence if that fails."""
    try:
        restore(gpu, own=True)
    except library.DriverProblem as problem:
        left = f"clocks or limits of {gpu.label} are still as an earlier run set them, and can't be restored"
        return [f"{left}: {problem.message}"]
    return []


def left_behind() -> Mapping[str, tuple[str, ...]]:
    """Pending restores by UUID: GPUs whose controls a killed run left changed."""
    found = {}
    for gpu in nvml.gpus():
        note = notes.read(gpu.uuid)
        if note is not None and note.orphaned:
            found[gpu.uuid] = tuple(to_do for to_do, _ in _work(gpu, note.before))
    return found


def _before(gpu: GpuFacts, wanted: Wanted) -> SettingsNote:
    device = handle(gpu)
    watts = persistence = None
    if wanted.power_limit_w is not None:
        watts = library.call("nvmlDeviceGetPowerManagementLimit", device, of=gpu.label) / 1e3
    if wanted.persistence is not None:
        persistence = bool(library.call("nvmlDeviceGetPersistenceMode", device, of=gpu.label))
    return SettingsNote(
        power_limit_w=watts,
        persistence=persistence,
        unlock_sm=wanted.locks_clock,
        unlock_memory=wanted.mem_clock_mhz is not None,
    )


def _set(gpu: GpuFacts, wanted: Wanted) -> None:
    for step in _steps(wanted):
        try:
            library.call(step.function, handle(gpu), *step.arguments, of=gpu.label)
        except library.DriverProblem as problem:
            if problem.trouble != "no permission":
                raise
            raise _root_only(gpu, step, problem) from None


def _root_only(gpu: GpuFacts, step: "_Step", problem: library.DriverProblem) -> library.DriverProblem:
    by_hand = f"`sudo nvidia-smi -i {gpu.index} {step.by_hand}`"
    return library.DriverProblem(
        f"only root can set {step.control} of {gpu.label}",
        trouble=problem.trouble,
        code=problem.code,
        hint=f"run as root; or run {by_hand} and leave {step.control!r} out of the settings",
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """One driver call, and the equivalent command for a user."""

    control: str
    function: str
    arguments: tuple[int, ...]
    by_hand: str


def _steps(wanted: Wanted) -> Iterator[_Step]:
    if wanted.persistence is not None:  # first: otherwise the other settings are lost when the last process ends
        on = int(wanted.persistence)
        yield _Step("persistence", "nvmlDeviceSetPersistenceMode", (on,), f"-pm {on}")
    if wanted.power_limit_w is not None:
        watts = wanted.power_limit_w
        yield _Step("power_limit_w", "nvmlDeviceSetPowerManagementLimit", (round(watts * 1e3),), f"-pl {watts:g}")
    if wanted.mem_clock_mhz is not None:
        mhz = wanted.mem_clock_mhz
        yield _Step("mem_clock_mhz", "nvmlDeviceSetMemoryLockedClocks", (mhz, mhz), f"-lmc {mhz},{mhz}")
    if wanted.to_base:
        yield _Step("boost", "nvmlDeviceSetGpuLockedClocks", (BASE_CLOCK, BASE_CLOCK), "-lgc tdp,tdp")
    elif wanted.sm_clock_mhz is not None:
        mhz = wanted.sm_clock_mhz
        yield _Step("sm_clock_mhz", "nvmlDeviceSetGpuLockedClocks", (mhz, mhz), f"-lgc {mhz},{mhz}")


def _read_back(gpu: GpuFacts, wanted: Wanted) -> list[str]:
    """Read back the change. Locked clocks can't be read: they are watched instead."""
    device, found = handle(gpu), []
    if wanted.power_limit_w is not None:
        got = library.call("nvmlDeviceGetEnforcedPowerLimit", device, of=gpu.label) / 1e3
        if abs(got - wanted.power_limit_w) > NEAR_W:
            found.append(f"the power limit of {gpu.label} reads {got:g} W, was set to {wanted.power_limit_w:g} W")
    if wanted.persistence is not None:
        on = bool(library.call("nvmlDeviceGetPersistenceMode", device, of=gpu.label))
        if on != wanted.persistence:
            found.append(f"persistence of {gpu.label} is {'on' if on else 'off'} after being set to the opposite")
    return found


def _put_back(gpu: GpuFacts, before: SettingsNote) -> None:
    """Restore on exit. A lost GPU can't be restored; the note stays until it returns."""
    with suppress(library.DriverProblem):
        _undo(gpu, before)
        notes.remove(gpu.uuid)


def _undo(gpu: GpuFacts, before: SettingsNote) -> None:
    device, of = handle(gpu), gpu.label
    if before.unlock_sm:
        library.call("nvmlDeviceResetGpuLockedClocks", device, of=of)
    if before.unlock_memory:
        library.call("nvmlDeviceResetMemoryLockedClocks", device, of=of)
    if before.power_limit_w is not None:
        library.call("nvmlDeviceSetPowerManagementLimit", device, round(before.power_limit_w * 1e3), of=of)
    if before.persistence is not None:
        library.call("nvmlDeviceSetPersistenceMode", device, int(before.persistence), of=of)


def _work(gpu: GpuFacts, before: SettingsNote) -> Iterator[tuple[str, str]]:
    """What to restore: as an instruction, and as a report once done."""
    of = gpu.label
    if before.unlock_sm:
        yield f"unlock the SM clock of {of}", f"the SM clock of {of} is unlocked"
    if before.unlock_memory:
        yield f"unlock the memory clock of {of}", f"the memory clock of {of} is unlocked"
    if before.power_limit_w is not None:
        watts = f"{before.power_limit_w:g} W"
        yield f"set the power limit of {of} back to {watts}", f"the power limit of {of} is {watts} again"
    if before.persistence is not None:
        on = "on" if before.persistence else "off"
        yield f"turn persistence of {of} {on}", f"persistence of {of} is {on} again"


@contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does, running every cleanup."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals; the note on disk remains
        return

    previous = signal.signal(signal.SIGTERM, interruption.strike)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous or signal.SIG_DFL)
