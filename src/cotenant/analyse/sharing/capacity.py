"""The highest rate that still meets an objective: a search that asks, and leaves the measuring to whoever answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Answer = Literal["met", "missed", "unstable"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One question that was asked."""

    rate_rps: float
    answer: Answer


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity lies between ``met_rps`` and ``missed_rps``."""

    met_rps: float | None
    """Highest rate that met the objective; None if not even the lowest tried did."""
    missed_rps: float | None
    """Lowest rate above it that did not; None if none was found."""
    probes: tuple[Probe, ...]
    precise: bool
    """The two are as close as was asked for, and neither rests on unstable answers."""


def find_capacity(
    meets: Callable[[float], Answer], *, start_rps: float, precision: float = 0.05, most_probes: int = 24
) -> Capacity:
    """Double (or halve) from ``start_rps`` until the objective turns from met to missed, then bisect.

    Assumes that a rate above one that misses misses too. A probe that comes out unstable is asked once more; if it
    stays unstable the rate counts as not met, since nobody can promise it, and the result is not called precise.
    """
    if start_rps <= 0 or not 0 < precision < 1:
        raise ValueError("the starting rate is above 0 and the precision between 0 and 1")
    probes: list[Probe] = []
    unstable_at: set[float] = set()

    def met(rate: float) -> bool:
        answer: Answer = "unstable"
        for _ in range(2):
            if answer == "unstable" and len(probes) < most_probes:
                answer = meets(rate)
                probes.append(Probe(rate, answer))
        if answer == "unstable":
            unstable_at.add(rate)
        return answer == "met"

    best, worst = _bracket(met, probes, start_rps, most_probes)
    while best is not None and worst is not None and worst > best * (1 + precision) and len(probes) < most_probes:
        middle = (best * worst) ** 0.5
        best, worst = (middle, worst) if met(middle) else (best, middle)
    close = best is not None and worst is not None and worst <= best * (1 + precision)
    return Capacity(best, worst, tuple(probes), close and worst not in unstable_at)


def _bracket(
    met: Callable[[float], bool], probes: list[Probe], rate: float, most_probes: int
) -> tuple[float | None, float | None]:
    """A rate that meets the objective and one, twice as high, that does not."""
    rising = met(rate)
    while len(probes) < most_probes:
        following = rate * 2 if rising else rate / 2
        if met(following) != rising:
            return (rate, following) if rising else (following, rate)
        rate = following
    return (rate, None) if rising else (None, rate)
