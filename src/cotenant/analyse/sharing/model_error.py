"""Intervals of simulated numbers: the noise of the arrivals, widened by the simulation's error on real GPUs."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from cotenant.tenancy.interval import Ends, Estimate, Number
from cotenant.tenancy.records import ModelErrorRecord

WIDENED = "and the simulation's error"
_INVERSE = ("harmonic_speedup",)
"""Metrics that fall as tenants slow down."""
_EVENNESS = ("fairness", "jain")
"""Metrics of equality between tenants, at most 1."""


def time_range(error: ModelErrorRecord, *, solo: bool, tail: bool = False) -> Ends:
    """Error of a time: alone its own; beside others that of such times, or of both the time alone and the slowdown.

    These two are combined as independent.
    """
    if solo:
        return error.time
    if (beside := error.shared_tail if tail else error.shared) is not None:
        return beside
    shared = error.tail if tail else error.slowdown
    low = -math.hypot(*(math.log(min(ends[0], 1.0)) for ends in (error.time, shared)))
    high = math.hypot(*(math.log(max(ends[1], 1.0)) for ends in (error.time, shared)))
    return math.exp(low), math.exp(high)


def inverse(ends: Ends) -> Ends:
    """Error of a rate."""
    return 1 / ends[1], 1 / ends[0]


def widened(number: Number, ends: Ends, *, least: float = 0.0, most: float = math.inf) -> Number:
    """Widen a number's interval by the simulation's error, within the possible range."""
    return widened_estimate(number, ends, least=least, most=most) if isinstance(number, Estimate) else number


def widened_estimate(number: Estimate, ends: Ends, *, least: float = 0.0, most: float = math.inf) -> Estimate:
    """The same for a number that is known to exist."""
    return replace(number.widened(ends, least=least, most=most), method=f"{number.method} {WIDENED}")


def widened_quantile(quantile: Number, ends: Ends) -> Number:
    """The same for a quantile; an end beyond the data stays missing."""
    if not isinstance(quantile, Estimate):
        return quantile
    wide = widened_estimate(quantile, ends)
    return replace(wide, lo=None if quantile.lo is None else wide.lo, hi=None if quantile.hi is None else wide.hi)


def of_ratio(first: ModelErrorRecord, second: ModelErrorRecord) -> Ends:
    """Error of a tenant's slowdown over another's: a bias they share cancels, the rest is independent."""
    (low, high), (least, most) = ((math.log(end) for end in error.slowdown) for error in (first, second))
    centre, half = (low + high - least - most) / 2, math.hypot(high - low, most - least) / 2
    return math.exp(centre - half), math.exp(centre + half)


def of_work(progress: Sequence[float], errors: Sequence[ModelErrorRecord]) -> Ends:
    """Error of the work of a mix, the sum of its tenants' progress.

    Errors of a class have the same cause and add up; those of different classes are combined as independent.
    """
    less: dict[str, float] = defaultdict(float)
    more: dict[str, float] = defaultdict(float)
    for share, error in zip(progress, errors, strict=True):
        less[error.kind] += share * (1 - 1 / max(error.slowdown[1], 1.0))
        more[error.kind] += share * (1 / min(error.slowdown[0], 1.0) - 1)
    work = sum(progress)
    return 1 - math.hypot(*less.values()) / work, 1 + math.hypot(*more.values()) / work


def of_metric(name: str, errors: Sequence[ModelErrorRecord]) -> Ends:
    """Widen a metric of a mix as if the simulation were off for all its tenants in the same direction.

    Metrics of equality are widened by the difference between the tenants' errors.
    """
    low = math.exp(sum(math.log(error.slowdown[0]) for error in errors) / len(errors))
    high = math.exp(sum(math.log(error.slowdown[1]) for error in errors) / len(errors))
    if name in _EVENNESS:
        return math.sqrt(low / high), math.sqrt(high / low)
    return inverse((low, high)) if name in _INVERSE else (low, high)
