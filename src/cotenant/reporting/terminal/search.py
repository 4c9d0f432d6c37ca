"""Progress of a search on stderr: what it does, the leader so far, the time left."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cotenant.ranking.outcome import Began, Event, Listener, PlannedSearch, RoundEnded, WithoutWeights, Working
from cotenant.text import amount, duration, listed, literal, percent


@contextmanager
def watch_search(console: Console) -> Iterator[Listener]:
    """A listener that displays the search: live on a terminal, else one line per event."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda event: _say(console, event)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def listen(event: Event) -> None:
            if isinstance(event, Working):
                live.update(picture(event), refresh=True)
            else:
                _say(live.console, event)

        yield listen


def line(event: Event) -> str | None:
    """The event as a line, if worth one."""
    match event:
        case WithoutWeights():
            outcome = "will be timed, not ranked" if event.others else "nothing will be ranked, only timed"
            verb = "has" if len(event.models) == 1 else "have"
            return (
                f"{listed(event.models)} {verb} no weights here: {outcome}. "
                "Give directories with weights, or models that --fetch can download."
            )
        case Began():
            return f"{'resuming' if event.resumed else 'started'} in {event.folder}"
        case PlannedSearch(models=0):
            return "nothing to rank"
        case PlannedSearch():
            saved = percent(1 - event.steps_shared / event.steps_alone) if event.steps_alone else "nothing"
            rounds = "" if event.rounds == 1 else f" in {event.rounds} rounds"
            return (
                f"{amount(event.models, 'model')}, {event.items:,} items{rounds}: "
                f"about {duration(event.predicted_s)}; "
                f"{saved} of the steps are shared"
            )
        case RoundEnded():
            return (
                f"round {event.number} of {event.of}: {event.items:,} items, {event.models} models, {event.kept} kept; "
                f"{event.leader} leads with {event.score:.3f}"
            )
    return None


def picture(event: Working) -> Group:
    """The live display."""
    top = Table.grid(padding=(0, 1), expand=True)
    top.add_column(no_wrap=True)
    top.add_column(ratio=1)
    top.add_row(Text("search", "bold"), ProgressBar(total=1, completed=event.share, animation_time=0))
    left = "" if event.left_s is None else f", about {duration(event.left_s)} left"
    rows = [Text(f"  {literal(event.doing)}{left}", "cyan")]
    if event.leader is not None:
        rows.append(Text(f"  {literal(event.leader)} leads", "dim"))
    for row in rows:
        row.no_wrap, row.overflow = True, "ellipsis"
    return Group(top, *rows)


def _say(console: Console, event: Event) -> None:
    text = line(event)
    if text is not None:
        console.print(Text(literal(text)), soft_wrap=True)
    if isinstance(event, PlannedSearch):
        for note in event.notes:
            console.print(Text(literal(note), "yellow"), soft_wrap=True)
