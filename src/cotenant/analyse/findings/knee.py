"""How much load tenants can take: the rate up to which objectives are kept, and where queueing starts to dominate."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cotenant.analyse.decision import Answer, Choice
from cotenant.analyse.decision.wording import mix_name
from cotenant.analyse.sharing.summary import Summary
from cotenant.text import figure, percent

_OPEN = ("poisson", "gamma", "trace")
_RATE = re.compile(r"\d+(?:\.\d+)?%?")
"""Loads are parsed from their labels, so `show` needs no model of a study."""
DOUBLED = 2.0
FEWEST_LEVELS = 3


@dataclass(frozen=True, slots=True)
class Level:
    """Latency at one rate."""

    rate_rps: float
    median_ms: float


def knee(levels: Sequence[Level]) -> Level | None:
    """The last level before the median first exceeds twice that of the lightest load.

    None if it never does, or if there are too few levels to see a bend.
    """
    if len(levels) < FEWEST_LEVELS:
        return None
    ordered = sorted(levels, key=lambda level: level.rate_rps)
    for before, after in pairwise(ordered):
        if after.median_ms > DOUBLED * ordered[0].median_ms:
            return before
    return None


def load_findings(answer: Answer, summary: Summary) -> list[str]:
    """For each mix measured at three or more rates: the rate up to which it keeps its objectives, and its knee."""
    mixes: dict[str, dict[str, list[tuple[float, Choice]]]] = {}
    for choice in answer.choices:
        if (level := _level(choice.best.cell.load)) is not None:
            arrivals, rate = level
            kinds = mixes.setdefault(mix_name(choice.best.standings), {})
            kinds.setdefault(arrivals, []).append((rate, choice))
    said: list[str] = []
    for mix, kinds in mixes.items():
        swept = {kind: sorted(many, key=lambda one: one[0]) for kind, many in kinds.items() if _swept(many)}
        if swept:
            said += _about(mix, swept, summary)
    return said


def _swept(levels: Sequence[tuple[float, Choice]]) -> bool:
    return len({rate for rate, _ in levels}) >= FEWEST_LEVELS


def _about(mix: str, swept: dict[str, list[tuple[float, Choice]]], summary: Summary) -> Iterator[str]:
    some = next(iter(swept.values()))[0][1].best.cell
    shares = "%" in some.load
    unit = " of what each can do alone" if shares else " requests/s each"
    basis = "Simulated: " if some.simulated else ""
    form = percent if shares else figure

    def listed(found: dict[str, float | None], nothing: str) -> str:
        texts = [f"{nothing if rate is None else form(rate)} ({kind})" for kind, rate in found.items()]
        return ", ".join(texts)

    if any(choice.best.objectives for levels in swept.values() for _, choice in levels):
        kept = {kind: _kept_up_to(levels) for kind, levels in swept.items()}
        if any(rate is not None for rate in kept.values()):
            yield f"{basis}{mix} together keep every objective up to {listed(kept, 'nothing')}{unit}."
        else:
            yield f"{basis}{mix} together don't keep every objective at any load tried."
    knees = {kind: _knee_of(levels, summary) for kind, levels in swept.items()}
    if any(rate is not None for rate in knees.values()):
        yield f"The knee, beyond which a median more than doubles: {listed(knees, 'none')}{unit}."
    else:
        most = max(rate for levels in swept.values() for rate, _ in levels)
        yield f"No median doubles up to {form(most)}{unit}, the heaviest load tried."


def _kept_up_to(levels: Sequence[tuple[float, Choice]]) -> float | None:
    """The highest rate that is kept with none missed below it; open rates count neither way."""
    last = None
    for rate, choice in levels:
        if choice.verdict == "apart":
            break
        if choice.verdict == "share":
            last = rate
    return last


def _knee_of(levels: Sequence[tuple[float, Choice]], summary: Summary) -> float | None:
    """Knee of the tenant that reaches it first, under the way to share that is best at the lightest load."""
    sharing = levels[0][1].best.cell.sharing
    cells = {
        option.cell: rate for rate, choice in levels for option in choice.options if option.cell.sharing == sharing
    }
    medians: dict[str, list[Level]] = {}
    for tenant in summary.tenants:
        median = tenant.latency_ms["p50"].est
        if tenant.cell in cells and median is not None:
            medians.setdefault(tenant.tenant, []).append(Level(cells[tenant.cell], median))
    found = [turn.rate_rps for many in medians.values() if (turn := knee(many)) is not None]
    return min(found, default=None)


def _level(label: str) -> tuple[str, float] | None:
    """`("gamma, cv 3", 0.15)` from `gamma(15%, 3)`; None for closed loads, and where each tenant has its own."""
    kind, _, rest = label.removesuffix(")").partition("(")
    parts = [part.strip() for part in rest.split(",")]
    rate = parts[-1] if kind == "trace" else parts[0]
    if kind not in _OPEN or not _RATE.fullmatch(rate):
        return None
    value = float(rate.removesuffix("%")) / (100 if rate.endswith("%") else 1)
    return (f"gamma, cv {parts[1]}" if kind == "gamma" and len(parts) > 1 else kind), value
