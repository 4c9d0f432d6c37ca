"""Progress of a run on stderr, drawn on events only.

The parent shares the machine with what it measures, so there is no refresh thread that could disturb a trial.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    TrialStarted,
)
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.standing import (
    ProgressState,
    after,
    devices,
    ending,
    estimates,
    fraction,
    headline,
    precision,
    trouble,
)

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
    said = float("-inf")

    def say(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    def listen(event: Event) -> None:
        nonlocal standing, said
        standing = after(standing, event)
        match event:
            case Noticed():
                say(literal(event.text))
            case RunStarted():
                going_on = f"resuming after {event.done_trials} trials" if event.resumed else "started"
                say(f"{headline(standing)}: {going_on}, records in {event.folder}")
                for line in event.demands:
                    say(literal(line))
            case BlockDone() if clock() - said >= LINE_S:
                said = clock()
                parts = (f"block {event.block + 1} done", precision(standing), trouble(standing))
                say("; ".join(part for part in parts if part))
            case DeviceAt() if clock() - said >= LINE_S:
                said = clock()
                at_work = sum(not one.lost for one in standing.devices.values())
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
