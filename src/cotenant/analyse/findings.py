"""How much load tenants can take: the rate up to which objectives are kept, and where queueing starts to dominate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median
from types import MappingProxyType

from cotenant.analyse.decision import Answer, MixChoice
from cotenant.analyse.decision.option import mix_name
from cotenant.analyse.decision.wording import headline, missed_alone
from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.sharing.cells import usable
from cotenant.analyse.sharing.evidence import arrivals_and_rate
from cotenant.analyse.sharing.summary import Summary
from cotenant.tenancy.interval import Interval, Number
from cotenant.tenancy.records import TenantObservation
from cotenant.text import figure, percent

DOUBLED = 2.0
FEWEST_LEVELS = 3


@dataclass(frozen=True, slots=True)
class RateLatency:
    """Latency at a rate."""

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
    mixes: dict[str, dict[str, list[tuple[float, MixChoice]]]] = {}
    for choice in answer.choices:
        if (level := arrivals_and_rate(choice.best.cell.load)) is not None:
            arrivals, rate = level
            kinds = mixes.setdefault(mix_name(choice.best.standings), {})
            kinds.setdefault(arrivals, []).append((rate, choice))
    sentences: list[str] = []
    for mix, kinds in mixes.items():
        swept = {
            kind: sorted(many, key=lambda rate_and_choice: rate_and_choice[0])
            for kind, many in kinds.items()
            if _swept(many)
        }
        if swept:
            sentences += _about(mix, swept, summary)
    return sentences


def _swept(levels: Sequence[tuple[float, MixChoice]]) -> bool:
    return len({rate for rate, _ in levels}) >= FEWEST_LEVELS


def _about(mix: str, swept: dict[str, list[tuple[float, MixChoice]]], summary: Summary) -> Iterator[str]:
    some = next(iter(swept.values()))[0][1].best.cell
    shares = "%" in some.load
    basis = "Simulated: " if some.simulated else ""
    form = percent if shares else "{:,g}".format

    def each(text: str) -> str:
        noun = "request" if text in ("1", "above 1") else "requests"
        return f"{text} of what each can do alone" if shares else f"{text} {noun}/s each"

    def at(found: Mapping[str, float | None]) -> str:
        texts = {kind: untouched(kind) if rate is None else form(rate) for kind, rate in found.items()}
        if len(set(texts.values())) == 1:
            however = ", however requests arrive" if len(texts) == len(swept) > 1 else ""
            under = f" under {' and '.join(texts)}" if len(texts) < len(swept) else ""
            return f"{each(next(iter(texts.values())))}{under}{however}"
        return each(", ".join(f"{text} ({kind})" for kind, text in texts.items()))

    def untouched(kind: str) -> str:
        return f"above {form(swept[kind][-1][0])}"

    knees = {kind: _knee_of(levels, summary) for kind, levels in swept.items()}
    if any(rate is not None for rate in knees.values()):
        bend = f"the knee, beyond which a median latency more than doubles: {at(knees)}."
    else:
        most = max(rate for levels in swept.values() for rate, _ in levels)
        bend = f"no median latency doubles up to {each(form(most))}, the heaviest load tried."
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
        why = ", given the error of the simulation" if basis else ""
        yield f"Whether {mix} together keep every objective is unclear at every load tried{why}."
    else:
        yield f"{basis}{mix} together don't keep every objective at any load tried."
        yield _opened("", bend)


def _opened(basis: str, sentence: str) -> str:
    return f"{basis}{sentence}" if basis else sentence[0].upper() + sentence[1:]


def _kept_up_to(levels: Sequence[tuple[float, MixChoice]]) -> float | None:
    """The highest rate that is kept with none missed below it; open rates count neither way."""
    last = None
    for rate, choice in levels:
        if choice.verdict == "apart":
            break
        if choice.verdict == "share":
            last = rate
    return last


def _knee_of(levels: Sequence[tuple[float, MixChoice]], summary: Summary) -> float | None:
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


# --- differences between the members of a group, from their solo trials

NS_PER_MS = 1e6
ALIKE = 0.005
"""Differences below this don't matter to anyone who places work."""
FEWEST_BLOCKS = 3
"""Fewest blocks: with fewer, a difference between members may be chance."""


@dataclass(frozen=True, slots=True)
class Apart:
    """One kind of work on every member, alone."""

    work: str
    settings: str
    """Values of the controls; empty if none was set."""
    simulated: bool
    times_ms: dict[str, float]
    """Mean time of a request, by member."""
    surely: bool
    """The slowest was slower in every block than the fastest in any."""

    @property
    def spread(self) -> float:
        """The slowest over the fastest, less 1."""
        return max(self.times_ms.values()) / min(self.times_ms.values()) - 1

    @property
    def slowest(self) -> str:
        """The slowest member."""
        return max(self.times_ms, key=lambda name: self.times_ms[name])


