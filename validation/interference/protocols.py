"""Splits: what is left out, and which pairs are measured, as the evidence for each prediction."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.interference.correction import Correction, Evidence
from cotenant.prediction.interference.covariance import Variances
from cotenant.prediction.interference.next_cells import choose_next_cells
from cotenant.prediction.interference.setting import Setting
from cotenant.prediction.kernels.columns import Ints
from validation.interference.gavel_matrix import Matrix


@dataclass(frozen=True, slots=True)
class Split:
    """Indices of rows in a matrix: known ones, and ones to predict."""

    train: Ints
    test: Ints
    family: str


def new_jobs(
    matrix: Matrix,
    variances: Variances,
    pairs: int,
    of_family: Callable[[str], Setting],
    families: Collection[str] | None = None,
) -> Iterator[tuple[Setting, Split]]:
    """Each job in turn is new: its entire family is left out, and it has been measured beside ``pairs`` known jobs.

    Pairs are chosen in turn by their information about the job's others; these are predicted, in both directions.

    Args:
        matrix: All measurements.
        variances: Variances of the correction.
        pairs: Number of measured pairs of the new job.
        of_family: The setting to use when this family is left out.
        families: Only jobs of these; None: all.
    """
    evidence = matrix.evidence
    of_rows = np.array(matrix.families)[evidence.rows]
    asked = [job for job, family in enumerate(matrix.families) if families is None or family in families]
    for job in sorted(asked, key=lambda job: matrix.families[job]):  # one after the other, they share a predictor
        family = matrix.families[job]
        setting = of_family(family)
        own = of_rows == family
        train = np.flatnonzero(~own.any(axis=1))
        left = np.flatnonzero((evidence.rows == job).any(axis=1) & (own.sum(axis=1) == 1))
        for _ in range(pairs):
            train, left = _with_next(setting, evidence, variances, train, left)
        yield setting, Split(train, left, family)


def both_new(matrix: Matrix) -> Iterator[Split]:
    """Every two families are new at once, with only their solo profiles; pairs between the two are predicted."""
    of_rows = np.array(matrix.families)[matrix.evidence.rows]
    families = sorted(set(matrix.families))
    for number, first in enumerate(families):
        for second in families[number:]:
            touched = np.isin(of_rows, (first, second))
            between = {first, second}
            test = [row for row in np.flatnonzero(touched.all(axis=1)) if set(of_rows[row]) == between]
            if test:
                yield Split(np.flatnonzero(~touched.any(axis=1)), np.array(test, np.int64), f"{first} + {second}")


def grown(matrix: Matrix, variances: Variances, pairs: int) -> Split:
    """A matrix without known pairs at first, after measuring this many by their information about the others."""
    train, left = np.empty(0, np.int64), np.arange(len(matrix.evidence))
    candidates = mixes_of_cells(matrix.evidence, left)
    correction = Correction(matrix.setting, matrix.evidence.only(train), variances)
    chosen = [cell for cell, _ in choose_next_cells(correction, candidates, pairs)]
    hit = np.isin(matrix.evidence.cell, np.unique(matrix.evidence.cell)[chosen])
    return Split(left[hit], left[~hit], "")


def mixes_of_cells(evidence: Evidence, rows: Ints) -> Ints:
    """A mix per cell of the rows, in order of cells."""
    _, first = np.unique(evidence.cell[rows], return_index=True)
    return evidence.rows[rows[first]]


def _with_next(
    setting: Setting, evidence: Evidence, variances: Variances, train: Ints, left: Ints
) -> tuple[Ints, Ints]:
    correction = Correction(setting, evidence.only(train), variances)
    cell = np.unique(evidence.cell[left])[choose_next_cells(correction, mixes_of_cells(evidence, left), 1)[0][0]]
    hit = evidence.cell[left] == cell
    return np.concatenate([train, left[hit]]), left[~hit]
