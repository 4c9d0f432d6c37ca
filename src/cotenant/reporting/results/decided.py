"""The decision about mixes: a sentence or two, one line per mix, and the uncertainties."""

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from cotenant.analyse.decision import (
    Answer,
    MixChoice,
    SharingOption,
    decision_word,
    ended,
    headline,
    mix_name,
    objectives,
    slowdowns,
    what_would_tell,
)
from cotenant.analyse.result import SideBySide
from cotenant.analyse.sharing import settings_said, sharing_said
from cotenant.planning.mixes import Price, price_of
from cotenant.reporting.elements import DataTable, Element, Remark, Section, Sentence, TableCell, Tone, Value
from cotenant.reporting.elements import opening as first_sentences
from cotenant.reporting.elements.terminal import NARROWEST
from cotenant.reporting.figures.style import warmth
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import NOTHING, amount, literal, ratio, with_interval, without_interval

ROOM = 12
"""Lines for sentences and mixes; with headings, notes and the next commands, that fills a screen of 25."""
FEWEST_ROWS = 3
MOST_OPEN = 2
MOST_NAMED = 2
LONGEST_OBJECTIVES = 16
TONES: dict[str, Tone] = {"share": "good", "apart": "bad", "open": "open"}
TRIALS: dict[str, Tone] = {"valid": "good", "unstable": "open", "invalid": "bad"}


def answer_elements(
    answer: Answer, opening: Sequence[str] = (), table: DataTable | None = None, *, everything: bool = False
) -> list[Element]:
    """The answer, most important first.

    Args:
        answer: The decision.
        opening: The first sentences; default: those of the answer.
        table: The study's main result, shown in place of the mixes.
        everything: Every mix, not only those that fit a screen.
    """
    main = answer.main
    decided = headline(answer)
    opening = opening or decided
    tone = TONES[main.verdict] if main and [*opening] == decided else "answer"
    elements = first_sentences(opening, tone)
    if main is None or table is not None:
        return [*elements, *([] if table is None else [table])]
    undecided = _open(answer.undecided, MOST_OPEN)
    if _lines(*opening, *undecided) > ROOM - FEWEST_ROWS:
        undecided = _open(answer.undecided, 1)
    room = max(FEWEST_ROWS, ROOM - _lines(*opening, *undecided) - bool(undecided))
    shown = answer.choices if everything else answer.choices[:room]
    elements.append(choices_table(shown))
    more = len(answer.choices) - len(shown)
    if more:
        noun = ("more condition", "more conditions") if _varying(answer.choices) else ("more mix", "more mixes")
        elements.append(Remark(f"and {amount(more, *noun)}: --all shows them", below=True))
    return [*elements, *(Sentence(line, "open") for line in undecided)]


def choices_table(choices: Sequence[MixChoice]) -> DataTable:
    """One line per mix: the best way to share it, and whether to."""
    several = _varying(choices)
    columns = [*several, *_columns(choices, several)]
    rows = []
    for choice in choices:
        best = choice.best
        known = best.trusted and best.gauge.est is not None
        done = f"{without_interval(best.gauge, ratio)}x" if known else NOTHING
        texts: dict[str, str | TableCell] = {
            **{name: _condition(best, name) for name in several},
            "mix": _short_name(best),
            "best way": sharing_said(best.cell.sharing),
            "work": done,
            "work or time": f"{done} {'time' if best.rates_given else 'work'}" if known else NOTHING,
            "worst slowdown": _worst(best) if best.trusted else NOTHING,
            "objectives": _objectives(best),
            "verdict": TableCell(decision_word(choice), tone=TONES[choice.verdict]),
        }
        rows.append(tuple(texts[name] for name in columns))
    # A mix has one line: long names are cut on a terminal, and whole with --all.
    cut = ("worst slowdown", "mix", *several)
    return DataTable(tuple(columns), tuple(rows), ruled=False, cut=cut)


