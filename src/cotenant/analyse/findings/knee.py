"""How much load tenants can take: the rate up to which objectives are kept, and where queueing starts to dominate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cotenant.analyse.decision import Answer, Choice
from cotenant.analyse.decision.wording import mix_name
from cotenant.analyse.sharing.evidence import arrivals_and_rate
from cotenant.analyse.sharing.summary import Summary
from cotenant.text import percent

DOUBLED = 2.0
FEWEST_LEVELS = 3


@dataclass(frozen=True, slots=True)
class RateLatency:
    """Latency at one rate."""

    rate_rps: float
    median_ms: float


def knee(levels: Sequence[RateLatency]) -> RateLatency | None:
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
        if (level := arrivals_and_rate(choice.best.cell.load)) is not None:
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
    form = percent if shares else "{:,g}".format

    def at(found: Mapping[str, float | None]) -> str:
        texts = {kind: untouched(kind) if rate is None else form(rate) for kind, rate in found.items()}
        if len(set(texts.values())) == 1:
            however = ", however requests arrive" if len(texts) == len(swept) > 1 else ""
            under = f" under {' and '.join(texts)}" if len(texts) < len(swept) else ""
            return f"{next(iter(texts.values()))}{unit}{under}{however}"
        return f"{', '.join(f'{text} ({kind})' for kind, text in texts.items())}{unit}"

    def untouched(kind: str) -> str:
        return f"above {form(swept[kind][-1][0])}"

    knees = {kind: _knee_of(levels, summary) for kind, levels in swept.items()}
    if any(rate is not None for rate in knees.values()):
        bend = f"the knee, beyond which a median latency more than doubles: {at(knees)}."
    else:
        most = max(rate for levels in swept.values() for rate, _ in levels)
        bend = f"no median latency doubles up to {form(most)}{unit}, the heaviest load tried."
    if not any(choice.best.objectives for levels in swept.values() for _, choice in levels):
        yield _opened(basis, bend)
        return
    kept = {kind: _kept_up_to(levels) for kind, levels in swept.items()}
    if known := {kind: rate for kind, rate in kept.items() if rate is not None}:
        unsure = [kind for kind in kept if kind not in known]
        but = f"; under {' or '.join(unsure)} no load tried is certain" if unsure else ""
        yield f"{basis}{mix} together keep every objective up to {at(known)}{but}."
        yield _opened("", bend)
    elif any(choice.verdict == "open" for levels in swept.values() for _, choice in levels):
        yield _opened(basis, bend)  # what is known comes before what isn't
        yield f"Whether {mix} together keep every objective is unclear at every load tried."
    else:
        yield f"{basis}{mix} together don't keep every objective at any load tried."
        yield _opened("", bend)


def _opened(basis: str, sentence: str) -> str:
    return f"{basis}{sentence}" if basis else sentence[0].upper() + sentence[1:]


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
    medians: dict[str, list[RateLatency]] = {}
    for tenant in summary.tenants:
        median = tenant.latency_ms["p50"].est
        if tenant.cell in cells and median is not None:
            medians.setdefault(tenant.tenant, []).append(RateLatency(cells[tenant.cell], median))
    found = [turn.rate_rps for many in medians.values() if (turn := knee(many)) is not None]
    return min(found, default=None)
