"""The answer on one screen: a sentence or two, a line for each mix, and what is uncertain."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cotenant.analyse.decision import Answer, Choice
from cotenant.analyse.decision.wording import headline, mix_name, objectives, slowdowns, what_would_tell
from cotenant.reporting.terminal.grouped import Fitting, Grouped, Section
from cotenant.reporting.terminal.literal import literal
from cotenant.text import amount, times, without_interval

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


def _table(choices: Sequence[Choice]) -> Fitting:
    several = _varying(choices)

    def table(*, wide: bool) -> Grouped:
        sections: dict[str, list[tuple[Text, ...]]] = {}
        for choice in choices:
            best = choice.best
            work = times(best.work) if wide else without_interval(best.work)
            cells = (mix_name(best.standings), best.cell.sharing, work, slowdowns(best), objectives(best))
            row = (*(Text(literal(one)) for one in cells), Text(WORDS[choice.verdict], STYLES[choice.verdict]))
            sections.setdefault(", ".join(str(getattr(best.cell, name)) for name in several), []).append(row)
        columns = ("mix", "best way", "work", "slowdowns", "objectives", "verdict")
        return Grouped(columns, [Section(Text(literal(name), "cyan"), tuple(rows)) for name, rows in sections.items()])

    return Fitting((table(wide=True), table(wide=False)))


def _varying(choices: Sequence[Choice]) -> list[str]:
    """Conditions that differ between the choices, which then head their rows."""
    cells = [choice.best.cell for choice in choices]
    return [name for name in ("device", "load", "settings", "run") if len({getattr(cell, name) for cell in cells}) > 1]


def _open(choices: Sequence[Choice]) -> Text:
    lines = [f"To decide {mix_name(one.best.standings)}: {what_would_tell(one)}." for one in choices[:MOST_OPEN]]
    if len(choices) > MOST_OPEN:
        lines.append(f"{amount(len(choices) - MOST_OPEN, 'other mix', 'other mixes')} can't be decided yet either.")
    return Text(literal("\n".join(lines)), "yellow")
