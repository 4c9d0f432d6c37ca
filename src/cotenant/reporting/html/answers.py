"""What a reader gets first, as plain values for a template: may these share, how, and what does each of them pay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cotenant.analyse.estimates.quantiles import QuantileEstimate
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.summary import MixSummary, TenantSummary
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition
from cotenant.text import NOTHING, figure, percent, ratio, with_interval

Gain = Literal["more", "less", "unclear", "unknown"]
GAINS: Mapping[Gain, str] = {
    "more": "gets more done",
    "less": "gets less done",
    "unclear": "no clear difference",
    "unknown": "can't be judged",
}
ANSWERS = {"met": "met", "missed": "missed", "undecided": "undecided"}


@dataclass(frozen=True, slots=True)
class MixAnswer:
    """One line of the answer."""

    key: str
    run: str
    mix: str
    sharing: str
    condition: str
    gain: Gain
    words: str
    stp: str
    costs: str
    """Slowdown of each tenant."""
    fairness: str
    objectives: str
    verdict: str


def keys(material: Material) -> dict[Cell, str]:
    """A name for every cell that is safe in HTML."""
    return {mix.cell: f"c{number}" for number, mix in enumerate(material.summary.mixes)}


def mix_answers(material: Material) -> list[MixAnswer]:
    """A line for each mix and sharing."""
    names, key_of = material.names, keys(material)
    members: dict[Cell, list[TenantSummary]] = {}
    for tenant in material.summary.tenants:
        members.setdefault(tenant.cell, []).append(tenant)
    return [
        MixAnswer(
            key=key_of[mix.cell],
            run=names.run(mix.cell.run),
            mix=mix.cell.mix,
            sharing=mix.cell.sharing,
            condition=names.condition(Condition.of(mix.cell)),
            gain=(gain := gain_of(mix)),
            words=GAINS[gain],
            stp=with_interval(mix.metrics["stp"], ratio),
            costs=", ".join(f"{one.tenant} {slowdown(one, short=True)}" for one in members[mix.cell]),
            fairness=NOTHING if mix.metrics["fairness"].est is None else ratio(mix.metrics["fairness"].est),
            objectives=", ".join(
                f"{one.tenant} {ANSWERS[one.slo.answer]}" for one in members[mix.cell] if one.slo is not None
            ),
            verdict=mix.verdict,
        )
        for mix in material.summary.mixes
        if not mix.cell.solo
    ]


def gain_of(mix: MixSummary) -> Gain:
    """What the interval of STP says against 1."""
    stp = mix.metrics["stp"]
    if stp.est is None:
        return "unknown"
    if stp.lo is None or stp.hi is None or stp.lo <= 1 <= stp.hi:
        return "unclear"
    return "more" if stp.lo > 1 else "less"


def slowdown(tenant: TenantSummary, *, short: bool = False) -> str:
    """`1.62 [1.58, 1.67]`, or without its interval."""
    least = "≥ " if tenant.slowdown_is_least and tenant.slowdown.est is not None else ""
    if short:
        return f"{least}{NOTHING if tenant.slowdown.est is None else ratio(tenant.slowdown.est)}"
    return least + with_interval(tenant.slowdown, ratio)


def quantile(estimate: QuantileEstimate) -> str:
    """A latency quantile in milliseconds, or what it lacks."""
    if estimate.est is not None:
        return with_interval(estimate, figure)
    if estimate.needs_n is not None:
        return f"{NOTHING} (needs {estimate.needs_n - estimate.n:,} more requests)"
    return "∞" if estimate.n else NOTHING


@dataclass(frozen=True, slots=True)
class TenantLine:
    """One tenant of one cell, as text."""

    tenant: str
    throughput: str
    p50: str
    p99: str
    slowdown: str
    objective: str
    requests: str


def tenant_lines(tenants: Sequence[TenantSummary]) -> list[TenantLine]:
    """Lines of a table."""
    return [
        TenantLine(
            tenant=one.tenant,
            throughput=with_interval(one.throughput_rps, figure),
            p50=quantile(one.latency_ms["p50"]),
            p99=quantile(one.latency_ms["p99"]),
            slowdown="" if one.cell.solo else slowdown(one),
            objective=""
            if one.slo is None or one.slo_ms is None
            else f"{ANSWERS[one.slo.answer]}: {percent(one.slo.share.est)} within {one.slo.of_what}{one.slo_ms:g} ms",
            requests=f"{one.requests:,}" + (f" ({one.unfinished:,} never done)" if one.unfinished else ""),
        )
        for one in tenants
    ]
