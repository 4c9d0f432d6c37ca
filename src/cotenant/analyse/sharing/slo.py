"""Attainment of a latency objective: the share of requests within it, and when enough have been seen to decide."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from cotenant.analyse.estimates.autocorrelation import Stretches, design_effect
from cotenant.analyse.estimates.distributions import beta_cdf, beta_quantile
from cotenant.analyse.sharing.cells import counts
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.records import TenantObservation

Metric = Literal["latency", "ttft", "tpot"]
"""What an objective limits: a whole request, the time to its first token, the time per output token."""
CONFIDENCE = 0.99
"""As in MLPerf: a passing run meets its objective with this confidence."""


@lru_cache(maxsize=1024)
def queries_needed(quantile: float, late: int, confidence: float = CONFIDENCE, tolerance: float = 0.0) -> int:
    """Fewest requests, ``late`` of them over the objective, that show that the quantile meets it.

    MLPerf's early stopping: the smallest h of requests in time with I(quantile - tolerance; h, late + 1) <=
    1 - confidence, plus the late ones. Assumes independent requests and looks that were planned beforehand.
    """
    p = quantile - tolerance
    if not 0 < p < 1 or late < 0:
        raise ValueError("the quantile less its tolerance must lie between 0 and 1, and late requests be at least 0")
    too_few, enough = 0, 1
    while beta_cdf(enough, late + 1, p) > 1 - confidence:
        too_few, enough = enough, enough * 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if beta_cdf(middle, late + 1, p) > 1 - confidence:
            too_few = middle
        else:
            enough = middle
    return enough + late


@dataclass(frozen=True, slots=True)
class Attainment:
    """The share of requests within the objective, and whether the objective is met."""

    share: Estimate
    """``n`` counts requests."""
    quantile: float
    answer: Literal["met", "missed", "undecided"]
    needs_n: int | None
    """Requests that would decide it if the share of late ones stayed the same; None if decided or out of reach."""
    metric: Metric = "latency"

    @property
    def of_what(self) -> str:
        """Prefix of its limit in a sentence: empty for latency, `TTFT of ` for the time to first token."""
        return "" if self.metric == "latency" else f"{self.metric.upper()} of "


def attainment(met: Sequence[int], total: Sequence[int], quantile: float) -> Attainment:
    """Attainment over trials; ``met`` and ``total`` count requests per trial, the total including unfinished ones.

    The share's interval is exact for independent requests (Clopper and Pearson), widened by the design effect between
    trials; the verdict applies MLPerf's early stopping to the equivalent number of independent requests.
    """
    hits, sizes = np.asarray(met, dtype=np.int64), np.asarray(total, dtype=np.int64)
    return attainment_of([Stretches(sizes[i : i + 1], hits[i : i + 1]) for i in range(sizes.size)], quantile)


def attainment_of(trials: Sequence[Stretches], quantile: float, confidence: float = CONFIDENCE) -> Attainment:
    """The same where each trial's requests are counted in stretches, decided with a given confidence."""
    counted = [trial for trial in trials if trial.sizes.sum()]
    n = sum(int(trial.sizes.sum()) for trial in counted)
    if n == 0:
        raise ValueError("attainment needs at least one request")
    in_time = sum(int(trial.hits.sum()) for trial in counted)
    deff = design_effect(counted)
    lo, hi = binomial_interval(in_time / deff, n / deff)
    method = "binomial" if deff == 1 else f"binomial, design effect {deff:.1f}"
    share = Estimate(in_time / n, lo, hi, n, method)
    late = int(np.ceil((n - in_time) / deff))
    if n / deff >= queries_needed(quantile, late, confidence):
        return Attainment(share, quantile, "met", None)
    if binomial_interval(in_time / deff, n / deff, 2 * confidence - 1)[1] < quantile:
        return Attainment(share, quantile, "missed", None)
    return Attainment(share, quantile, "undecided", _would_decide(in_time / n, n, quantile, deff, confidence))


def binomial_interval(hits: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share; ``hits`` and ``n`` may be fractions (effective sizes)."""
    tail = (1 - level) / 2
    lo = beta_quantile(hits, n - hits + 1, tail) if hits > 0 else 0.0
    hi = beta_quantile(hits + 1, n - hits, 1 - tail) if hits < n else 1.0
    return lo, hi


def _would_decide(share: float, n: int, quantile: float, deff: float, confidence: float) -> int | None:
    """Requests at which the same share would decide, by doubling, then bisection; None beyond a thousandfold."""

    def decided(size: int) -> bool:
        effective = size / deff
        if share > quantile:
            return effective >= queries_needed(quantile, int(np.ceil(effective * (1 - share))), confidence)
        return binomial_interval(share * effective, effective, 2 * confidence - 1)[1] < quantile

    enough = n
    while not decided(enough):
        enough *= 2
        if enough > 1000 * n:
            return None
    too_few = enough // 2
    while enough - too_few > max(1, enough // 1000):
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if decided(middle) else (middle, enough)
    return enough


LATE, LATE_AGAIN = 2, 8
"""Late requests that the number allows for, at a first look and, if that leaves it open, at a second. Both are fixed
beforehand: stopping as soon as the requests so far happen to decide would decide too often."""

CellKey = tuple[str, str, str]
"""Mix, sharing and load."""


class ObjectiveRequests:
    """Requests so far by cell and tenant."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[CellKey, str, float]] = Counter()
        self._late: Counter[tuple[CellKey, str, float]] = Counter()

    def add(self, observations: Iterable[TenantObservation]) -> None:
        """Count the requests of tenants with an objective."""
        for seen in filter(counts, observations):
            met = {goal.quantile: goal.met for goal in seen.token_goals}
            if seen.slo_met is not None:
                met[seen.slo_quantile or 0.99] = seen.slo_met
            if met:
                strictest = max(met)
                key = (seen.mix, str(seen.sharing), seen.load), seen.role, strictest
                self._seen[key] += seen.n + seen.unfinished
                self._late[key] += seen.n + seen.unfinished - met[strictest]

    def lacking(self) -> dict[CellKey, float]:
        """Cells with too few, and how many times as many they need."""
        found: dict[CellKey, float] = {}
        for key, n in self._seen.items():
            cell, _, quantile = key
            first = queries_needed(quantile, LATE)
            again = n >= first and _open(n, self._late[key], quantile)
            times = (queries_needed(quantile, LATE_AGAIN) if again else first) / max(n, 1)
            if times > 1:
                found[cell] = max(times, found.get(cell, 0.0))
        return found


def _open(n: int, late: int, quantile: float) -> bool:
    """Whether these requests neither show that the quantile meets its limit nor that it doesn't."""
    missed = binomial_interval(n - late, n, 2 * CONFIDENCE - 1)[1] < quantile
    return not missed and n < queries_needed(quantile, late)