def options_table(answer: Answer) -> DataTable:
    """One line per mix and way to share, best first: what the page draws as a matrix."""
    rows = []
    for choice in answer.choices:
        for option in choice.options:
            verdict = TableCell(decision_word(choice), tone=TONES[choice.verdict]) if option is choice.best else ""
            under = ", ".join(_condition(option, name) for name in _varying(answer.choices))
            rows.append(
                (
                    f"{mix_name(option.standings)}{f', {under}' if under else ''}",
                    sharing_said(option.cell.sharing),
                    with_interval(option.work, ratio),
                    slowdowns(option),
                    objectives(option),
                    verdict,
                    TableCell(option.mix.verdict, tone=TRIALS[option.mix.verdict]),
                )
            )
    columns = ("mix", "way to share", "work", "slowdowns", "objectives", "verdict on the mix", "trials")
    return DataTable(columns, tuple(rows), "Every mix and way to share", numbers=frozenset({"work"}))


def _columns(choices: Sequence[MixChoice], several: Sequence[str]) -> list[str]:
    """Those that say something, as far as 80 characters reach; `several` are conditions with columns of their own."""
    given = {choice.best.rates_given for choice in choices}
    columns = {
        "mix": not several or len({_short_name(choice.best) for choice in choices}) > 1,
        "best way": True,
        # Otherwise it is given by the rates, or unknown: served traffic has nothing alone.
        "work": given == {False} and any(choice.best.work.est is not None for choice in choices),
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
    """Measurements that would settle the open mixes, grouped by measurement."""
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
        lines.append(f"To settle {', '.join(names[:MOST_NAMED])}{more}: {ended(remedy)}")
    if len(remedies) > most:
        left = sum(map(len, list(remedies.values())[most:]))
        lines.append(f"{amount(left, 'other')} {'is' if left == 1 else 'are'} open, too.")
    return lines


# --- devices side by side: a line for each mix, a column for each device

MOST_ROWS = 10
MARKS = {"share": "share", "apart": "apart", "open": "?"}


def side_by_side_elements(beside: SideBySide, *, everything: bool = True) -> list[Element]:
    """The decision on each device, and the devices side by side."""
    return [*first_sentences(beside.said), *devices_elements(beside, everything=everything)]


def devices_elements(beside: SideBySide, *, everything: bool = True) -> list[Element]:
    """Mixes by devices with the devices' prices, and what did not fit."""
    lines: list[tuple[Value, ...]] = [
        (f"{row.mix}{', ' + row.under if row.under else ''}", *map(_beside_cell, row.choices)) for row in beside.rows
    ]
    prices = [price_of(device, {}) for device in beside.devices]
    priced: list[tuple[Value, ...]] = [("per hour", *map(_price_cell, prices))] if any(prices) else []
    columns = ("mix", *(DeviceName(device).model for device in beside.devices))
    title = "Devices side by side: the best way to share each mix"
    table = DataTable(columns, (*lines[:MOST_ROWS], *priced), title, ruled=False, cut=("mix",))
    elements: list[Element] = [table]
    if further := lines[MOST_ROWS:]:
        more = amount(len(further), "more mix", "more mixes")
        rest = DataTable(columns, tuple(further), f"{title}, continued", ruled=False, cut=("mix",))
        elements.append(
            Section(f"{more} on these devices", "more-mixes", (rest,), folded=True)
            if everything
            else Remark(f"and {more}: --all shows them")
        )
    return [*elements, *(Sentence(line, "open") for line in beside.left_out)]


def _beside_cell(choice: MixChoice | None) -> TableCell:
    if choice is None:
        return TableCell(NOTHING, tone="quiet")
    answer = objectives(choice.best)
    kept = f", {answer}" if answer and answer != "all kept" else ""
    done = without_interval(choice.best.gauge, ratio)
    gauge = choice.best.gauge
    figure = f"{sharing_said(choice.best.cell.sharing)} {done}{'' if gauge.est is None else 'x'}"
    gain = None if not gauge.est else 1 / gauge.est if choice.best.rates_given else gauge.est
    return TableCell(
        f"{MARKS[choice.verdict]} {figure}{kept}",
        tone=TONES[choice.verdict],
        warmth=None if gain is None else warmth(max(gain, 1 / gain)),
        faster=gain is not None and gain >= 1,
        hatched=choice.verdict == "open",
        hint=with_interval(gauge, ratio),
    )


def _price_cell(price: Price | None) -> TableCell:
    return TableCell(NOTHING if price is None else f"${price.usd_per_h:.2f}", hint="" if price is None else price.basis)
