"""Successive halving: each round doubles the data and keeps the better half of the models. Pure."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Labels


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the number of items each model has seen at its end, and the number of models kept."""

    items: int
    models: int
    keep: int


def rounds(models: int, items: int, *, batch: int, least: int) -> tuple[Round, ...]:
    """Plan ceil(log2 models) rounds; the last one sees all items.

    Args:
        models: Number of ranked models.
        items: Number of items.
        batch: Rounds end between batches, so that batches are the same in every mode.
        least: Fewer items give no useful score.
    """
    count = max(1, math.ceil(math.log2(models))) if models > 1 else 1
    plan, left = [], models
    for number in range(count):
        share = math.ceil(items / 2 ** (count - 1 - number) / batch) * batch
        shown = min(items, max(share, math.ceil(min(least, items) / batch) * batch))
        keep = math.ceil(left / 2) if number < count - 1 else left
        plan.append(Round(shown, left, keep))
        left = keep
    return tuple(plan)


def all_at_once(models: int, items: int) -> tuple[Round, ...]:
    """One round with everything: an exhaustive search."""
    return (Round(items, models, models),)


def even_order(labels: Labels, seed: int) -> npt.NDArray[np.int64]:
    """The items in a random order in which every prefix has its share of each class."""
    rng = np.random.default_rng(seed)
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place[rng.permutation(members)] = (np.arange(len(members)) + rng.random()) / len(members)
    return np.argsort(place, kind="stable").astype(np.int64)
