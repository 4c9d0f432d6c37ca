"""The heat map as a table of buttons, accessible to screen readers and the keyboard."""

import math
from dataclasses import dataclass

from cotenant.analyse.sharing.summary import TenantSummary
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition
from cotenant.reporting.html.tenant_lines import keys, slowdown
from cotenant.text import ratio

DARKEST_AT = 4.0
"""Slowdown with the strongest colour."""
STRONGEST = 0.62
"""Opacity of the strongest colour; text stays readable on white and on black."""


@dataclass(frozen=True, slots=True)
class Square:
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
    squares: tuple[Square | None, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One condition of one run."""

    title: str
    sharings: tuple[str, ...]
    lines: tuple[HeatMapLine, ...]


def heat_maps(material: Material) -> list[HeatMap]:
    """One table per run and condition; conditions of several runs are adjacent."""
    return [
        found
        for condition in material.names.conditions
        for run in material.runs
        if (found := _heat_map(material, run.identity, condition)).lines
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
    found = {(one.tenant, one.of, one.cell.mix, one.cell.sharing): one for one in shared}
    places = sorted({(one.of, one.tenant, one.cell.mix) for one in shared})
    spans = {of: sum(place[0] == of for place in places) for of, *_ in places}
    lines = []
    for number, (of, tenant, mix) in enumerate(places):
        squares = tuple(
            None
            if (one := found.get((tenant, of, mix, sharing))) is None
            else _square(one, key_of[one.cell], verdicts[one.cell])
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


def _square(tenant: TenantSummary, key: str, verdict: str) -> Square:
    number = tenant.slowdown
    ends = "" if number.lo is None or number.hi is None else f"{ratio(number.lo)} to {ratio(number.hi)}"
    said = f"{tenant.tenant} in {tenant.cell.mix}, {tenant.cell.sharing}: slowdown "
    return Square(
        key=key,
        estimate=slowdown(tenant, short=True),
        interval=ends,
        label=said + ("unknown" if number.est is None else f"{ratio(number.est)}{f', {ends}' if ends else ''}"),
        warmth=warmth(number.est),
        faster=number.est is not None and number.est < 1,
        verdict="" if verdict == "valid" else verdict,
    )


def warmth(slowdown: float | None) -> float:
    """Opacity of the colour of a slowdown."""
    doublings = math.log2(slowdown) if slowdown else 0.0
    return round(min(STRONGEST, abs(doublings) / math.log2(DARKEST_AT) * STRONGEST), 3)
