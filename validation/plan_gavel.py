"""Gavel's 26 jobs paired on 13 GPUs: quality of the plan after this many measured pairs, chosen for the plan.

`python -m validation.plan_gavel DATA` prints JSON. The gap goes from the mean of random plans (0 %) to the best plan
given all measurements (100 %). Packing by the constant considers every pair equally good: that is the random plan.
One matrix gives one number, and much of it is luck, so the same is done for random 22 of the 26 jobs, with as large a
part of their pairs.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cotenant.planning.pair_plan import best_pairs, next_pairs, together
from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.covariance import GPU, GPU_PRIOR_HALF
from cotenant.prediction.interference.next_cells import choose_next_cells
from cotenant.prediction.interference.predictor import MEASURED, Predictor
from cotenant.prediction.interference.setting import Setting
from validation.interference.gavel_matrix import Matrix, gavel_matrix

AT = (0, 13, 26, 40, 50, 60)
ROUNDS = (5, 3, 2, 1)
"""Pairs measured before the plan is remade; the first is shown, the others tell how much is luck."""
RANDOM_PLANS = 500
SEEDS = range(5)
SUBSETS, OF_JOBS = 12, 22


@dataclass(frozen=True, slots=True)
class Course:
    """A way to choose pairs."""

    chooses: str
    round: int
    closed: dict[int, float]
    """By measured pairs: fraction of the gap closed by the plan."""


def taken(evidence: Evidence, cells: Sequence[int]) -> Evidence:
    """The evidence of these cells."""
    mine = np.isin(evidence.cell, list(cells))
    return Evidence(
        evidence.rows[mine], evidence.logs[mine], evidence.variance[mine], evidence.cell[mine],
        evidence.blocks[mine], evidence.half[mine],
    )  # fmt: skip


def part_of(matrix: Matrix, jobs: np.ndarray) -> Matrix:
    """The matrix of some of its jobs, given by number in ascending order."""
    rows = np.searchsorted(jobs, matrix.evidence.rows)
    mine = np.isin(matrix.evidence.rows, jobs).all(axis=1)
    evidence = replace(matrix.evidence.only(np.flatnonzero(mine)), rows=rows[mine])
    pairs = matrix.setting.pair_prior[np.ix_(jobs, jobs)]

    def prior(mixes: np.ndarray) -> np.ndarray:
        first, second = mixes.T
        return np.stack([pairs[first, second], pairs[second, first]], axis=1)

    setting = Setting(
        matrix.setting.families[jobs], matrix.setting.likeness[np.ix_(jobs, jobs)], prior, pair_prior=pairs
    )
    return replace(
        matrix,
        jobs=tuple(matrix.jobs[job] for job in jobs),
        setting=setting,
        evidence=evidence,
        features=matrix.features[jobs],
    )


class Field:
    """All pairs of different jobs that fit, and their worth."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        rows, cells = matrix.evidence.rows, matrix.evidence.cell
        slowdown = {
            tuple(row): float(np.exp(log)) for row, log in zip(rows.tolist(), matrix.evidence.logs, strict=True)
        }
        cell_of = {tuple(sorted(row)): int(cell) for row, cell in zip(rows.tolist(), cells, strict=True)}
        keys = sorted(pair for pair in cell_of if pair[0] != pair[1])
        self.pairs = np.array(keys, np.int64)
        self.cells = [cell_of[key] for key in keys]
        self.worth = together(np.array([(slowdown[a, b], slowdown[b, a]) for a, b in keys]))
        self.best = self._mean(best_pairs(self.worth, self.pairs, len(matrix.setting)))
        self.random = float(np.mean([self._random(seed) for seed in range(RANDOM_PLANS)]))

    def _mean(self, chosen: np.ndarray) -> float:
        return float(self.worth[chosen].mean())

    def _random(self, seed: int) -> float:
        random = np.random.default_rng(seed)
        return self._mean(best_pairs_at_random(random, self.pairs, len(self.matrix.setting)))

    def predictor(self, measured: Sequence[int]) -> Predictor:
        """The predictor after these pairs were measured."""
        evidence = taken(self.matrix.evidence, [self.cells[pair] for pair in measured])
        return Predictor(self.matrix.setting, evidence, GPU, prior_half=GPU_PRIOR_HALF)

    def closed(self, predictor: Predictor) -> float:
        """Fraction of the gap closed by the predictor's plan."""
        expected = together(predictor.slowdowns(self.pairs).estimate)
        chosen = best_pairs(expected, self.pairs, len(self.matrix.setting))
        return (self._mean(chosen) - self.random) / (self.best - self.random)


