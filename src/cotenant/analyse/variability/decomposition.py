"""Sources of the variance of times: cabinet, node, GPU, job, day, and the residual.

Each level is reported three ways, since each alone is misleading:

* *alone*: its share by itself (eta squared). Nested levels count the same variance twice.
* *by chance*: what a grouping of that many groups would explain of pure noise. Alone below chance: no effect.
* *added*: what it explains beyond the previous levels, fitted together by least squares (sequential sums of squares).

The mixed estimate is that of nested random effects (cabinet, node in it, GPU in it, day of that GPU, run), by moments.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import SEED, Floats, Numbers
from cotenant.analyse.tabular import fields_of
from cotenant.analyse.variability.readings import UNKNOWN, Codes, FleetReadings
from cotenant.tenancy.interval import Estimate, Missing, Number

FEWEST_GPUS = 5
"""Fewest GPUs: fewer have too few distinct resamples for a meaningful interval."""
_WORK = 4_000_000
METHOD = "bootstrap over GPUs"

Ints = npt.NDArray[np.int64]


def resamples_for(gpus: int) -> int:
    """Number of resamples: as many as fit in a second, at least 200."""
    return int(np.clip(_WORK // max(1, gpus), 200, 1000))


def draws_of(gpus: int) -> Ints:
    """Positions of the drawn GPUs, a row for each resample; deterministic for a given number of GPUs."""
    return np.random.default_rng(SEED).integers(gpus, size=(resamples_for(gpus), gpus))


def counted(draws: Ints) -> Ints:
    """How often each GPU was drawn in each resample."""
    gpus = draws.shape[1]
    shifted = draws + gpus * np.arange(len(draws))[:, None]
    return np.bincount(shifted.ravel(), minlength=draws.size).reshape(draws.shape)


def estimated(estimate: float, resampled: Callable[[], Floats], gpus: int, level: float = 0.95) -> Number:
    """The estimate with the percentiles of its resamples; without an interval for few GPUs."""
    if not np.isfinite(estimate):
        return Missing("it was not recorded, or did not vary", gpus)
    if gpus < FEWEST_GPUS:
        return Estimate(estimate, None, None, gpus, f"{gpus} GPUs: no interval")
    values = resampled()
    values = values[np.isfinite(values)]
    if values.size < 100:
        return Estimate(estimate, None, None, gpus, "too few resamples have a value")
    lo, hi = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(estimate, float(lo), float(hi), gpus, METHOD)


RESIDUAL = "residual"


@dataclass(frozen=True, slots=True)
class Component:
    """Variance of a level."""

    level: str
    variance: float
    """In the squared unit of the values; negative estimates (no sign of this level) become 0."""
    share: float
    """Share of the sum over all levels."""
    groups: int


def variance_components(values: Numbers, levels: Mapping[str, Sequence[Hashable]]) -> tuple[Component, ...]:
    """Nested random effects by the method of moments (Henderson's first), outermost level first, then the residual.

    ``levels`` maps each level's name, from the outside in, to every value's group; labels need to be unique only within
    the enclosing group. Assumes independent effects with a variance per level; no distribution is assumed. Groups may
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


DAY_S = 86_400
MOST_ROWS = 200_000
_ROUNDS = 100
_SAME = 1e-7
NESTED = ("cabinet", "node", "gpu", "day")


@dataclass(frozen=True, slots=True)
class VarianceLevel:
    """One level's part of the variance, as shares of the total."""

    level: str
    groups: int
    alone: float
    by_chance: float
    added: float

    @property
    def beyond_chance(self) -> float:
        """Its share alone, corrected for the number of its groups (epsilon squared), at least 0."""
        return max(0.0, (self.alone - self.by_chance) / (1 - self.by_chance)) if self.by_chance < 1 else 0.0


@dataclass(frozen=True, slots=True)
class Decomposition:
    """All levels that were recorded and vary."""

    between_gpus: Number
    """Share of variance between GPUs (eta squared), with its interval over GPUs."""
    levels: tuple[VarianceLevel, ...]
    unexplained: float
    components: tuple[Component, ...]
    """Nested random effects; the residual is run to run."""
    with_jobs: tuple[Component, ...]
    """The same for cabinet, node and job: GPUs and jobs are crossed, so neither can be nested in the other.

    Empty: jobs are unknown, or have a single run each."""
    notes: tuple[str, ...]

    @property
    def job_component(self) -> float | None:
        """Share of the random effect of jobs; None: see `with_jobs`."""
        return next((component.share for component in self.with_jobs if component.level == "job"), None)

    def level(self, name: str) -> VarianceLevel | None:
        """Find a level by name; None if absent."""
        return next((level for level in self.levels if level.level == name), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, "job_component") | {
            "levels": [fields_of(level, "beyond_chance") for level in self.levels]
        }


def decompose(readings: FleetReadings) -> Decomposition:
    """Split the variance of times. Levels that were not recorded or don't vary are left out."""
    notes: list[str] = []
    share = between_gpus(readings)
    rows = readings.thinned(MOST_ROWS)
    if len(rows) < len(readings):
        notes.append(f"levels and components are taken from {len(rows):,} of {len(readings):,} runs, spread evenly")
    codes = _levels(rows, notes)
    values = rows.time_ms - rows.time_ms.mean()
    whole = float(values @ values)
    levels: list[VarianceLevel] = []
    explained = 0.0
    if whole > 0:
        for number, (name, groups) in enumerate(codes.items()):
            together = 1 - _residual(values, list(codes.values())[: number + 1]) / whole
            count = int(groups.max()) + 1
            chance = (count - 1) / (len(rows) - 1)
            levels.append(
                VarianceLevel(
                    name, count, _sum_of_squares(values, groups) / whole, chance, max(0.0, together - explained)
                )
            )
            explained = max(explained, together)
    return Decomposition(
        between_gpus=share,
        levels=tuple(levels),
        unexplained=1 - explained,
        components=_nested(values, {name: codes[name] for name in NESTED if name in codes}),
        with_jobs=_jobs_instead(values, codes),
        notes=tuple(notes),
    )


def between_gpus(readings: FleetReadings) -> Number:
    """Share of the variance of all runs that lies between GPUs, from all rows."""
    gpus = len(readings.gpus)
    counts = readings.counts.astype(np.float64)
    if gpus < 2 or len(readings) <= gpus:
        return Missing("it needs several GPUs and several runs of some of them", gpus)
    centre = float(readings.time_ms.mean())
    sums = np.array([float((values - centre).sum()) for values in readings.of_gpu(readings.time_ms)])
    squares = np.array([float(((values - centre) ** 2).sum()) for values in readings.of_gpu(readings.time_ms)])

    def share(drawn: Any) -> Any:
        n, total = drawn @ counts, drawn @ sums
        return (drawn @ (sums**2 / counts) - total**2 / n) / (drawn @ squares - total**2 / n)

    if not squares.sum() > 0:
        return Missing("all runs took the same time", gpus)
    return estimated(float(share(np.ones(gpus))), lambda: np.asarray(share(counted(draws_of(gpus)))), gpus)


def _levels(rows: FleetReadings, notes: list[str]) -> dict[str, Ints]:
    """Group numbers from 0 of every level that varies, from the outside in; nodes are distinct across cabinets."""
    cabinet, node = (rows.places[name][rows.gpu] for name in ("cabinet", "node"))
    for name, codes in (("cabinet", cabinet), ("node", node)):
        if 0 < (missing := int((codes == UNKNOWN).sum())) < len(rows):
            notes.append(f"the {name} of {missing:,} of {len(rows):,} runs is unknown; they count as one {name}")
    found = {
        "cabinet": _numbered(cabinet),
        "node": _numbered(cabinet, node),
        "gpu": _numbered(rows.gpu),
        "job": _jobs(rows, node, notes),
    }
    days = np.floor(np.where(np.isfinite(rows.at_s), rows.at_s, -DAY_S) / DAY_S).astype(np.int64)
    found["day"] = _numbered(days)
    return {name: groups for name, groups in found.items() if 1 <= int(groups.max()) < len(rows) - 1}


def _jobs(rows: FleetReadings, node: Codes, notes: list[str]) -> Ints:
    """Jobs as recorded. If each has a single run, runs that began on a node in the same second form a job."""
    jobs = _numbered(rows.job)
    timed = np.isfinite(rows.at_s)
    if int(jobs.max()) + 1 < 0.9 * len(rows) or not timed.all():
        return jobs
    together = _numbered(node, rows.at_s.astype(np.int64))
    if 2 * (int(together.max()) + 1) > len(rows):
        return jobs
    notes.append("every run has its own job number: runs that began on one node in the same second are one job")
    return together


def _numbered(*labels: Any) -> Ints:
    path = np.zeros(len(labels[0]), dtype=np.int64)
    for label in labels:
        inner = np.unique(label, return_inverse=True)[1]
        path = np.unique(path * (int(inner.max(initial=0)) + 1) + inner, return_inverse=True)[1]
    return path.astype(np.int64)


def _residual(values: Floats, factors: list[Ints]) -> float:
    """Residual sum of squares of the factors fitted together: subtract group means in turn until it settles."""
    sizes = [np.bincount(groups) for groups in factors]
    rest = values.copy()
    before = np.inf
    for _ in range(_ROUNDS):
        for groups, size in zip(factors, sizes, strict=True):
            rest -= (np.bincount(groups, rest) / size)[groups]
        left = float(rest @ rest)
        if before - left <= _SAME * float(values @ values):
            return left
        before = left
    return before


def _nested(values: Floats, codes: dict[str, Ints]) -> tuple[Component, ...]:
    """Random effects of the levels that split their enclosing level."""
    chosen: dict[str, Ints] = {}
    path = np.zeros(values.size, dtype=np.int64)
    for name, groups in codes.items():
        inner = _numbered(path, groups)
        if int(path.max()) < int(inner.max()) < values.size - 1:
            chosen[name] = groups
            path = inner
    if not chosen:
        return ()
    return variance_components(values, {name: groups.tolist() for name, groups in chosen.items()})


def _jobs_instead(values: Floats, codes: dict[str, Ints]) -> tuple[Component, ...]:
    if "job" not in codes:
        return ()
    found = _nested(values, {name: codes[name] for name in ("cabinet", "node", "job") if name in codes})
    return found if any(component.level == "job" for component in found) else ()
