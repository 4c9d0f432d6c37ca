"""The matrix of mixes and ways to share: one button per option of the decision."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cotenant.analyse.decision import (
    Answer,
    Kept,
    MixChoice,
    SharingOption,
    decision_word,
    ended,
    mix_name,
    objectives,
    option_sentence,
    slowdowns,
    verdict,
    what_would_tell,
)
from cotenant.analyse.sharing import Cell, TenantSummary, shares_said
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition, mode_of
from cotenant.reporting.figures.style import warmth
from cotenant.reporting.html.tenant_lines import keys, slowdown
from cotenant.text import NOTHING, literal, percent, ratio, with_interval, without_interval

FULL_AT = 4.0
"""This many times the work of taking turns, or its inverse, has the strongest colour."""
STRONGEST = 0.55
"""Opacity of the strongest colour; text stays readable on white and on black."""
FOUR_TIMES_THE_WORK = "a quarter of the work of taking turns, the same, four times it"
FOUR_TIMES_AS_LONG = "four times as long as alone, the same, a quarter of it"
RINGS: Mapping[Kept, str] = {"kept": "✓", "missed": "✕", "open": "?"}


@dataclass(frozen=True, slots=True)
class MatrixSquare:
    """One way to share one mix."""

    key: str
    way: str
    shares: str
    """The best shares of the device under this mode; empty without shares."""
    work: str
    """Or the time of requests, if their rates are given."""
    note: str
    """The most relevant fact besides it: objectives, else the slowdowns."""
    label: str
    """Text for screen readers."""
    strength: float
    less: bool
    kept: Kept | None
    ring: str
    hatched: bool
    best: bool
    verdict: str
    """Verdict of the trials, if some are not valid."""


@dataclass(frozen=True, slots=True)
class ShareLayout:
    """One choice of shares under a mode."""

    shares: str
    work: str
    note: str
    kept: Kept | None
    ring: str


@dataclass(frozen=True, slots=True)
class MatrixLine:
    """One mix under one condition."""

    mix: str
    """The study's name for it, or its tenants."""
    members: str
    """Its tenants, if the name doesn't say them."""
    condition: str
    run: str
    verdict: str
    words: str
    squares: tuple[MatrixSquare | None, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A complete matrix."""

    ways: tuple[tuple[str, str], ...]
    """Each way to share and its colour."""
    shows: str
    """Meaning of the figures in its squares."""
    scale: str
    """Meaning of the colours, from one end to the other."""
    lines: tuple[MatrixLine, ...]
    chosen: str
    """The initially selected square: the recommendation."""
    sentences: Mapping[str, str]
    """The decision's sentence about each square."""
    layouts: Mapping[str, tuple[ShareLayout, ...]]
    """The shares tried for a square, best first, if there were several."""


def matrix_of(material: Material, answer: Answer, key_of: Mapping[Cell, str]) -> Matrix:
    """The matrix of an answer."""
    shown = {mode_of(option.cell.sharing) for choice in answer.choices for option in choice.options}
    ways = tuple(way for way in material.ways.names if way in shown)
    first = answer.best_shared or answer.main
    rates_given = {choice.best.rates_given for choice in answer.choices}
    return Matrix(
        ways=tuple((way, material.ways.colour(way)) for way in ways),
        shows=_shows(rates_given),
        scale=FOUR_TIMES_AS_LONG if rates_given == {True} else FOUR_TIMES_THE_WORK,
        lines=tuple(_line(material, choice, ways, key_of) for choice in answer.choices),
        chosen="" if first is None else key_of[first.best.cell],
        sentences={
            key_of[option.cell]: _sentence(choice, option)
            for choice in answer.choices
            for option in _best_of_modes(choice).values()
        },
        layouts={
            key_of[option.cell]: tried
            for choice in answer.choices
            for option in _best_of_modes(choice).values()
            if len(tried := _layouts(choice, option)) > 1
        },
    )


def _shows(rates_given: Collection[bool]) -> str:
    work, delay = "Work done relative to taking turns", "mean time of requests relative to alone"
    if len(rates_given) > 1:
        return f"{work} (where rates are given: {delay})"
    return delay.capitalize() if True in rates_given else work


def _line(material: Material, choice: MixChoice, ways: tuple[str, ...], key_of: Mapping[Cell, str]) -> MatrixLine:
    cell = choice.best.cell
    options = _best_of_modes(choice)
    name = mix_name(choice.best.standings)
    same = _says_the_same(cell.mix, choice.best, name)
    return MatrixLine(
        mix=name if same else cell.mix,
        members="" if same else name,
        condition=material.names.condition(Condition.of(cell)),
        run=material.names.run(cell.run),
        verdict=choice.verdict,
        words=decision_word(choice),
        squares=tuple(
            None if (option := options.get(way)) is None else _square(choice, option, name, key_of[option.cell])
            for way in ways
        ),
    )


def _best_of_modes(choice: MixChoice) -> dict[str, SharingOption]:
    """The best option of each mode; options are sorted, best first."""
    options: dict[str, SharingOption] = {}
    for option in choice.options:
        options.setdefault(mode_of(option.cell.sharing), option)
    return options


def _layouts(choice: MixChoice, best: SharingOption) -> tuple[ShareLayout, ...]:
    mode = mode_of(best.cell.sharing)
    same = [option for option in choice.options if mode_of(option.cell.sharing) == mode]
    return tuple(
        ShareLayout(
            shares=literal(option.cell.sharing.partition("[")[2].removesuffix("]")) or "none given",
            work=with_interval(option.work, ratio),
            note=_note(option),
            kept=(kept := option.kept if option.trusted else None),
            ring="" if kept is None else RINGS[kept],
        )
        for option in same
    )


def _says_the_same(mix: str, option: SharingOption, name: str) -> bool:
    return mix == name or sorted(mix.split("+")) == sorted(standing.tenant for standing in option.standings)


def _square(choice: MixChoice, option: SharingOption, name: str, key: str) -> MatrixSquare:
    doublings = (math.log2(option.gauge.est) if option.gauge.est else 0.0) * (-1 if option.rates_given else 1)
    kept = option.kept if option.trusted else None
    work = NOTHING if option.gauge.est is None else f"{without_interval(option.gauge, ratio)}×"  # noqa: RUF001
    best = option is choice.best and choice.verdict == "share"
    gauge = "time" if option.rates_given else "work"
    label = f"{name}, {option.cell.sharing}: {gauge} {work}, {objectives(option) or slowdowns(option)}"
    return MatrixSquare(
        key=key,
        way=mode_of(option.cell.sharing),
        shares=literal(shares_said(option.cell.sharing)),
        work=work,
        note=_note(option),
        label=f"{label}{', simulated' if option.cell.simulated else ''}{', recommended' if best else ''}",
        strength=round(min(STRONGEST, abs(doublings) / math.log2(FULL_AT) * STRONGEST), 3),
        less=doublings < 0,
        kept=kept,
        ring="" if kept is None else RINGS[kept],
        hatched=choice.verdict == "open" or kept == "open",
        best=best,
        verdict="" if option.mix.verdict == "valid" else option.mix.verdict,
    )


def _note(option: SharingOption) -> str:
    answer = objectives(option)
    if answer == "all kept":
        return f"{percent(max(0.0, option.headroom))} to spare"
    if answer:
        return answer
    known = [standing.slowdown.est for standing in option.standings if standing.slowdown.est is not None]
    return f"up to {ratio(max(known))}× slower" if known else ""  # noqa: RUF001


def _sentence(choice: MixChoice, option: SharingOption) -> str:
    if option is not choice.best:
        return option_sentence(option)
    sentence = verdict(choice)
    return f"{sentence} To settle it: {ended(what_would_tell(choice))}" if choice.verdict == "open" else sentence


# --- the heat map as a table of buttons, accessible to screen readers and the keyboard


@dataclass(frozen=True, slots=True)
class HeatSquare:
    """One tenant in one mix under one sharing."""

    key: str
    estimate: str
    interval: str
    label: str
    """Text for screen readers."""
    warmth: float
    """Opacity of the colour, 0 to `STRONGEST`."""
    faster: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class HeatMapLine:
    """One tenant in one mix, under every sharing."""

    tenant: str
    lines_of_tenant: int
    """Rows spanned by its heading; 0 if an earlier line has it."""
    mix: str
    squares: tuple[HeatSquare | None, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One condition of one run."""

    title: str
    sharings: tuple[str, ...]
    lines: tuple[HeatMapLine, ...]


def heat_maps(material: Material) -> list[HeatMap]:
    """One table per run and condition; conditions of several runs are adjacent."""
    return [
        heat_map
        for condition in material.names.conditions
        for run in material.runs
        if (heat_map := _heat_map(material, run.identity, condition)).lines
    ]


def _heat_map(material: Material, run: str, condition: Condition) -> HeatMap:
    shared = [
        tenant
        for tenant in material.summary.tenants
        if not tenant.cell.solo and tenant.cell.run == run and Condition.of(tenant.cell) == condition
    ]
    verdicts = {mix.cell: mix.verdict for mix in material.summary.mixes}
    key_of = keys(material)
    sharings = tuple(sorted({tenant.cell.sharing for tenant in shared}))
    summaries = {(tenant.tenant, tenant.of, tenant.cell.mix, tenant.cell.sharing): tenant for tenant in shared}
    places = sorted({(tenant.of, tenant.tenant, tenant.cell.mix) for tenant in shared})
    spans = {of: sum(row[0] == of for row in places) for of, *_ in places}
    lines = []
    for number, (of, tenant, mix) in enumerate(places):
        squares = tuple(
            None
            if (summary := summaries.get((tenant, of, mix, sharing))) is None
            else _heat_square(summary, key_of[summary.cell], verdicts[summary.cell])
            for sharing in sharings
        )
        first = number == 0 or places[number - 1][0] != of
        where = mix if tenant == of else f"{mix} ({tenant})"
        lines.append(HeatMapLine(of, spans[of] if first else 0, where, squares))
    words = [
        f"run {material.names.run(run)}" if material.names.several_runs else "",
        material.names.condition(condition),
    ]
    return HeatMap(", ".join(word for word in words if word), sharings, tuple(lines))


def _heat_square(tenant: TenantSummary, key: str, verdict: str) -> HeatSquare:
    number = tenant.slowdown
    ends = "" if number.lo is None or number.hi is None else f"{ratio(number.lo)} to {ratio(number.hi)}"
    label = f"{tenant.tenant} in {tenant.cell.mix}, {tenant.cell.sharing}: slowdown "
    return HeatSquare(
        key=key,
        estimate=slowdown(tenant, short=True),
        interval=ends,
        label=label + ("unknown" if number.est is None else f"{ratio(number.est)}{f', {ends}' if ends else ''}"),
        warmth=warmth(number.est),
        faster=number.est is not None and number.est < 1,
        verdict="" if verdict == "valid" else verdict,
    )
