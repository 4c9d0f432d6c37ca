"""Correlates of slowdown under one way to share, and a small model validated on held-out mixes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import atanh, sqrt, tanh
from statistics import NormalDist

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.estimates.multiple import holm
from cotenant.analyse.insight.properties import PROPERTIES, Sufferer

FEWEST_MIXES = 6
"""With fewer mixes, any property correlates with anything."""
LEAST_SPREAD = 0.02
"""Standard deviation of log slowdowns below which there is nothing to explain."""
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Link:
    """The correlation of one property with slowdown."""

    property: str
    r: float
    lo: float
    hi: float
    p: float
    """After Holm's correction for the number of properties tried."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern under one way to share."""

    sharing: str
    mixes: int
    tenants: int
    links: tuple[Link, ...]
    """Strongest first."""
    model: tuple[str, ...]
    """The one or two properties that best predict held-out mixes."""
    left_out_r2: float
    """Share of the variance of log slowdowns explained in held-out mixes; may be negative."""


def patterns(sufferers: Sequence[Sufferer]) -> list[Pattern]:
    """One pattern per way to share that has enough mixes and slowdowns that differ."""
    return list(_patterns(sufferers))


def _patterns(sufferers: Sequence[Sufferer]) -> Iterator[Pattern]:
    for sharing in dict.fromkeys(one.sharing for one in sufferers):
        rows = [one for one in sufferers if one.sharing == sharing]
        names = [name for name in PROPERTIES if all(name in one.properties for one in rows)]
        mixes = np.array([one.mix for one in rows])
        y = np.array([one.log_slowdown for one in rows])
        if len(set(mixes)) < FEWEST_MIXES or y.std() < LEAST_SPREAD:
            continue
        columns = {name: np.array([one.properties[name] for one in rows]) for name in names}
        varying = {name: column for name, column in columns.items() if column.std() > 1e-9}
        if not varying:
            continue
        models = [*((name,) for name in varying), *combinations(varying, 2)]
        scored = {model: _left_out(np.column_stack([varying[name] for name in model]), y, mixes) for model in models}
        best = max(scored, key=lambda model: scored[model])
        yield Pattern(
            sharing=sharing,
            mixes=len(set(mixes)),
            tenants=len(rows),
            links=_links(varying, y, len(set(mixes))),
            model=best,
            left_out_r2=scored[best],
        )


def _links(columns: dict[str, Floats], y: Floats, mixes: int) -> tuple[Link, ...]:
    """Mixes are the replicates: tenants of one mix are not independent of each other."""
    found = {name: float(np.clip(np.corrcoef(column, y)[0, 1], -0.999, 0.999)) for name, column in columns.items()}
    error = 1 / sqrt(mixes - 3)
    p_values = holm([2 * NormalDist().cdf(-abs(atanh(r)) / error) for r in found.values()])
    reach = NormalDist().inv_cdf(0.975) * error
    links = [
        Link(name, r, tanh(atanh(r) - reach), tanh(atanh(r) + reach), float(p))
        for (name, r), p in zip(found.items(), p_values, strict=True)
    ]
    return tuple(sorted(links, key=lambda link: -abs(link.r)))


def _left_out(x: Floats, y: Floats, mixes: "np.ndarray") -> float:
    """Predict each mix by a model fitted to the others."""
    design = np.column_stack([np.ones(len(y)), x])
    missed = 0.0
    for mix in set(mixes):
        out = mixes == mix
        coefficients, *_ = np.linalg.lstsq(design[~out], y[~out], rcond=None)
        missed += float(((y[out] - design[out] @ coefficients) ** 2).sum())
    return 1 - missed / float(((y - y.mean()) ** 2).sum())