class MemberTimes:
    """Collects the solo results of each member of a group from a stream of observations."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str, bool], dict[str, list[float]]] = {}
        self._in_block: dict[tuple[str, int], set[str]] = {}

    def watch(self, observations: Iterator[TenantObservation]) -> Iterator[TenantObservation]:
        """Pass observations on."""
        for seen in observations:
            if seen.member is not None and seen.solo and usable(seen) and seen.mean_latency_ns > 0:
                work = self._seen.setdefault((seen.of, seen.settings, seen.load, seen.simulated), {})
                work.setdefault(seen.member, []).append(seen.mean_latency_ns / NS_PER_MS)
                self._in_block.setdefault((seen.run, seen.block), set()).add(seen.member)
            yield seen

    def apart(self) -> tuple[Apart, ...]:
        """Every kind of work that several members did; default settings first, then by decreasing spread.

        None if the members divided the blocks between them: then the mixes are what was asked.
        """
        if all(len(members) == 1 for members in self._in_block.values()):
            return ()
        found = [
            Apart(
                of,
                "" if settings == "{}" else settings,
                simulated,
                {member: mean(times) for member, times in members.items()},
                _surely(members),
            )
            for (of, settings, _, simulated), members in self._seen.items()
            if len(members) > 1
        ]
        return tuple(sorted(found, key=lambda apart: (bool(apart.settings), -apart.spread)))


def _surely(members: dict[str, list[float]]) -> bool:
    slow = max(members.values(), key=mean)
    quick = min(members.values(), key=mean)
    return min(len(slow), len(quick)) >= FEWEST_BLOCKS and min(slow) > max(quick)


def member_findings(found: Sequence[Apart]) -> list[str]:
    """The spread, the work under which it is largest, and the slow members."""
    if not found:
        return []
    free = [apart for apart in found if not apart.settings] or list(found)
    most, least = free[0], free[-1]
    basis = "Simulated: " if most.simulated else ""
    if most.spread < ALIKE:
        return [f"{basis}{len(most.times_ms)} devices are alike: at most {percent(most.spread)} apart ({most.work})."]
    said = (
        f"{basis}{len(most.times_ms)} supposedly identical devices differ by "
        f"{percent(most.spread)} under {most.work}{'' if most.surely else ', which may be chance'}"
    )
    if least is not most:
        said += f"{'' if most.surely else ','} and by {percent(least.spread)} under {least.work}"
    slow = [apart.slowest for apart in free]
    worst = max(dict.fromkeys(slow), key=slow.count)
    often = "all work" if slow.count(worst) == len(slow) else f"{slow.count(worst)} of {len(slow)} kinds of work"
    behind = most.times_ms[most.slowest] / median(most.times_ms.values()) - 1
    who = (
        f"{short(worst)} is slowest under {often}; under {most.work} {short(most.slowest)} takes "
        f"{figure(most.times_ms[most.slowest])} ms a request, {percent(behind)} above the median."
    )
    return [f"{said}.", who, "Since when and why: cotenant db add RUN, then cotenant db gpus."]


def short(member: str) -> str:
    """`#3` of `sim:a100-sxm4-40gb#3`; `cuda:3` as it is."""
    return f"#{member.rpartition('#')[2]}" if "#" in member else member


# --- where the time goes, by model and stage

WORTH_NAMING = 0.05


@dataclass(frozen=True, slots=True)
class StageShare:
    """Mean time of a stage of a tenant alone."""

    of: str
    stage: str
    mean_ms: float

    @property
    def model(self) -> str:
        """Variants of a model are named `model.variant`; a version, as in `llama-3.2-3b`, is not a variant."""
        model, dot, variant = self.of.partition(".")
        return self.of if dot and variant[:1].isdigit() else model


@dataclass(frozen=True, slots=True)
class ModelStages:
    """One model, over its variants."""

    model: str
    time_ms: Interval
    """Mean of a request, over all variants."""
    shares: tuple[tuple[str, float], ...]
    """Share of the time by stage, largest first."""


def by_model(
    times: Sequence[StageShare], requests_ms: Mapping[str, Number] = MappingProxyType({})
) -> list[ModelStages]:
    """Longest first.

    Args:
        times: Mean times of all stages of all tenants.
        requests_ms: Mean time of a request by tenant, for the intervals.
    """
    found = []
    for model in dict.fromkeys(share.model for share in times):
        mine = [share for share in times if share.model == model]
        total = sum(share.mean_ms for share in mine)
        variants = list(dict.fromkeys(share.of for share in mine))
        if total > 0:
            ends = _ends([requests_ms[of] for of in variants if of in requests_ms])
            found.append(ModelStages(model, Interval(total / len(variants), *ends), _shares(mine, total)))
    return sorted(found, key=lambda model: -model.time_ms.est)


def _ends(variants: Sequence[Number]) -> tuple[float | None, float | None]:
    """Ends of the mean over variants, whose errors may well have the same sign."""
    lows, highs = (
        [variant.lo for variant in variants if variant.lo is not None],
        [variant.hi for variant in variants if variant.hi is not None],
    )
    complete = len(lows) == len(highs) == len(variants) > 0
    return (sum(lows) / len(lows), sum(highs) / len(highs)) if complete else (None, None)


def stage_findings(times: Sequence[StageShare]) -> list[str]:
    """The stage that takes most of the time, the models where it takes most and least, and the next stages."""
    models = by_model(times)
    if not models or len({share.stage for share in times}) < 2:
        return []
    (first, share), *rest = _shares(times, sum(share.mean_ms for share in times))
    sentence = f"Most of the time goes to {first}: {percent(share)}"
    if len(models) > 1:
        each = sorted((dict(model.shares).get(first, 0.0), model.model) for model in models)
        sentence += f", from {percent(each[0][0])} in {each[0][1]} to {percent(each[-1][0])} in {each[-1][1]}"
    others = [f"{stage} {percent(part)}" for stage, part in rest if part >= WORTH_NAMING][:3]
    return [f"{sentence}{'; then ' + ', '.join(others) if others else ''}.", *_exceptions(models, first)]


def _exceptions(models: Sequence[ModelStages], first: str) -> list[str]:
    other = [
        f"{model.model} ({model.shares[0][0]}, {percent(model.shares[0][1])})"
        for model in models
        if model.shares[0][0] != first
    ]
    more = " and others" if len(other) > 3 else ""
    return [f"Another stage takes most in {', '.join(other[:3])}{more}."] if other else []


def _shares(times: Sequence[StageShare], total: float) -> tuple[tuple[str, float], ...]:
    sums: dict[str, float] = {}
    for share in times:
        sums[share.stage] = sums.get(share.stage, 0.0) + share.mean_ms
    return tuple(sorted(((stage, took / total) for stage, took in sums.items()), key=lambda pair: -pair[1]))


# --- the first sentences about a run: its study's main finding, or else the recommendation


def opening(
    answer: Answer,
    summary: Summary,
    *,
    sweeps: Sequence[Sweep] = (),
    members: Sequence[Apart] = (),
    stages: Sequence[StageShare] = (),
) -> list[str]:
    """The finding for this kind of study; a study of who may share opens with the decision."""
    found = (
        member_findings(members) or clock_findings(sweeps) or load_findings(answer, summary) or stage_findings(stages)
    )
    return [*found, *missed_alone(answer)] if found else headline(answer)


WORTH_SETTING = 0.05
"""Share of the energy of a request: a smaller saving is not worth changing a setting."""


def clock_findings(sweeps: Sequence[Sweep]) -> list[str]:
    """Energy saved by lower clocks or limits over all jobs, and its cost in time."""
    if not sweeps:
        return []
    said = []
    for control, verb, noun in (("clock_mhz", "Lower the clock", "clock"), ("power_w", "Limit the power", "limit")):
        mine = [sweep for sweep in sweeps if sweep.control == control]
        if not mine:
            continue
        saved = [sweep.energy_saved for sweep in mine]
        lost = [max(0.0, sweep.time_lost) for sweep in mine]
        if max(saved) < WORTH_SETTING:
            said.append(f"Leave the {noun} as it is: no other saves more than {percent(max(saved))} of the energy.")
            continue
        each = "" if len(mine) == 1 else f" at the best {noun} of each of {len(mine)} jobs"
        said.append(
            f"{verb}: a request needs {_span(saved)} less energy for {_span(lost)} more time{each}"
            f"{_cheapest(mine) if len(mine) > 1 else ''}."
        )
    return said


def _span(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _cheapest(sweeps: Sequence[Sweep]) -> str:
    """The job that saves most for its cost in time."""
    best = max(sweeps, key=lambda sweep: sweep.energy_saved - max(0.0, sweep.time_lost))
    value = best.best.value
    unit = "MHz" if best.control == "clock_mhz" else "W"
    at = "" if value is None else f" at {value:,.0f} {unit}"
    return f"; {best.job} gains most: {percent(best.energy_saved)} for {percent(max(0.0, best.time_lost))}{at}"
