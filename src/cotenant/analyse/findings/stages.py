"""Where the time goes, by model and stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cotenant.analyse.estimates.quantiles import Number
from cotenant.text import percent

WORTH_NAMING = 0.05


@dataclass(frozen=True, slots=True)
class StageShare:
    """Mean time of one stage of one tenant alone."""

    of: str
    stage: str
    mean_ms: float

    @property
    def model(self) -> str:
        """Variants of one model are named `model.variant`; a version, as in `llama-3.2-3b`, is not a variant."""
        model, dot, variant = self.of.partition(".")
        return self.of if dot and variant[:1].isdigit() else model


@dataclass(frozen=True, slots=True)
class ModelStages:
    """One model, over its variants."""

    model: str
    variants: int
    est: float
    """Mean time of a request, ms."""
    lo: float | None
    hi: float | None
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
    for model in dict.fromkeys(one.model for one in times):
        mine = [one for one in times if one.model == model]
        total = sum(one.mean_ms for one in mine)
        variants = list(dict.fromkeys(one.of for one in mine))
        if total > 0:
            lo, hi = _ends([requests_ms[of] for of in variants if of in requests_ms])
            found.append(ModelStages(model, len(variants), total / len(variants), lo, hi, _shares(mine, total)))
    return sorted(found, key=lambda one: -one.est)


def _ends(variants: Sequence[Number]) -> tuple[float | None, float | None]:
    """Ends of the mean over variants, whose errors may well have the same sign."""
    lows, highs = [one.lo for one in variants if one.lo is not None], [one.hi for one in variants if one.hi is not None]
    complete = len(lows) == len(highs) == len(variants) > 0
    return (sum(lows) / len(lows), sum(highs) / len(highs)) if complete else (None, None)


def stage_findings(times: Sequence[StageShare]) -> list[str]:
    """The stage that takes most of the time, the models where it takes most and least, and the next stages."""
    models = by_model(times)
    if not models or len({one.stage for one in times}) < 2:
        return []
    (first, share), *rest = _shares(times, sum(one.mean_ms for one in times))
    said = f"Most of the time goes to {first}: {percent(share)}"
    if len(models) > 1:
        each = sorted((dict(one.shares).get(first, 0.0), one.model) for one in models)
        said += f", from {percent(each[0][0])} in {each[0][1]} to {percent(each[-1][0])} in {each[-1][1]}"
    others = [f"{stage} {percent(part)}" for stage, part in rest if part >= WORTH_NAMING][:3]
    return [f"{said}{'; then ' + ', '.join(others) if others else ''}.", *_exceptions(models, first)]


def _exceptions(models: Sequence[ModelStages], first: str) -> list[str]:
    other = [
        f"{one.model} ({one.shares[0][0]}, {percent(one.shares[0][1])})" for one in models if one.shares[0][0] != first
    ]
    return (
        [f"Another stage takes most in {', '.join(other[:3])}{' and others' if len(other) > 3 else ''}."]
        if other
        else []
    )


def _shares(times: Sequence[StageShare], total: float) -> tuple[tuple[str, float], ...]:
    sums: dict[str, float] = {}
    for one in times:
        sums[one.stage] = sums.get(one.stage, 0.0) + one.mean_ms
    return tuple(sorted(((stage, took / total) for stage, took in sums.items()), key=lambda pair: -pair[1]))
