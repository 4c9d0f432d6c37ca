"""Sources of the variance of times: cabinet, node, GPU, job, day, and the residual.

Each level is reported three ways, since each alone is misleading:

* *alone*: its share by itself (eta squared). Nested levels count the same variance twice.
* *by chance*: what a grouping of that many groups would explain of pure noise. Alone below chance: no effect.
* *added*: what it explains beyond the previous levels, fitted together by least squares (sequential sums of squares).

The mixed estimate is that of nested random effects (cabinet, node in it, GPU in it, day of that GPU, run), by moments.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.estimates.missing import Missing, Number
from cotenant.analyse.estimates.variance import Component, variance_components
from cotenant.analyse.variability.readings import UNKNOWN, Codes, Readings
from cotenant.analyse.variability.resampling import Ints, counted, draws_of, estimated

DAY_S = 86_400
MOST_ROWS = 200_000
_ROUNDS = 100
_SAME = 1e-7
NESTED = ("cabinet", "node", "gpu", "day")


@dataclass(frozen=True, slots=True)
class Level:
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
    levels: tuple[Level, ...]
    unexplained: float
    components: tuple[Component, ...]
    """Nested random effects; the residual is run to run."""
    with_jobs: tuple[Component, ...]
    """The same for cabinet, node and job: GPUs and jobs are crossed, so one can't be nested in the other.

    Empty: jobs are unknown, or of one run each."""
    notes: tuple[str, ...]

    @property
    def job_component(self) -> float | None:
        """Share of the random effect of jobs; None: see `with_jobs`."""
        return next((one.share for one in self.with_jobs if one.level == "job"), None)

    def level(self, name: str) -> Level | None:
        """Find a level by name; None if absent."""
        return next((level for level in self.levels if level.level == name), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "between_gpus": self.between_gpus,
            "levels": [
                {name: getattr(level, name) for name in (*Level.__slots__, "beyond_chance")} for level in self.levels
            ],
            "unexplained": self.unexplained,
            "components": [{name: getattr(one, name) for name in Component.__slots__} for one in self.components],
            "with_jobs": [{name: getattr(one, name) for name in Component.__slots__} for one in self.with_jobs],
            "job_component": self.job_component,
            "notes": list(self.notes),
        }


def decompose(readings: Readings) -> Decomposition:
    """Split the variance of times. Levels that were not recorded or don't vary are left out."""
    notes: list[str] = []
    share = between_gpus(readings)
    rows = readings.thinned(MOST_ROWS)
    if len(rows) < len(readings):
        notes.append(f"levels and components are taken from {len(rows):,} of {len(readings):,} runs, spread evenly")
    codes = _levels(rows, notes)
    values = rows.time_ms - rows.time_ms.mean()
    whole = float(values @ values)
    levels: list[Level] = []
    explained = 0.0
    if whole > 0:
        for number, (name, groups) in enumerate(codes.items()):
            together = 1 - _residual(values, list(codes.values())[: number + 1]) / whole
            count = int(groups.max()) + 1
            chance = (count - 1) / (len(rows) - 1)
            levels.append(Level(name, count, _between(values, groups) / whole, chance, max(0.0, together - explained)))
            explained = max(explained, together)
    return Decomposition(
        between_gpus=share,
        levels=tuple(levels),
        unexplained=1 - explained,
        components=_nested(values, {name: codes[name] for name in NESTED if name in codes}),
        with_jobs=_jobs_instead(values, codes),
        notes=tuple(notes),
    )


def between_gpus(readings: Readings) -> Number:
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


def _levels(rows: Readings, notes: list[str]) -> dict[str, Ints]:
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


def _jobs(rows: Readings, node: Codes, notes: list[str]) -> Ints:
    """Jobs as recorded. If each has only one run, runs that began on one node in the same second are one job."""
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


def _between(values: Floats, groups: Ints) -> float:
    sums, sizes = np.bincount(groups, values), np.bincount(groups)
    return float((sums**2 / sizes).sum())


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
    return found if any(one.level == "job" for one in found) else ()
