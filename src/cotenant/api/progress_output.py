"""Progress of calls from scripts and notebooks: on stderr by default, nothing with ``quiet``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from cotenant.measure.events import BlockDone, Event, Listener, RunEnded, RunStarted, TrialDone, silent

Say = Callable[[str], None]
Verb = TypeVar("Verb", bound=Callable[..., Any])


def with_progress(verb: Verb) -> Verb:
    """Show a verb's events unless its caller passes a ``listener`` or ``quiet=True``."""

    @wraps(verb)
    def shown(*arguments: Any, **options: Any) -> Any:
        with listening(options.get("listener"), quiet=options.get("quiet", False)) as listener:
            return verb(*arguments, **{**options, "listener": listener})

    return cast("Verb", shown)


def saying(say: Say | None, *, quiet: bool) -> Say:
    """What gets sentences about progress: the caller's function, nothing, or stderr."""
    if say is not None:
        return say
    if quiet:
        return lambda _: None
    return lambda sentence: print(sentence, file=sys.stderr)  # noqa: T201 - for scripts, which have no console of ours


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
    from rich.console import Console

    from cotenant.reporting.terminal.progress import watch

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
