"""Error measures over rows, for the simulation and for every baseline alike."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from validation.result import Measure, Row, Target, fitted_on, held_out

Floats = NDArray[np.float64]
Figure = Callable[[Floats, Floats], float]
"""Maps (measured, predicted) to a figure."""


def absolute_error(
    rows: Sequence[Row], *, of: str, average: Literal["mean", "median"] = "mean", target: Target | None = None
) -> Measure:
    """Mean or median of |predicted/measured - 1|, in per cent."""
    middle = np.mean if average == "mean" else np.median
    return figure(
        rows,
        lambda measured, predicted: float(middle(np.abs(predicted / measured - 1.0)) * 100.0),
        name=f"{average} abs. error of {of}",
        unit="%",
        target=target,
    )


def rank_correlation(rows: Sequence[Row], *, of: str, target: Target | None = None) -> Measure:
    """Spearman's rank correlation of predicted with measured."""
    return figure(rows, spearman, name=f"rank correlation of {of}", unit="", target=target)


def figure(rows: Sequence[Row], of: Figure, *, name: str, unit: str, target: Target | None = None) -> Measure:
    """Any figure of (measured, predicted): over held-out rows, with its baselines and its value on the fitted rows."""
    judged = held_out(rows)
    learnt = fitted_on(rows)
    baselines = sorted(set.intersection(*(set(row.baselines) for row in judged))) if judged else ()
    return Measure(
        name=name,
        value=_figure(judged, of, None),
        unit=unit,
        n=len(judged),
        target=target,
        baselines={baseline: _figure(judged, of, baseline) for baseline in baselines},
        fitted=_figure(learnt, of, None) if learnt else None,
    )


def _figure(rows: Sequence[Row], of: Figure, baseline: str | None) -> float:
    if not rows:
        return float("nan")
    measured = np.array([row.measured for row in rows], dtype=np.float64)
    predicted = np.array(
        [row.simulated if baseline is None else row.baselines[baseline] for row in rows], dtype=np.float64
    )
    return of(measured, predicted)


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation with ties at their mean rank; 0 where one side is constant (no order to agree with)."""
    from scipy.stats import rankdata

    a, b = rankdata(first), rankdata(second)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0