def best_pairs_at_random(random: np.random.Generator, pairs: np.ndarray, tenants: int) -> np.ndarray:
    """Random disjoint pairs that fit: shuffled and retried until all jobs are placed."""
    while True:
        free, chosen = set(range(tenants)), []
        for pair in random.permutation(len(pairs)):
            first, second = pairs[pair]
            if first in free and second in free:
                chosen.append(int(pair))
                free -= {int(first), int(second)}
        if not free:
            return np.array(chosen)


def course(field: Field, chooses: str, seed: int = 0, at_once: int = ROUNDS[0]) -> Course:
    """Measure some pairs at a time, tracking the quality of the plan."""
    random = np.random.default_rng(seed)
    measured: list[int] = []
    closed: dict[int, float] = {}
    for target in AT:
        while len(measured) < target:
            measured += _next(field, chooses, measured, min(at_once, target - len(measured)), random)
        closed[target] = field.closed(field.predictor(measured))
    return Course(chooses, at_once, closed)


def _next(field: Field, chooses: str, measured: list[int], count: int, random: np.random.Generator) -> list[int]:
    open_ = [pair for pair in range(len(field.pairs)) if pair not in measured]
    if chooses == "at random":
        return [int(pair) for pair in random.choice(open_, count, replace=False)]
    predictor = field.predictor(measured)
    if chooses == "what tells most about all":
        unknown = np.flatnonzero(predictor.slowdowns(field.pairs).basis[:, 0] != MEASURED)
        return [int(unknown[pair]) for pair, _ in choose_next_cells(predictor.correction, field.pairs[unknown], count)]
    return next_pairs(predictor, field.pairs, count)


@dataclass(frozen=True, slots=True)
class OfSubsets:
    """Random choices of jobs, with as large a part of their pairs measured as 60 of all."""

    chooses: str
    round: int
    closed: list[float]
    """Fraction of the gap closed."""
    never_measured: list[float]
    """Of the best plan's pairs, the fraction that was not measured."""


def of_subsets(matrix: Matrix, chooses: str, at_once: int = ROUNDS[0]) -> OfSubsets:
    """Choose pairs for some of the jobs."""
    closed, never = [], []
    for seed in range(SUBSETS):
        random = np.random.default_rng(seed)
        field = Field(part_of(matrix, np.sort(random.choice(len(matrix.jobs), OF_JOBS, replace=False))))
        most = round(AT[-1] * OF_JOBS * (OF_JOBS - 1) / (len(matrix.jobs) * (len(matrix.jobs) - 1)))
        measured: list[int] = []
        while len(measured) < most:
            measured += _next(field, chooses, measured, min(at_once, most - len(measured)), random)
        closed.append(field.closed(field.predictor(measured)))
        best = best_pairs(field.worth, field.pairs, len(field.matrix.setting))
        never.append(float(np.mean(~np.isin(best, measured))))
    return OfSubsets(chooses, at_once, closed, never)


def judged(data: Path, gpu: str) -> dict[str, object]:
    """Everything about a GPU."""
    matrix = gavel_matrix(data, gpu)
    field = Field(matrix)
    chance = [course(field, "at random", seed).closed for seed in SEEDS]
    courses = [
        *(course(field, "for the plan", at_once=at_once) for at_once in ROUNDS),
        course(field, "what tells most about all"),
        Course("at random", ROUNDS[0], {at: float(np.mean([course[at] for course in chance])) for at in AT}),
    ]
    return {
        "gpu": gpu,
        "pairs": len(field.matrix.evidence.cell) and int(field.matrix.evidence.cell.max()) + 1,
        "stp_random": field.random,
        "stp_best": field.best,
        "closed": [asdict(course) for course in courses],
        "of_subsets": [
            asdict(of_subsets(matrix, "for the plan")),
            asdict(of_subsets(matrix, "for the plan", at_once=1)),
            asdict(of_subsets(matrix, "at random")),
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([judged(Path(sys.argv[1]), gpu) for gpu in ("v100", "p100")], indent=2))
