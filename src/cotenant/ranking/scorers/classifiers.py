"""Scores by classifying held-out items: a linear classifier, and the nearest neighbours by cosine similarity."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Features, Labels, Tested

if TYPE_CHECKING:
    import torch


TESTED = 0.25
"""Share of each class that is tested; at least one item."""

FOLDS = 4
"""Number of folds, each tested once after training on the others."""

Positions = npt.NDArray[np.int64]


def split(labels: Labels, seed: int) -> tuple[Positions, Positions]:
    """Training and test positions, in the items' order; classes with one item are trained on.

    Where no class has two items nothing can be held out: all are trained and tested on, which has the usual cost
    but no meaning. `open_data` refuses such data; random labels, for timing, may be like that.
    """
    by_class, rank, sizes = _by_class(labels, seed)
    tested = np.where(sizes > 1, np.maximum(1, np.rint(sizes * TESTED)), 0)
    is_tested = rank < np.repeat(tested, sizes)
    if not is_tested.any():
        everything = np.arange(len(labels))
        return everything, everything
    return np.sort(by_class[~is_tested]), np.sort(by_class[is_tested])


def folds(labels: Labels, seed: int) -> Iterator[tuple[Positions, Positions]]:
    """Training and test positions, `FOLDS` times; each item of a class with several is tested once.

    Fewer where there are not enough items for all; none where no class has two items.
    """
    by_class, rank, sizes = _by_class(labels, seed)
    first = np.cumsum(sizes) - sizes  # the next class starts in the fold after the last one's: equal folds
    fold = np.where(np.repeat(sizes > 1, sizes), (rank + np.repeat(first, sizes)) % FOLDS, FOLDS)
    for number in range(FOLDS):
        if (fold == number).any():
            yield np.sort(by_class[fold != number]), np.sort(by_class[fold == number])


def _by_class(labels: Labels, seed: int) -> tuple[Positions, Positions, Positions]:
    """Positions in random order, class by class; each one's number within its class; the sizes of the classes."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    return by_class, np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes), sizes


PASSES = 100
STEPS = 400
BATCH = 256
RATE = 3.0
MOMENTUM = 0.9
DECAY = 1e-5
"""Weight decay: with separable classes the weights would grow without bound."""
_TOGETHER_BYTES = 256 << 20
"""Candidates are trained together as long as their features fit into this."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Accuracy of a linear layer on held-out items."""

    name: str = "linear"
    about: str = "held-out accuracy of one fully connected layer, trained on three quarters of the items"

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:
        """Share of the tested items it classifies correctly."""
        return self.score_many([features], labels, classes=classes, seed=seed)[0]

    def score_many(self, features: Sequence[Features], labels: Labels, *, classes: int, seed: int) -> list[float]:
        """The scores of several candidates on the same items, trained together."""
        scores = [0.0] * len(features)
        for group in _groups(features):
            right = _right([features[model] for model in group], labels, split(labels, seed), classes, seed)
            for model, score in zip(group, right.double().mean(dim=1).tolist(), strict=True):
                scores[model] = score
        return scores

    def tested(self, features: Features, labels: Labels, *, classes: int, seed: int) -> Tested:
        """Item by item, fold by fold."""
        right = np.full(len(labels), np.nan)
        for learnt, tested in folds(labels, seed):
            right[tested] = _right([features], labels, (learnt, tested), classes, seed)[0].numpy()
        return right


def _groups(features: Sequence[Features]) -> Iterator[list[int]]:
    """Groups of candidates with similar width, so that there is little padding."""
    group: list[int] = []
    for model in sorted(range(len(features)), key=lambda model: features[model].shape[1]):
        widest = features[model].shape[1]
        if group and (
            (len(group) + 1) * features[model].shape[0] * widest * 4 > _TOGETHER_BYTES
            or widest > 1.25 * features[group[0]].shape[1]
        ):
            yield group
            group = []
        group.append(model)
    if group:
        yield group


def _right(
    features: Sequence[Features], labels: Labels, parts: tuple[Positions, Positions], classes: int, seed: int
) -> "torch.Tensor":
    """Whether each tested item is classified correctly, candidates x items, by layers trained on the others."""
    import torch

    learnt, tested = parts
    width = max(matrix.shape[1] for matrix in features)
    inputs = torch.zeros(len(features), len(labels), width)
    for row, matrix in enumerate(features):
        inputs[row, :, : matrix.shape[1]] = torch.from_numpy(standardised(matrix, learnt))
    truth = torch.from_numpy(labels)
    weight, bias = train(inputs[:, learnt], truth[learnt], classes, seed)
    with torch.inference_mode():
        return torch.baddbmm(bias, inputs[:, tested], weight).argmax(dim=2) == truth[tested]


def standardised(features: Features, learnt: Positions) -> Features:
    """Mean 0 and spread 1 over the training items, divided by the root of the width: rows have length about 1."""
    known = features[learnt]
    mean, spread = known.mean(axis=0), known.std(axis=0)
    scale = np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0) / np.sqrt(features.shape[1])
    scaled: Features = ((features - mean) * scale).astype(np.float32)
    return scaled


def train(
    inputs: "torch.Tensor", truth: "torch.Tensor", classes: int, seed: int
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Weights (candidates x width x classes) and biases (candidates x 1 x classes)."""
    import torch

    candidates, items, width = inputs.shape
    weight, bias = torch.zeros(candidates, width, classes), torch.zeros(candidates, 1, classes)
    weight_speed, bias_speed = torch.zeros_like(weight), torch.zeros_like(bias)
    with torch.inference_mode():
        batches = list(_batches(items, seed))
        for step, batch in enumerate(batches):
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / len(batches)))
            some = inputs[:, batch]
            error = torch.baddbmm(bias, some, weight).softmax(dim=2)
            error[:, torch.arange(len(batch)), truth[batch]] -= 1
            weight_speed.mul_(MOMENTUM).baddbmm_(some.transpose(1, 2), error, alpha=1 / len(batch))
            weight_speed.add_(weight, alpha=DECAY)
            bias_speed.mul_(MOMENTUM).add_(error.mean(dim=1, keepdim=True))
            weight.sub_(weight_speed, alpha=rate)
            bias.sub_(bias_speed, alpha=rate)
    return weight, bias


def _batches(items: int, seed: int) -> Iterator["torch.Tensor"]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    left = min(STEPS, PASSES * -(-items // BATCH))
    while left > 0:
        order = torch.randperm(items, generator=generator)
        for batch in torch.split(order, BATCH)[:left]:
            left -= 1
            yield batch


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
        return float(_nearest_right(features, labels, split(labels, seed), classes).mean())

    def tested(self, features: Features, labels: Labels, *, classes: int, seed: int) -> Tested:
        """Item by item, fold by fold."""
        right = np.full(len(labels), np.nan)
        for learnt, tested in folds(labels, seed):
            right[tested] = _nearest_right(features, labels, (learnt, tested), classes)
        return right


def _nearest_right(features: Features, labels: Labels, parts: tuple[Positions, Positions], classes: int) -> Tested:
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
