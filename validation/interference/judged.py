"""Predictions and baselines of a split against measurements."""

from collections.abc import Iterable

import numpy as np

from cotenant.prediction.interference.covariance import GPU_PRIOR_HALF, Variances
from cotenant.prediction.interference.predictor import Predictor
from cotenant.prediction.interference.setting import Setting
from cotenant.prediction.interference.stacking import additive, constant
from cotenant.prediction.kernels.columns import Floats
from validation.interference.gavel_matrix import LOOKED_AT, Matrix
from validation.interference.low_rank import low_rank
from validation.interference.protocols import Split
from validation.interference.trees import boosted
from validation.measures import absolute_error
from validation.result import Measure, Row, Target


class Judged:
    """Rows of many splits, with intervals."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.families: list[str] = []
        self.inside: list[bool] = []
        self.half: list[float] = []
        self._last: tuple[Setting, bytes, Predictor] | None = None

    def add(
        self,
        matrix: Matrix,
        setting: Setting,
        split: Split,
        variances: Variances,
        *,
        trees: bool = True,
        typical: float = 0.0,
    ) -> None:
        """Predict a split.

        Args:
            matrix: All measurements.
            setting: What is known of the jobs.
            split: What is known of their pairs.
            variances: Variances of the correction.
            trees: Fit boosted trees, too, which takes long.
            typical: The constant's log slowdown where no pair is known.
        """
        known, asked = matrix.evidence.only(split.train), matrix.evidence.rows[split.test]
        predicted = self._predictor(setting, matrix, split, variances).slowdowns(asked)
        estimate, low, high = predicted.estimate[:, 0], predicted.low[:, 0], predicted.high[:, 0]
        count = len(setting)
        others: dict[str, Floats] = {
            "constant": constant(known, asked) if len(known) else np.full(len(asked), typical),
            "prior only": setting.prior(asked)[:, 0],
        }
        if len(known):
            others |= {"additive": additive(known, asked, count), "low rank": low_rank(known, asked, count)}
        if trees and len(known):
            pairs = matrix.features[known.rows].reshape(len(known), -1)
            others["boosted trees"] = boosted(pairs, known.logs, matrix.features[asked].reshape(len(asked), -1))
        truth = np.exp(matrix.evidence.logs[split.test])
        for number, (victim, neighbour) in enumerate(asked):
            names = matrix.jobs[victim].name, matrix.jobs[neighbour].name
            self.rows.append(
                Row(
                    case=f"{names[0]} beside {names[1]}",
                    measured=float(truth[number]),
                    simulated=float(estimate[number]),
                    baselines={name: float(np.exp(logs[number])) for name, logs in others.items()},
                )
            )
            self.families.append(split.family)
            self.inside.append(bool(low[number] <= truth[number] <= high[number]))
            self.half.append(float(np.sqrt(high[number] / low[number]) - 1))

    def _predictor(self, setting: Setting, matrix: Matrix, split: Split, variances: Variances) -> Predictor:
        """Jobs of a family without pairs of their own have the same evidence."""
        train = split.train.tobytes()
        if self._last is None or self._last[0] is not setting or self._last[1] != train:
            known = matrix.evidence.only(split.train)
            self._last = setting, train, Predictor(setting, known, variances, prior_half=GPU_PRIOR_HALF)
        return self._last[2]

    def error(self, target: float | None = None) -> Measure:
        """Mean over all rows."""
        return absolute_error(self.rows, of="slowdown", target=None if target is None else Target(high=target))

    def median_error(self) -> Measure:
        """Median over all rows."""
        return absolute_error(self.rows, of="slowdown", average="median")

    def clean(self, others: "Judged | None" = None) -> "Judged":
        """Only families whose constants were chosen without their pairs in view, and what was judged otherwise."""
        result = Judged()
        for row, family, inside, half in zip(self.rows, self.families, self.inside, self.half, strict=True):
            if family not in LOOKED_AT:
                result.rows.append(row)
                result.families.append(family)
                result.inside.append(inside)
                result.half.append(half)
        if others is not None:
            result.rows += others.rows
            result.families += others.families
            result.inside += others.inside
            result.half += others.half
        return result

    def coverage(self, least: float | None = None) -> Measure:
        """Fraction of measured values within their interval."""
        return Measure(
            name="90 % intervals that hold",
            value=100 * float(np.mean(self.inside)),
            unit="%",
            n=len(self.inside),
            target=None if least is None else Target(low=least),
        )

    def worst_family(self, least: float | None = None) -> Measure:
        """The same for the family with the lowest fraction."""
        by_family = {
            name: 100
            * float(np.mean([hit for hit, family in zip(self.inside, self.families, strict=True) if family == name]))
            for name in sorted(set(self.families))
        }
        worst = min(by_family, key=lambda name: by_family[name])
        return Measure(
            name=f"the same, worst family ({worst})",
            value=by_family[worst],
            unit="%",
            n=self.families.count(worst),
            target=None if least is None else Target(low=least),
        )

    def half_width(self, most: float | None = None) -> Measure:
        """Median half-width of the intervals."""
        return Measure(
            name="median half-width of the intervals",
            value=100 * float(np.median(self.half)),
            unit="%",
            n=len(self.half),
            target=None if most is None else Target(high=most),
        )


def judged(
    matrix: Matrix, splits: Iterable[tuple[Setting, Split]], variances: Variances, *, trees: bool = True
) -> Judged:
    """All splits of a question."""
    result = Judged()
    for setting, split in splits:
        result.add(matrix, setting, split, variances, trees=trees)
    return result
