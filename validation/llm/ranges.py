"""Ranges of an engine's times: how often a left-out model lies within the range made from the others."""

from pathlib import Path

import numpy as np

from cotenant.prediction.kernels.columns import Floats
from validation.llm import chat, generations, passes
from validation.result import Measure, Result, Target

_COVERED = 0.9
_WIDENED = 1.3
"""For what a new model adds to the spread of the known ones."""
_LEAST, _LEAST_GROUP, _WIDEST = 85.0, 65.0, 2.5


def validate(data: Path) -> tuple[Result, ...]:
    """All models of the other data sets, each left out in turn."""
    grouped = [(row.case, row) for row in chat.validate(data)[0].rows]
    grouped += [("Qwen/Qwen3-32B", row) for row in passes.validate(data)[0].rows]
    grouped += [(f"{row.case}, {gpus} GPUs", row) for gpus, row in generations.rows_of(data)[0]]
    models = np.array([group.partition(",")[0] for group, _ in grouped])
    rows = tuple(row for _, row in grouped)
    return (
        Result(
            "ranges",
            "ranges of steps, times between tokens and generations",
            "The data of the sections above",
            "The range of a model has 90 % of the errors of all other models, which count the same, widened by 1.3.",
            "time",
            "",
            rows,
            tuple(_coverage(models, np.log([row.measured / row.simulated for row in rows]))),
        ),
    )


def _coverage(models: np.ndarray[tuple[int], np.dtype[np.str_]], ratio: Floats) -> list[Measure]:
    names, counts = np.unique(models, return_counts=True)
    weights = 1.0 / counts[np.searchsorted(names, models)]
    inside, widths = np.zeros(ratio.size, np.bool_), []
    for name in names:
        mine = models == name
        low, high = _range(ratio[~mine], weights[~mine])
        inside[mine] = (ratio[mine] >= low) & (ratio[mine] <= high)
        widths.append((np.exp(high) - np.exp(low)) / 2)
    by_model = {str(name): float(inside[models == name].mean()) * 100 for name in names}
    worst = min(by_model, key=lambda name: by_model[name])
    error = float(np.average(np.abs(np.exp(-ratio) - 1), weights=weights))
    share, n = float(np.average(inside, weights=weights)) * 100, ratio.size
    return [
        Measure("values within their range, mean over models", share, "%", n, Target(low=_LEAST)),
        Measure(f"the same, worst model ({worst})", by_model[worst], "%", n, Target(low=_LEAST_GROUP)),
        Measure(
            "half-width of the range in mean errors", float(np.median(widths)) / error, "", n, Target(high=_WIDEST)
        ),
        Measure("half-width of the range", float(np.median(widths)) * 100, "%", n),
    ]


def _range(ratio: Floats, weights: Floats) -> tuple[float, float]:
    order = np.argsort(ratio)
    along = np.cumsum(weights[order]) / weights.sum()
    low, high = np.interp([(1 - _COVERED) / 2, (1 + _COVERED) / 2], along, ratio[order])
    middle, half = (low + high) / 2, (high - low) / 2 * _WIDENED
    return float(middle - half), float(middle + half)
