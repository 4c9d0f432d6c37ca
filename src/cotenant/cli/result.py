"""How `run` and `show` print results."""

from typing import TYPE_CHECKING

from cotenant.cli.output import console, show

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cotenant.analyse.sharing.result import Result

QUESTION = '"select trial, mix, sharing, verdict, reasons from trials"'
"""A first query over the records, quoted for a shell."""


def show_result(result: "Result", *, everything: bool) -> None:
    """Print the answer on one screen, or everything, to stdout."""
    from cotenant.reporting.terminal.result import answer_screen, result_parts

    show(*(result_parts(result) if everything else answer_screen(result)))


def show_next(folders: "Sequence[Path]") -> None:
    """Suggest next commands, on stderr."""
    import shlex

    from rich.text import Text

    where = " ".join(shlex.quote(str(folder)) for folder in folders)
    first = shlex.quote(str(folders[0]))
    talk = Text(
        f"\nagain: cotenant show {where}\npage:  cotenant report {where}\nwhy:   cotenant explain {first}\n"
        f"more:  cotenant sql {QUESTION} {where}",
        "dim",
    )
    console(talk=True).print(talk, soft_wrap=True)
