"""Latency quantiles with distribution-free intervals; none is given from too few requests."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cotenant.analyse.estimates.autocorrelation import Stretches, design_effect, stretch_bounds
from cotenant.analyse.estimates.distributions import binomial_cdf
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.tenancy.records import Int64s

LEVEL = 0.95
ORDER_STATISTICS = "order statistics"


@lru_cache(maxsize=64)
def needed_for(q: float, level: float = LEVEL) -> int:
    """Smallest sample with a two-sided distribution-free interval for the quantile q.

    Even the full range, lowest to highest value, misses the quantile with probability q**n + (1 - q)**n.
    """
    if not 0 < q < 1:
        raise ValueError(f"a quantile must lie between 0 and 1, not {q}")
    n = 1
    while q**n + (1 - q) ** n > 1 - level:
        n += 1
    return n


def interval_ranks(n: int, q: float) -> tuple[int, int]:
    """Ranks (from 1) of two order statistics that enclose the quantile with at least this probability.

    Equal tails where the data allow; where an end would lie beyond the data, the last value is that end and the other
    moves so that the coverage still holds. Assumes independent values; exact for any distribution.
    """
    if n < needed_for(q):
        raise ValueError(f"{n} values can't enclose the quantile {q}")
    first, at_most = binomial_cdf(n, q)

    def below(rank: int) -> float:
        """Probability that fewer than ``rank`` of the n values lie below the quantile."""
        return float(at_most[min(rank - 1 - first, at_most.size - 1)]) if rank > first else 0.0

    def last_rank(probability: float) -> int:
        """The largest rank whose `below` is at most this probability."""
        return first + int(np.searchsorted(at_most, probability, side="right")) if probability >= 0 else 0

    tail = (1 - LEVEL) / 2
    lo, hi = last_rank(tail), last_rank(1 - tail) + 1
    if lo < 1:
        lo, hi = 1, last_rank(LEVEL + below(1)) + 1
    elif hi > n:
        lo, hi = last_rank(below(n) - LEVEL), n
    return max(lo, 1), min(hi, n)


def latency_quantiles(
    per_trial: Sequence[Int64s], qs: Sequence[float], unfinished: Sequence[int] = ()
) -> Mapping[float, Number]:
    """Quantiles of the pooled requests of all trials, each with a 95 % interval.

    Each trial's values are in the order in which the requests were due; ``unfinished`` counts, per trial, those that
    never completed: they are infinitely late. The interval uses order statistics at ranks spread by the design effect,
    so it assumes neither a distribution nor independence of requests within a trial. A single trial says nothing about
    variation between trials; ``method`` then notes it.
    """
    lost = sum(unfinished)
    done = sum(values.size for values in per_trial)
    n = done + lost
    estimates: dict[float, Number] = {q: Missing("too few requests", n, needed_for(q)) for q in qs if n < needed_for(q)}
    ranks = {q: max(1, math.ceil(q * n)) for q in qs if q not in estimates}
    infinite = Missing(f"infinite: {lost} of {n} requests never completed", n)
    estimates |= dict.fromkeys((q for q, rank in ranks.items() if rank > done), infinite)
    ranks = {q: rank for q, rank in ranks.items() if rank <= done}
    if not ranks:
        return estimates
    pooled = np.concatenate(list(per_trial))
    pooled.partition([rank - 1 for rank in ranks.values()])
    middles = {q: int(pooled[rank - 1]) for q, rank in ranks.items()}
    cut = _cut(per_trial, unfinished)
    effects = {q: design_effect(_exceedances(cut, middle)) for q, middle in middles.items()}
    ends = {q: _spread_ranks(n, q, effects[q]) for q in ranks}
    within = sorted({end - 1 for pair in ends.values() for end in pair if end is not None and end <= done})
    if within:
        pooled.partition(within)
    for q, (lo, hi) in ends.items():
        short: str | None = None
        if lo is None or hi is None:
            short = f"requests are correlated: {n} are worth {max(1, round(n / effects[q]))} independent ones"
        elif hi > done:
            short = "the interval's upper end is infinite: some requests never completed"
        estimates[q] = Estimate(
            est=float(middles[q]),
            lo=None if lo is None else float(pooled[lo - 1]),
            hi=None if hi is None or hi > done else float(pooled[hi - 1]),
            n=n,
            needs_n=math.ceil(needed_for(q) * effects[q]) if lo is None or hi is None else None,
            reason=short,
            method=f"{ORDER_STATISTICS}, design effect {effects[q]:.1f}{', one trial' if len(per_trial) == 1 else ''}",
        )
    return {q: estimates[q] for q in qs}


class _CutTrial(NamedTuple):
    """One trial, cut into stretches; its unfinished requests are spread over them."""

    pieces: list[Int64s]
    sizes: Int64s
    late: Int64s


def _cut(per_trial: Sequence[Int64s], unfinished: Sequence[int]) -> list[_CutTrial]:
    trials = []
    for index, values in enumerate(per_trial):
        lost = unfinished[index] if index < len(unfinished) else 0
        if values.size + lost:
            bounds = stretch_bounds(values.size, len(per_trial))
            late = np.diff(np.arange(bounds.size, dtype=np.int64) * lost // (bounds.size - 1))
            pieces = [values[a:b] for a, b in pairwise(bounds.tolist())]
            trials.append(_CutTrial(pieces, np.diff(bounds) + late, late))
    return trials


def _exceedances(trials: Sequence[_CutTrial], threshold: int) -> list[Stretches]:
    """Requests above the threshold by stretch."""
    return [
        Stretches(
            trial.sizes,
            trial.late + np.array([np.count_nonzero(piece > threshold) for piece in trial.pieces], np.int64),
        )
        for trial in trials
    ]


def _spread_ranks(n: int, q: float, deff: float) -> tuple[int | None, int | None]:
    """Ranks among n values as far apart as those of n / deff independent ones; None where they leave the data."""
    if deff == 1:
        return interval_ranks(n, q)
    independent = int(n / deff)
    if independent < needed_for(q):
        return None, None
    lo, hi = interval_ranks(independent, q)
    return max(1, math.floor(lo / independent * n)), min(n, math.ceil(hi / independent * n))
