"""K nearest neighbours by cosine similarity of features."""

from dataclasses import dataclass

import numpy as np

from cotenant.ranking.protocol import Features, Labels, Tested
from cotenant.ranking.scorers.splitting import Positions, folds, split

NEIGHBOURS = 5
_ROWS = 2048
"""Items tested at once."""


@dataclass(frozen=True, slots=True)
class NearestNeighbours:
    """Accuracy of the neighbours' vote; on a tie the nearer neighbours win."""

    name: str = "knn"
    about: str = "held-out accuracy of the vote of the five nearest neighbours by cosine"

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:
        """Share of the tested items their neighbours classify correctly."""
        return float(_right(features, labels, split(labels, seed), classes).mean())

    def tested(self, features: Features, labels: Labels, *, classes: int, seed: int) -> Tested:
        """Item by item, fold by fold."""
        right = np.full(len(labels), np.nan)
        for learnt, tested in folds(labels, seed):
            right[tested] = _right(features, labels, (learnt, tested), classes)
        return right


def _right(features: Features, labels: Labels, parts: tuple[Positions, Positions], classes: int) -> Tested:
    """Whether each tested item is classified correctly by the training items."""
    learnt, tested = parts
    length = np.linalg.norm(features, axis=1, keepdims=True)
    unit = features / np.maximum(length, 1e-12)
    known, count = unit[learnt], min(NEIGHBOURS, len(learnt))
    right = np.empty(len(tested))
    for start in range(0, len(tested), _ROWS):
        rows = tested[start : start + _ROWS]
        likeness = unit[rows] @ known.T
        nearest = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
        near = np.take_along_axis(likeness, nearest, axis=1)
        votes = np.zeros((len(rows), classes))
        # A vote counts one; similarity adds less than half a vote in total, so it only breaks ties.
        np.add.at(votes, (np.arange(len(rows))[:, None], labels[learnt][nearest]), 1 + near / (4 * count))
        right[start : start + _ROWS] = votes.argmax(axis=1) == labels[rows]
    return right
