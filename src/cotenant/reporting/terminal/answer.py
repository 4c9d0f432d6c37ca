"""The answer on one screen: a sentence or two, one line per mix, and the uncertainties."""

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.decision import Answer, MixChoice, SharingOption
from cotenant.analyse.decision.wording import headline, mix_name, objectives, slowdowns, what_would_tell
from cotenant.analyse.result import SideBySide
from cotenant.analyse.sharing.cells import settings_said, sharing_said
from cotenant.reporting.terminal.literal import literal
from cotenant.tenancy.nouns import DeviceName
from cotenant.text import NOTHING, amount, ratio, without_interval

ROOM = 12
"""Lines for sentences and mixes; with headings, notes and the next commands, that fills a screen of 25."""
FEWEST_ROWS = 3
NARROWEST = 80
"""Minimum width of a terminal."""
MOST_OPEN = 2
MOST_NAMED = 2
LONGEST_OBJECTIVES = 16
SHORTEST = 16
"""Characters that a name keeps where a line is too long."""
STYLES = {"share": "bold green", "apart": "red", "open": "yellow"}
WORDS = {"share": "share", "apart": "keep apart", "open": "can't tell yet"}


def answer_parts(answer: Answer, opening: Sequence[str] = (), *tables: Table) -> tuple[RenderableType, ...]:
    """The answer for a terminal, most important first.

    Args:
        answer: The decision.
        opening: The first sentences; default: those of the answer.
        tables: The study's main result, shown in place of the mixes.
    """
    main = answer.main
    decided = headline(answer)
    opening = opening or decided
    first, *others = opening
    style = STYLES[main.verdict] if main and [*opening] == decided else "bold"
    sentences = Group(Text(literal(first), style), *(Text(literal(sentence)) for sentence in others))
    if main is None or tables:
        return (sentences, *tables)
    undecided = _open(answer.undecided, MOST_OPEN)
    if _lines(*opening, *undecided) > ROOM - FEWEST_ROWS:
        undecided = _open(answer.undecided, 1)
    shown = answer.choices[: max(FEWEST_ROWS, ROOM - _lines(*opening, *undecided) - bool(undecided))]
    parts: list[RenderableType] = [sentences, _table(shown)]
    more = len(answer.choices) - len(shown)
    if more:
        noun = ("more condition", "more conditions") if _varying(answer.choices) else ("more mix", "more mixes")
        parts[-1] = Group(parts[-1], Text(f"and {amount(more, *noun)}: --all shows them", "dim"))
    if undecided:
        parts.append(Text("\n".join(map(literal, undecided)), "yellow"))
    return tuple(parts)


def _table(choices: Sequence[MixChoice]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    several = _varying(choices)
    columns = _columns(choices, several)
    rows = []
    for choice in choices:
        best = choice.best
        texts = {
            **{name: _condition(best, name) for name in several},
            "mix": _short_name(best),
            "best way": sharing_said(best.cell.sharing),
            "work": f"{without_interval(best.gauge, ratio)}x",
            "work or time": f"{without_interval(best.gauge, ratio)}x {'time' if best.rates_given else 'work'}",
            "worst slowdown": _worst(best),
            "objectives": _objectives(best),
            "verdict": WORDS[choice.verdict],
        }
        rows.append({name: literal(texts[name]) for name in [*several, *columns]})
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    excess = sum(widths.values()) + 2 * len(widths) - NARROWEST
    for name in (
        "worst slowdown",
        "mix",
        *several,
    ):  # a mix has one line: long names are cut here, and whole with --all
        if name in widths and excess > 0:
            cut = min(excess, max(0, widths[name] - SHORTEST))
            widths[name], excess = widths[name] - cut, excess - cut
    for name, width in widths.items():
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=width)
    for choice, row in zip(choices, rows, strict=True):
        styled = {"verdict": STYLES[choice.verdict]}
        table.add_row(*(Text(text, styled.get(name, "")) for name, text in row.items()))
    return table


def _columns(choices: Sequence[MixChoice], several: Sequence[str]) -> list[str]:
    """Those that say something, as far as 80 characters reach; `several` are conditions with columns of their own."""
    given = {choice.best.rates_given for choice in choices}
    columns = {
        "mix": not several or len({_short_name(choice.best) for choice in choices}) > 1,
        "best way": True,
        "work": given == {False},  # otherwise it is given by the rates
        "work or time": len(given) > 1,
        "worst slowdown": not several,
        "objectives": any(choice.best.objectives for choice in choices),
        "verdict": True,
    }
    return [name for name, shown in columns.items() if shown]


