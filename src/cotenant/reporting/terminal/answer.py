"""The answer on one screen: a sentence or two, a line for each mix, and what is uncertain."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.decision import Answer, Choice
from cotenant.analyse.decision.wording import headline, mix_name, objectives, slowdowns, what_would_tell
from cotenant.reporting.terminal.literal import literal
from cotenant.text import amount, ratio, without_interval

MOST_ROWS = 10
"""More mixes than this are counted, so that the answer fits one screen."""
MOST_OPEN = 3
STYLES = {"share": "bold green", "apart": "red", "open": "yellow"}
WORDS = {"share": "share", "apart": "keep apart", "open": "can't tell yet"}


def answer_parts(answer: Answer) -> tuple[RenderableType, ...]:
    """The answer for a terminal, most important first."""
    main = answer.main
    style = STYLES[main.verdict] if main else ""
    first, *others = headline(answer)
    sentences = Group(Text(literal(first), style), *(Text(literal(one)) for one in others))
    if main is None:
        return (sentences,)
    shown = answer.choices[:MOST_ROWS]
    parts: list[RenderableType] = [sentences, _table(shown)]
    more = len(answer.choices) - len(shown)
    if more:
        parts.append(Text(f"and {amount(more, 'more mix', 'more mixes')}: --all shows them", "dim"))
    if answer.undecided:
        parts.append(_open(answer.undecided))
    return tuple(parts)


def _table(choices: Sequence[Choice]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    columns = ["mix", "best way", "work", "slowdowns", "objectives", "verdict"]
    if not any(choice.best.objectives for choice in choices):
        columns.remove("objectives")
    several = _varying(choices)
    for name in [*several, *columns]:
        table.add_column(name, overflow="fold", no_wrap=name in {"work", "verdict"})
    for choice in choices:
        best = choice.best
        said = {
            **{name: str(getattr(best.cell, name)) for name in several},
            "mix": mix_name(best.standings),
            "best way": best.cell.sharing,
            "work": f"{without_interval(best.work, ratio)}x",
            "slowdowns": slowdowns(best),
            "objectives": objectives(best),
        }
        cells = [Text(literal(said[name])) for name in [*several, *columns] if name != "verdict"]
        table.add_row(*cells, Text(WORDS[choice.verdict], STYLES[choice.verdict]))
    return table


def _varying(choices: Sequence[Choice]) -> list[str]:
    """Conditions that differ between the choices, which then get columns of their own."""
    cells = [choice.best.cell for choice in choices]
    return [name for name in ("device", "load", "settings", "run") if len({getattr(cell, name) for cell in cells}) > 1]


def _open(choices: Sequence[Choice]) -> Text:
    lines = [f"To decide {mix_name(one.best.standings)}: {what_would_tell(one)}." for one in choices[:MOST_OPEN]]
    if len(choices) > MOST_OPEN:
        lines.append(f"{amount(len(choices) - MOST_OPEN, 'other mix', 'other mixes')} can't be decided yet either.")
    return Text(literal("\n".join(lines)), "yellow")
