"""Sources of noise: variance split over nested levels (machine, process, trial, request)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import Numbers

RESIDUAL = "residual"


@dataclass(frozen=True, slots=True)
class Component:
    """Variance of one level."""

    level: str
    variance: float
    """In the squared unit of the values; negative estimates (no sign of this level) become 0."""
    share: float
    """Share of the sum over all levels."""
    groups: int


def variance_components(values: Numbers, levels: Mapping[str, Sequence[Hashable]]) -> tuple[Component, ...]:
    """Nested random effects by the method of moments (Henderson's first), outermost level first, then the residual.

    ``levels`` maps each level's name, from the outside in, to every value's group; labels need to be unique only within
    the enclosing group. Assumes independent effects with one variance per level; no distribution is assumed. Groups may
    differ in size.
    """
    data = np.asarray(values, dtype=np.float64)
    n = data.size
    nested = _nested_groups(n, levels)
    if n < 2 or any(groups.max() + 1 < 2 for groups in nested):
        raise ValueError("variance components need at least two groups at every level")
    centred = data - data.mean()
    whole = np.zeros(n, dtype=np.int64)
    partitions = [whole, *nested, np.arange(n)]
    names = [*levels, RESIDUAL]
    if any(inner.max() == outer.max() for outer, inner in pairwise(partitions)):
        raise ValueError("a level splits nothing that the level around it does not: leave one of them out")
    squares = np.array([_sum_of_squares(centred, groups) for groups in partitions])
    weights = np.array([[_weight(outer, inner) for inner in partitions[1:]] for outer in partitions])
    solved = np.linalg.solve(np.diff(weights, axis=0), np.diff(squares))
    variances = np.maximum(solved, 0)
    total = float(variances.sum())
    return tuple(
        Component(name, float(variance), float(variance) / total if total else 0.0, int(groups.max()) + 1)
        for name, variance, groups in zip(names, variances, partitions[1:], strict=True)
    )


def _nested_groups(n: int, levels: Mapping[str, Sequence[Hashable]]) -> list[npt.NDArray[np.int64]]:
    """Group numbers at each level; a group is identified by its own label and those of all enclosing groups."""
    outer: Sequence[Any] = [()] * n
    nested = []
    for name, labels in levels.items():
        if len(labels) != n:
            raise ValueError(f"level {name!r} labels {len(labels)} values, not {n}")
        outer = [(*path, label) for path, label in zip(outer, labels, strict=True)]
        numbers = {path: number for number, path in enumerate(dict.fromkeys(outer))}
        nested.append(np.array([numbers[path] for path in outer], dtype=np.int64))
    return nested


def _sum_of_squares(values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64]) -> float:
    sums, sizes = np.bincount(groups, values), np.bincount(groups)
    return float((sums**2 / sizes).sum())


def _weight(outer: npt.NDArray[np.int64], inner: npt.NDArray[np.int64]) -> float:
    """Coefficient of the inner level's variance in the expected sum of squares of the outer groups."""
    pairs = outer * (int(inner.max()) + 1) + inner
    _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
    return float((counts**2 / np.bincount(outer)[outer[first]]).sum())