def _condition(option: SharingOption, name: str) -> str:
    value = str(getattr(option.cell, name))
    return settings_said(value) if name == "settings" else value


def _short_name(option: SharingOption) -> str:
    """Its tenants, or the study's name for it if shorter."""
    return min((mix_name(option.standings), option.cell.mix), key=len)


def _objectives(option: SharingOption) -> str:
    """By name if short, else counted."""
    sentence, answers = objectives(option), Counter(objective.answer for objective in option.objectives)
    if len(sentence) <= LONGEST_OBJECTIVES:
        return sentence
    missed = answers["missed"]
    return f"{missed or answers['open']} of {answers.total()} {'missed' if missed else 'undecided'}"


def _worst(option: SharingOption) -> str:
    """The tenant that is slowed down most; all of them if they are copies."""
    if len({standing.of for standing in option.standings}) == 1:
        return slowdowns(option)
    known = [
        (standing.slowdown.est, standing.tenant) for standing in option.standings if standing.slowdown.est is not None
    ]
    return f"{max(known)[1]} {ratio(max(known)[0])}x" if known else NOTHING


def _varying(choices: Sequence[MixChoice]) -> list[str]:
    """Conditions that differ between the choices and get columns."""
    cells = [choice.best.cell for choice in choices]
    return [name for name in ("device", "load", "settings", "run") if len({getattr(cell, name) for cell in cells}) > 1]


def _lines(*sentences: str) -> int:
    return sum(len(wrap(literal(line), NARROWEST)) for line in sentences)


def _open(choices: Sequence[MixChoice], most: int) -> list[str]:
    """Measurements that would decide the open mixes, grouped by measurement."""
    several = _varying(choices)
    same_mix = len({mix_name(choice.best.standings) for choice in choices}) == 1
    remedies: dict[str, list[str]] = {}
    for choice in choices:
        under = ", ".join(_condition(choice.best, name) for name in several)
        name = mix_name(choice.best.standings)
        remedies.setdefault(what_would_tell(choice).replace(name, "it"), []).append(
            (under if same_mix else f"{name} under {under}") if under else name
        )
    lines = []
    for remedy, names in list(remedies.items())[:most]:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        lines.append(f"To decide {', '.join(names[:MOST_NAMED])}{more}: {remedy}.")
    if len(remedies) > most:
        left = sum(map(len, list(remedies.values())[most:]))
        lines.append(f"{amount(left, 'other')} can't be decided yet either.")
    return lines


# --- devices side by side, for a terminal: one line per mix, one column per device

MOST_ROWS = 10
WIDEST_MIX = 26
MARKS = {"share": "share", "apart": "apart", "open": "?"}


def side_by_side_parts(beside: SideBySide, *, everything: bool = False) -> tuple[RenderableType, ...]:
    """The decision on each device, mixes by devices, and what did not fit."""
    first, *others = beside.said
    parts: list[RenderableType] = [
        Group(Text(literal(first), "bold"), *(Text(literal(sentence)) for sentence in others))
    ]
    rows = beside.rows if everything else beside.rows[:MOST_ROWS]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("mix", overflow="ellipsis", no_wrap=True, max_width=WIDEST_MIX)
    for device in beside.devices:
        table.add_column(literal(DeviceName(device).model), overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(literal(f"{row.mix}{', ' + row.under if row.under else ''}"), *map(_cell, row.choices))
    parts.append(table)
    if more := len(beside.rows) - len(rows):
        parts.append(Text(f"and {amount(more, 'more mix', 'more mixes')}: --all shows them", "dim"))
    if beside.left_out:
        parts.append(Text("\n".join(map(literal, beside.left_out)), "yellow"))
    return tuple(parts)


def _cell(choice: MixChoice | None) -> Text:
    if choice is None:
        return Text(NOTHING, "dim")
    answer = objectives(choice.best)
    kept = f", {answer}" if answer and answer != "all kept" else ""
    done = without_interval(choice.best.gauge, ratio)
    figure = f"{sharing_said(choice.best.cell.sharing)} {done}{'' if choice.best.gauge.est is None else 'x'}"
    return Text(literal(f"{MARKS[choice.verdict]} {figure}{kept}"), STYLES[choice.verdict])
