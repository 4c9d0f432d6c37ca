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

    def add(self, matrix: Matrix, setting: Setting, split: Split, variances: Variances, *, trees: bool = True) -> None:
        """Predict a split."""
        known, asked = matrix.evidence.only(split.train), matrix.evidence.rows[split.test]
        predictor = Predictor(setting, known, variances, prior_half=GPU_PRIOR_HALF)
        predicted = predictor.slowdowns(asked)
        estimate, low, high = predicted.estimate[:, 0], predicted.low[:, 0], predicted.high[:, 0]
        count = len(setting)
        others: dict[str, Floats] = {
            "constant": constant(known, asked),
            "prior only": setting.prior(asked)[:, 0],
            "additive": additive(known, asked, count),
            "low rank": low_rank(known, asked, count),
        }
        if trees:
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

    def error(self, target: float | None = None) -> Measure:
        """Mean over all rows."""
        return absolute_error(self.rows, of="slowdown", target=None if target is None else Target(high=target))

    def median_error(self) -> Measure:
        """Median over all rows."""
        return absolute_error(self.rows, of="slowdown", average="median")

    def clean(self) -> "Judged":
        """Only families whose constants were chosen without their pairs in view."""
        result = Judged()
        for row, family, inside, half in zip(self.rows, self.families, self.inside, self.half, strict=True):
            if family not in LOOKED_AT:
                result.rows.append(row)
                result.families.append(family)
                result.inside.append(inside)
                result.half.append(half)
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
