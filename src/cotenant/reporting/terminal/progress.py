"""Progress of a run on stderr, drawn on events only.

The parent shares the machine with what it measures, so there is no refresh thread that could disturb a trial.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cotenant.measure.events import (
    BlockDone,
    DeviceAt,
    Event,
    Listener,
    Noticed,
    Preparing,
    RunEnded,
    RunStarted,
    TrialDone,
    TrialStarted,
    silent,
)
from cotenant.text import amount, duration, literal, percent, ratio, with_interval

# --- the state of a run: events folded into one value, and its text. Pure

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
            return replace(
                standing, devices=devices, done_trials=before + sum(device.trials for device in devices.values())
            )
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
    return literal(f"{amount(standing.not_valid, 'trial')} not valid; the latest: {standing.trouble}")


def ending(standing: ProgressState) -> str:
    """The last line: the number of trials, and why it stopped."""
    block = standing.last_block
    time = f" in {_duration(block.elapsed_s, standing)}" if block is not None else ""
    return literal(f"{amount(standing.done_trials, 'trial')}{time}; stopped: {standing.ended}")


def _duration(seconds: float, standing: ProgressState) -> str:
    """A simulated run is over sooner than the time that it simulates."""
    simulated = standing.run is not None and standing.run.simulated
    return duration(seconds) + (" of simulated time" if simulated else "")


REDRAW_S = 0.25
"""Minimum seconds between redraws, however fast trials follow each other."""

LINE_S = 5.0
"""Minimum seconds between lines: short blocks finish many times a second."""

LASTING = (RunStarted, Preparing, TrialStarted, DeviceAt)
"""Events that last long enough to be seen; the others are followed by one of these at once."""


@contextmanager
def watch(console: Console, clock: Callable[[], float] = time.monotonic) -> Iterator[Listener]:
    """A listener that displays the run: live on a terminal, else one plain line per block."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield _lines(console, clock)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _drawing(live, clock)


def _drawing(live: Live, clock: Callable[[], float]) -> Listener:
    standing = ProgressState()
    drawn: dict[type[Event], float] = {}

    def listen(event: Event) -> None:
        nonlocal standing
        standing = after(standing, event)
        kind, now = type(event), clock()
        for line in event.demands if isinstance(event, RunStarted) else ():
            live.console.print(Text(literal(line), "dim"))
        if isinstance(event, Noticed):
            live.console.print(Text(literal(event.text), "yellow"))
        elif kind is RunEnded:
            live.console.print(Text(ending(standing), "dim"))
        elif kind in LASTING and now - drawn.get(kind, float("-inf")) >= REDRAW_S:
            live.update(picture(standing), refresh=True)
            drawn[kind] = now

    return listen


def _lines(console: Console, clock: Callable[[], float]) -> Listener:
    standing = ProgressState()
    last = float("-inf")

    def say(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    def listen(event: Event) -> None:
        nonlocal standing, last
        standing = after(standing, event)
        match event:
            case Noticed():
                say(literal(event.text))
            case RunStarted():
                going_on = f"resuming after {event.done_trials} trials" if event.resumed else "started"
                say(f"{headline(standing)}: {going_on}, records in {event.folder}")
                for line in event.demands:
                    say(literal(line))
            case BlockDone() if clock() - last >= LINE_S:
                last = clock()
                parts = (f"block {event.block + 1} done", precision(standing), trouble(standing))
                say("; ".join(part for part in parts if part))
            case DeviceAt() if clock() - last >= LINE_S:
                last = clock()
                at_work = sum(not device.lost for device in standing.devices.values())
                say(f"{standing.done_trials} trials done, {at_work} busy")
            case RunEnded():
                say(ending(standing))

    return listen


def picture(standing: ProgressState) -> Group:
    """The live display: progress, current trial, precision, estimates so far."""
    top = Table.grid(padding=(0, 1), expand=True)
    top.add_column(no_wrap=True)
    top.add_column(ratio=1)
    done = fraction(standing)
    bar = ProgressBar(total=1, completed=done or 0, pulse=done is None, animation_time=0)
    top.add_row(Text(headline(standing), "bold"), bar)
    rows = [
        Text(f"  {literal(standing.doing)}", "cyan"),
        *(Text(f"  {line}") for line in (precision(standing),) if line),
    ]
    rows += [Text(f"  {line}", "dim") for line in estimates(standing)]
    rows += [Text(f"  {name:32} {trials:>6}  {doing}") for name, trials, doing in devices(standing)]
    if trouble(standing):
        rows.append(Text(f"  {trouble(standing)}", "yellow"))
    for row in rows:
        row.no_wrap, row.overflow = True, "ellipsis"
    return Group(top, *rows)


# --- progress of calls from scripts and notebooks


@contextmanager
def listening(listener: Listener | None, *, quiet: bool) -> Iterator[Listener]:
    """What gets the events of a run: the caller's function, nothing, a bar in a notebook, or lines on stderr."""
    if listener is not None or quiet:
        yield listener or silent
        return
    bar = _notebook_bar() if _in_notebook() else None
    if bar is not None:
        yield bar
        return
    with watch(Console(file=sys.stderr, markup=False, highlight=False, emoji=False)) as watcher:
        yield watcher


def _in_notebook() -> bool:
    """A Jupyter kernel runs this: only then IPython has a shell that speaks its protocol."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _notebook_bar() -> Listener | None:
    """Tqdm's bar over the trials of the most blocks; None if tqdm isn't installed."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return None
    bar = tqdm(unit="trial", desc="cotenant")

    def listen(event: Event) -> None:
        match event:
            case RunStarted():
                bar.set_description(f"{event.study} on {event.device}")
                bar.reset(total=event.trials_per_block * event.blocks_max)
                bar.update(event.done_trials)
            case TrialDone():
                bar.update(1)
            case BlockDone() if event.widest is not None:
                bar.set_postfix_str(f"widest interval ±{100 * event.widest:.0f} %")
            case RunEnded():
                bar.set_postfix_str(event.why)
                bar.close()

    return listen
