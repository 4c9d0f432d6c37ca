"""From features to a ranking: scores, intervals by half-samples, and ties that are said to be ties."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimate import Estimate
from cotenant.analyse.intervals import student_t
from cotenant.workloads.search.protocol import Features, Labels, Scorer

HALVES = 8
"""Random halves of the items that the score is taken on again."""
METHOD = f"{HALVES} random halves of the items"


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate's score on some items, and on halves of them."""

    score: float
    halves: tuple[float, ...]
    items: int

    @property
    def estimate(self) -> Estimate:
        """The score with its interval.

        Scores on random halves, drawn without replacement, scatter about as much as the whole sample's score would
        over new samples: the half has twice its variance, and shares half of it with the whole.
        """
        if len(self.halves) < 2:
            return Estimate(self.score, None, None, self.items, "no interval")
        reach = student_t(len(self.halves) - 1) * float(np.std(self.halves, ddof=1))
        return Estimate(self.score, self.score - reach, self.score + reach, self.items, METHOD)


def halves(labels: Labels, seed: int) -> tuple[npt.NDArray[np.int64], ...]:
    """The same halves for every candidate, each with half of every class: so differences can be compared in pairs."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(HALVES):
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        # Every second one of each class in random order; where a class begins is random too, so odd ones alternate.
        drawn.append(np.sort(by_class[int(rng.integers(2)) :: 2]))
    return tuple(drawn)


def score(
    scorer: Scorer, features: Features, labels: Labels, *, classes: int, seed: int, with_halves: bool = False
) -> Scored:
    """Score one candidate's features."""
    whole = scorer.score(features, labels, classes=classes, seed=seed)
    again = (
        tuple(scorer.score(features[half], labels[half], classes=classes, seed=seed) for half in halves(labels, seed))
        if with_halves
        else ()
    )
    return Scored(whole, again, len(labels))


def tied(one: Scored, other: Scored) -> bool:
    """Whether these items can't tell two candidates apart.

    They are compared half by half, so that what is hard for both cancels. Without halves only equal scores are a tie;
    scores on different items can't be compared at all.
    """
    if one.items != other.items:
        return False
    if one.score == other.score:
        return True
    if not one.halves or len(one.halves) != len(other.halves):
        return False
    differences = np.subtract(one.halves, other.halves)
    reach = student_t(len(differences) - 1) * float(np.std(differences, ddof=1))
    return abs(one.score - other.score) <= reach


def ranks(scored: Sequence[Scored]) -> list[int]:
    """The rank of each, best first; those tied with the best of a rank share it.

    Args:
        scored: In the order of their scores, the best first.
    """
    given: list[int] = []
    leader = 0
    for place, one in enumerate(scored):
        if place and not tied(scored[leader], one):
            leader = place
        given.append(leader + 1)
    return given
