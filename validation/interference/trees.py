"""Boosted regression trees on the solo features of victim and neighbour: a learner without physics."""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.kernels.columns import Floats, Ints

_TREES, _DEPTH, _RATE, _LEAST = 80, 3, 0.15, 4


@dataclass(frozen=True, slots=True)
class _Leaf:
    value: float


@dataclass(frozen=True, slots=True)
class _Fork:
    feature: int
    at: float
    below: "_Fork | _Leaf"
    above: "_Fork | _Leaf"


def boosted(features: Floats, values: Floats, asked: Floats) -> Floats:
    """Values at the requested rows, from trees fitted to successive residuals."""
    mean = float(values.mean())
    left, answer = values - mean, np.full(len(asked), mean)
    for _ in range(_TREES):
        tree = _grow(features, left, np.arange(values.size), _DEPTH)
        left = left - _RATE * _at(tree, features)
        answer += _RATE * _at(tree, asked)
    return answer


def _grow(features: Floats, values: Floats, mine: Ints, depth: int) -> _Fork | _Leaf:
    best = _split(features[mine], values[mine]) if depth and mine.size >= 2 * _LEAST else None
    if best is None:
        return _Leaf(float(values[mine].mean()))
    feature, at = best
    below = features[mine, feature] <= at
    return _Fork(
        feature,
        at,
        _grow(features, values, mine[below], depth - 1),
        _grow(features, values, mine[~below], depth - 1),
    )


def _split(features: Floats, values: Floats) -> tuple[int, float] | None:
    order = np.argsort(features, axis=0, kind="stable")
    sorted_features = np.take_along_axis(features, order, axis=0)
    sums = np.cumsum(values[order], axis=0)
    count = np.arange(1, values.size + 1)[:, None]
    gain = sums[:-1] ** 2 / count[:-1] + (sums[-1] - sums[:-1]) ** 2 / (values.size - count[:-1])
    fits = (count[:-1] >= _LEAST) & (values.size - count[:-1] >= _LEAST)
    gain = np.where(fits & (sorted_features[1:] > sorted_features[:-1]), gain, -np.inf)
    cut, feature = np.unravel_index(int(np.argmax(gain)), gain.shape)
    if not np.isfinite(gain[cut, feature]):
        return None
    return int(feature), float(sorted_features[cut, feature])


def _at(tree: _Fork | _Leaf, features: Floats) -> Floats:
    if isinstance(tree, _Leaf):
        return np.full(len(features), tree.value)
    below = features[:, tree.feature] <= tree.at
    answer = np.empty(len(features))
    answer[below] = _at(tree.below, features[below])
    answer[~below] = _at(tree.above, features[~below])
    return answer
