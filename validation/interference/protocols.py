"""Who is left out, and which pairs are measured: the evidence that each prediction is made from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.interference.correction import Correction, Evidence
from cotenant.prediction.interference.covariance import Variances
from cotenant.prediction.interference.setting import Setting
from cotenant.prediction.kernels.columns import Ints

Families = Sequence[str]


@dataclass(frozen=True, slots=True)
class Split:
    """Positions of rows in a matrix: what is known, and what is to be predicted."""

    train: Ints
    test: Ints
    family: str


def new_jobs(
    setting: Setting, evidence: Evidence, families: Families, variances: Variances, pairs: int
) -> Iterator[Split]:
    """Each job in turn is new: all of its family are left out, and it has been measured beside ``pairs`` known jobs.

    Pairs are chosen one by one by the largest variance; the job's other pairs with known jobs are predicted, in both
    directions.
    """
    names = np.array(families)
    of_rows = names[evidence.rows]
    for job, family in enumerate(families):
        own = of_rows == family
        base = np.flatnonzero(~own.any(axis=1))
        mine = np.flatnonzero((evidence.rows == job).any(axis=1) & (own.sum(axis=1) == 1))
        train, left = base, mine
        for _ in range(pairs):
            correction = Correction(setting, evidence.only(train), variances)
            train, left = _measured(train, left, evidence.cell, _most_uncertain(correction, evidence, left))
        yield Split(train, left, family)


def both_new(evidence: Evidence, families: Families) -> Iterator[Split]:
    """Every two families are new at once, with their solo profiles only; pairs between the two are predicted."""
    names = np.array(families)
    of_rows = names[evidence.rows]
    found = sorted(set(families))
    for place, first in enumerate(found):
        for second in found[place:]:
            touched = np.isin(of_rows, (first, second))
            between = {first, second}
            test = [row for row in np.flatnonzero(touched.all(axis=1)) if set(of_rows[row]) == between]
            yield Split(np.flatnonzero(~touched.any(axis=1)), np.array(test, np.int64), f"{first} + {second}")


def grown(
    setting: Setting, evidence: Evidence, variances: Variances, pairs: int, told: Callable[[int, Split], None]
) -> None:
    """From no pair on, always measure the pair with the largest variance; ``told`` after each."""
    train, left = np.empty(0, np.int64), np.arange(len(evidence))
    for count in range(1, pairs + 1):
        correction = Correction(setting, evidence.only(train), variances)
        train, left = _measured(train, left, evidence.cell, _most_uncertain(correction, evidence, left))
        told(count, Split(train, left, ""))


def _most_uncertain(correction: Correction, evidence: Evidence, left: Ints) -> int:
    variance = correction.variance(evidence.rows[left])
    cells = evidence.cell[left]
    totals = np.bincount(cells, weights=variance)
    return int(np.argmax(totals))


def _measured(train: Ints, left: Ints, cells: Ints, cell: int) -> tuple[Ints, Ints]:
    hit = cells[left] == cell
    return np.concatenate([train, left[hit]]), left[~hit]
