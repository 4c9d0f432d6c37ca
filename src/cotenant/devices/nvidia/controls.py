"""Clocks, power limit and persistence of a GPU: set, read back, watched, and restored on every exit."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from cotenant import interruption
from cotenant.devices.nvidia import counters, library, notes, nvml
from cotenant.devices.nvidia.gpu_sensors import reasons_function
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
    """Undo what a killed run left; return a sentence for each change undone.

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


PERIOD_S = 0.2
HELD_BACK_SHARE = 0.01
"""A lock that was overridden for less than this share of the time counts as held."""
AWAY_SHARE = 0.02
"""Tolerated deviation from the lock: drivers round to their own steps."""

REASONS: Mapping[int, str] = {
    0x4: "the power limit",
    0x8: "a hardware slowdown",
    0x20: "the driver, for heat",
    0x40: "the hardware, for heat",
    0x80: "the hardware, by a signal of the power supply",
}
IDLE = 0x1
_COUNTERS: Mapping[int, int] = {
    counters.THROTTLED_POWER_CAP: 0x4,
    counters.THROTTLED_THERMAL: 0x20,
    counters.THROTTLED_THERMAL_HARDWARE: 0x40,
    counters.THROTTLED_POWER_BRAKE: 0x80,
}


@dataclass(slots=True)
class Seen:
    """Observations so far."""

    readings: int = 0
    busy: int = 0
    held_back: dict[int, int] = field(default_factory=dict)
    """Readings with this reason."""
    clocks_mhz: list[int] = field(default_factory=list)
    """Clocks while the GPU was busy and unthrottled."""


class ClockWatch:
    """Watches a GPU from a runner thread while its clock is locked; a context manager."""

    def __init__(self, gpu: GpuFacts) -> None:
        self._gpu, self._device = gpu, handle(gpu)
        self._clock = library.function("nvmlDeviceGetClockInfo")
        name = reasons_function(gpu)
        self._reasons = library.function(name) if name else None
        self._counters = [number for number in _COUNTERS if number in counters.supported(gpu, list(_COUNTERS))]
        self._error = library.nvml_error()
        self._seen = Seen()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock watch", daemon=True)
        self._begin = self._end = [0.0] * len(self._counters)
        self._seconds = 0.0

    def __enter__(self) -> Self:
        """Note the counters and start watching."""
        self._seconds = time.monotonic()
        self._begin = self._count()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()
        self._end = self._count()
        self._seconds = time.monotonic() - self._seconds

    def violations(self, locked_mhz: int | None) -> list[str]:
        """One sentence for each way in which the lock did not hold; call after leaving.

        Args:
            locked_mhz: The locked clock; None means the driver's base clock.
        """
        seen, found = self._seen, []
        for bit, share in self._shares().items():
            if share > HELD_BACK_SHARE:
                to = f" to {locked_mhz} MHz" if locked_mhz else ""
                found.append(
                    f"the clock of {self._gpu.label} was locked{to}, but {REASONS[bit]} held it back for "
                    f"{share:.0%} of the trial"
                )
        if found or locked_mhz is None or not seen.clocks_mhz:
            return found
        median = sorted(seen.clocks_mhz)[len(seen.clocks_mhz) // 2]
        if abs(median - locked_mhz) > AWAY_SHARE * locked_mhz:
            found.append(f"the clock of {self._gpu.label} read {median} MHz though it was locked to {locked_mhz} MHz")
        return found

    def _shares(self) -> dict[int, float]:
        """Share of the time that each reason held the clock back: from counters, else from observations."""
        shares: dict[int, float] = {}
        for number, begin, end in zip(self._counters, self._begin, self._end, strict=True):
            if end >= begin and self._seconds > 0:  # not a number, or the counter was reset: claim nothing
                shares[_COUNTERS[number]] = (end - begin) / 1e9 / self._seconds
        for bit, times in self._seen.held_back.items():
            shares.setdefault(bit, times / max(1, self._seen.readings))
        return shares

    def _count(self) -> list[float]:
        try:
            return counters.Fields(self._gpu, self._counters).read() if self._counters else []
        except (self._error, library.DriverProblem):
            return [float("nan")] * len(self._counters)

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            try:
                reasons = int(self._reasons(self._device)) if self._reasons else 0
                clock = int(self._clock(self._device, 1))
            except self._error:
                continue  # a lost GPU is reported by its sensors
            seen = self._seen
            seen.readings += 1
            for bit in REASONS:
                if reasons & bit:
                    seen.held_back[bit] = seen.held_back.get(bit, 0) + 1
            if self._reasons and not reasons & IDLE and not any(reasons & bit for bit in REASONS):
                seen.clocks_mhz.append(clock)
