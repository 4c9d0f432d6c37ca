"""Groups of mixes compared: encoders, decoders, both; tenants of one size, or a small one beside a big one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log, sqrt

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.estimates.multiple import holm
from cotenant.analyse.insight.properties import Sufferer

FEWEST_MIXES = 3
"""Fewest mixes in a group: fewer can't be distinguished from chance."""
BIG_FROM = 3.0
"""A request that takes this many times as long as another is big beside it."""
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Group:
    """Mixes of one kind under one way to share."""

    name: str
    mixes: int
    slowdown: float
    """Geometric mean over tenants and mixes."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two groups under one way to share."""

    sharing: str
    one: Group
    other: Group
    ratio: float
    """Slowdown of the first group over that of the second."""
    lo: float
    hi: float
    p: float
    """After Holm's correction for all contrasts of the run."""

    @property
    def shown(self) -> bool:
        """The difference is more than chance."""
        return self.p <= LEVEL


def contrasts(sufferers: Sequence[Sufferer], kinds: Mapping[str, str]) -> list[Contrast]:
    """Compare every two groups that differ by kind, under each way to share; the most certain first.

    Args:
        sufferers: Tenants of mixes with their slowdowns. Only mixes of the most common size count: otherwise the number
            of tenants would dominate.
        kinds: Kind of each tenant of the study: `encoder`, `decoder` and so on.
    """
    found: list[tuple[Contrast, float]] = []
    for sharing in dict.fromkeys(one.sharing for one in sufferers):
        mixes: dict[str, list[Sufferer]] = {}
        for one in sufferers:
            if one.sharing == sharing and one.neighbours == 1:
                mixes.setdefault(one.mix, []).append(one)
        for label in (lambda many: _by_kind(many, kinds), _by_size):
            groups: dict[str, list[float]] = {}
            for many in mixes.values():
                if (name := label(many)) is not None:
                    groups.setdefault(name, []).append(float(np.mean([one.log_slowdown for one in many])))
            enough = {name: np.array(values) for name, values in groups.items() if len(values) >= FEWEST_MIXES}
            found += [_contrast(sharing, (a, enough[a]), (b, enough[b])) for a, b in combinations(sorted(enough), 2)]
    if not found:
        return []
    adjusted = holm([p for _, p in found])
    corrected = [
        Contrast(one.sharing, one.one, one.other, one.ratio, one.lo, one.hi, float(p))
        for (one, _), p in zip(found, adjusted, strict=True)
    ]
    return sorted(corrected, key=lambda one: (one.p, -abs(log(one.ratio))))


def _by_kind(many: Sequence[Sufferer], kinds: Mapping[str, str]) -> str | None:
    found = {kinds.get(one.tenant, "") for one in many}
    if "" in found:
        return None
    return (
        f"{found.pop()}s"
        if len(found) == 1
        else " beside ".join(f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in sorted(found))
    )


def _by_size(many: Sequence[Sufferer]) -> str | None:
    times = [one.service_ms for one in many]
    if len(times) < 2 or not all(times):
        return None  # copies of one tenant count once
    return "a small beside a big tenant" if max(times) >= BIG_FROM * min(times) else "tenants of one size"


def _contrast(sharing: str, one: tuple[str, Floats], other: tuple[str, Floats]) -> tuple[Contrast, float]:
    """Welch's interval and test on logarithms; mixes are the replicates."""
    from scipy import stats

    (name, a), (other_name, b) = one, other
    difference = float(a.mean() - b.mean())
    va, vb = a.var(ddof=1) / a.size, b.var(ddof=1) / b.size
    error = sqrt(va + vb)
    if error < 1e-12:
        reach, p = 0.0, 1.0 if abs(difference) < 1e-9 else 0.0
    else:
        freedom = (va + vb) ** 2 / (va**2 / (a.size - 1) + vb**2 / (b.size - 1))
        reach = float(stats.t.ppf(0.975, freedom)) * error
        p = float(2 * stats.t.sf(abs(difference) / error, freedom))
    groups = Group(name, a.size, exp(float(a.mean()))), Group(other_name, b.size, exp(float(b.mean())))
    ends = exp(difference - reach), exp(difference + reach)
    return Contrast(sharing, *groups, exp(difference), *ends, p), p
