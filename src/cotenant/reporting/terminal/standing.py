"""The state of a run: events folded into one value, and its text. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cotenant.measure.events import (
    BlockDone,
    DeviceAt,
    Event,
    Noticed,
    Preparing,
    RunEnded,
    RunStarted,
    TrialDone,
    TrialStarted,
)
from cotenant.reporting.terminal.literal import literal
from cotenant.text import duration, percent, ratio, with_interval

WIDEST_SHOWN = 2.0
"""Wider relative intervals are not shown: they mean that nothing is known yet."""


@dataclass(frozen=True, slots=True)
class ProgressState:
    """Everything a progress display shows."""

    run: RunStarted | None = None
    doing: str = "getting ready"
    done_trials: int = 0
    block: int | None = None
    last_block: BlockDone | None = None
    not_valid: int = 0
    trouble: str | None = None
    """The reason of the latest trial that was not valid."""
    ended: str | None = None
    devices: Mapping[str, DeviceAt] = field(default_factory=dict)
    """Devices measured at the same time, by name."""


def after(standing: ProgressState, event: Event) -> ProgressState:  # noqa: PLR0911 - one return per case
    """The state after the event."""
    match event:
        case RunStarted():
            return replace(standing, run=event, done_trials=event.done_trials)
        case Preparing():
            return replace(standing, doing=event.text)
        case Noticed():
            return standing
        case DeviceAt():
            devices = {**standing.devices, event.device: event}
            before = standing.run.done_trials if standing.run is not None else 0
            return replace(standing, devices=devices, done_trials=before + sum(one.trials for one in devices.values()))
        case TrialStarted():
            return replace(standing, doing=f"{event.mix}, {event.sharing}, {event.load}", block=event.block)
        case TrialDone(verdict="valid"):
            return replace(standing, done_trials=standing.done_trials + 1)
        case TrialDone():
            reason = f"{event.mix}, {event.sharing}: {event.verdict}: {'; '.join(event.reasons) or 'no reason given'}"
            return replace(
                standing, done_trials=standing.done_trials + 1, not_valid=standing.not_valid + 1, trouble=reason
            )
        case BlockDone():
            return replace(standing, last_block=event)
        case RunEnded():
            return replace(standing, ended=event.why)


def fraction(standing: ProgressState) -> float | None:
    """Fraction done, 0 to 1; None if unknown. Based on time rather than trials, since a run may stop early."""
    block = standing.last_block
    if block is not None and block.left_s is not None and block.elapsed_s + block.left_s > 0:
        return block.elapsed_s / (block.elapsed_s + block.left_s)
    if standing.run is None or not standing.run.trials_per_block:
        return None
    return min(1.0, standing.done_trials / (standing.run.trials_per_block * standing.run.blocks_min))


def headline(standing: ProgressState) -> str:
    """The study, device and progress: `quick on cpu, trial 5 of at least 24`."""
    run = standing.run
    if run is None:
        return "getting ready"
    label = "SIMULATED " if run.simulated else ""
    least, most = (run.trials_per_block * blocks for blocks in (run.blocks_min, run.blocks_max))
    number = min(standing.done_trials + 1, most)
    # The total is known only if fixed; otherwise time and precision decide.
    span = f" of {most}" if least == most else f" of at least {least}" if number < least else ""
    return literal(f"{label}{run.study} on {run.device}, trial {number}{span}")


def precision(standing: ProgressState) -> str:
    """The widest interval against the target, and the time left."""
    block, run = standing.last_block, standing.run
    if block is None or run is None:
        return ""
    parts = []
    if block.widest is not None:
        target = f" (target ±{percent(run.target)})" if run.target is not None else ""
        width = f"±{percent(block.widest)}" if block.widest < WIDEST_SHOWN else f"more than ±{percent(WIDEST_SHOWN)}"
        parts.append(f"widest interval {width}{target}")
    if block.left_s is not None:
        parts.append(f"about {_duration(block.left_s, standing)} left")
    return ", ".join(parts)


def estimates(standing: ProgressState, most: int = 2) -> tuple[str, ...]:
    """The largest slowdowns so far."""
    if standing.last_block is None:
        return ()
    largest = sorted(standing.last_block.estimates, key=lambda current: -current.slowdown.est)[:most]
    return tuple(
        literal(f"{now.tenant} {with_interval(now.slowdown, ratio)} in {now.mix}, {now.sharing}") for now in largest
    )


def devices(standing: ProgressState, most: int = 12) -> tuple[tuple[str, str, str], ...]:
    """One row per busy device: name, trials, activity; limited to the first few."""
    rows = [(literal(name), str(at.trials), literal(at.doing)) for name, at in sorted(standing.devices.items())]
    more = len(rows) - most
    return (*rows[:most], (f"and {more} more", "", "")) if more > 0 else tuple(rows)


def trouble(standing: ProgressState) -> str:
    """The number of trials not valid, and the latest reason."""
    if not standing.not_valid:
        return ""
    trials = "trial" if standing.not_valid == 1 else "trials"
    return literal(f"{standing.not_valid} {trials} not valid; the latest: {standing.trouble}")


def ending(standing: ProgressState) -> str:
    """The last line: the number of trials, and why it stopped."""
    block = standing.last_block
    time = f" in {_duration(block.elapsed_s, standing)}" if block is not None else ""
    return literal(f"{standing.done_trials} trials{time}; stopped: {standing.ended}")


def _duration(seconds: float, standing: ProgressState) -> str:
    """A simulated run is over sooner than the time that it simulates."""
    simulated = standing.run is not None and standing.run.simulated
    return duration(seconds) + (" of simulated time" if simulated else "")
