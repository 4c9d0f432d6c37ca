"""The answer on one screen: a sentence or two, a line for each mix, and what is uncertain."""

from collections.abc import Sequence
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.decision import Answer, Choice, Option
from cotenant.analyse.decision.wording import headline, mix_name, objectives, slowdowns, what_would_tell
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, amount, ratio, without_interval

ROOM = 12
"""Lines for sentences and mixes together: with headings, notes and the next commands that makes a screen of 25."""
FEWEST_ROWS = 3
NARROWEST = 80
"""Terminals are at least this wide."""
MOST_OPEN = 3
MOST_SLOWDOWNS = 1
"""Of more kinds of tenants than this only the one that pays most is named: a mix is to fit one line."""
STYLES = {"share": "bold green", "apart": "red", "open": "yellow"}
WORDS = {"share": "share", "apart": "keep apart", "open": "can't tell yet"}


def answer_parts(answer: Answer) -> tuple[RenderableType, ...]:
    """The answer for a terminal, most important first."""
    main = answer.main
    style = STYLES[main.verdict] if main else ""
    said = headline(answer)
    first, *others = said
    sentences = Group(Text(literal(first), style), *(Text(literal(one)) for one in others))
    if main is None:
        return (sentences,)
    undecided = [] if not answer.undecided else _open(answer.undecided)
    taken = sum(len(wrap(literal(line), NARROWEST)) for line in (*said, *undecided)) + bool(undecided)
    shown = answer.choices[: max(FEWEST_ROWS, ROOM - taken)]
    parts: list[RenderableType] = [sentences, _table(shown)]
    more = len(answer.choices) - len(shown)
    if more:
        parts.append(Text(f"and {amount(more, 'more mix', 'more mixes')}: --all shows them", "dim"))
    if undecided:
        parts.append(Text("\n".join(map(literal, undecided)), "yellow"))
    return tuple(parts)


def _table(choices: Sequence[Choice]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    columns = ["mix", "best way", "work", "slowdowns", "objectives", "verdict"]
    if not any(choice.best.objectives for choice in choices):
        columns.remove("objectives")
    several = _varying(choices)
    for name in [*several, *columns]:
        # A mix has one line: long names are cut here, and whole with --all.
        least = {"verdict": max(len(WORDS[one.verdict]) for one in choices), "work": 5, "best way": 8}.get(name)
        table.add_column(name, overflow="ellipsis", no_wrap=True, min_width=least)
    for choice in choices:
        best = choice.best
        said = {
            **{name: str(getattr(best.cell, name)) for name in several},
            "mix": _short_name(best),
            "best way": best.cell.sharing,
            "work": f"{without_interval(best.work, ratio)}x",
            "slowdowns": slowdowns(best) if len({one.of for one in best.standings}) <= MOST_SLOWDOWNS else _worst(best),
            "objectives": objectives(best),
        }
        cells = [Text(literal(said[name])) for name in [*several, *columns] if name != "verdict"]
        table.add_row(*cells, Text(WORDS[choice.verdict], STYLES[choice.verdict]))
    return table


def _short_name(option: Option) -> str:
    """Its tenants, or what the study calls it if that is shorter."""
    return min((mix_name(option.standings), option.cell.mix), key=len)


def _worst(option: Option) -> str:
    known = [(one.slowdown.est, one.tenant) for one in option.standings if one.slowdown.est is not None]
    return f"{max(known)[1]} {ratio(max(known)[0])}x most" if known else NOTHING


def _varying(choices: Sequence[Choice]) -> list[str]:
    """Conditions that differ between the choices, which then get columns of their own."""
    cells = [choice.best.cell for choice in choices]
    return [name for name in ("device", "load", "settings", "run") if len({getattr(cell, name) for cell in cells}) > 1]


def _open(choices: Sequence[Choice]) -> list[str]:
    lines = [f"To decide {mix_name(one.best.standings)}: {what_would_tell(one)}." for one in choices[:MOST_OPEN]]
    if len(choices) > MOST_OPEN:
        lines.append(f"{amount(len(choices) - MOST_OPEN, 'other mix', 'other mixes')} can't be decided yet either.")
    return lines
