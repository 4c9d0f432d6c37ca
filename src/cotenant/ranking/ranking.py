"""From features to a ranking: scores, their intervals, and explicit ties.

A scorer that tests items (a trained layer, neighbours) holds out each of them once; candidates are then compared item
by item. For the others the score is recomputed on random halves of the items, the same for every candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates import student_t
from cotenant.analyse.sharing import binomial_interval
from cotenant.ranking.protocol import Features, ItemScorer, Labels, Scorer, Tested
from cotenant.ranking.scorers.classifiers import FOLDS
from cotenant.tenancy.interval import Estimate

HALVES = 8
"""Number of random halves of the items for scoring."""
LEVEL = 0.05
"""Significance level for separating two candidates."""
ITEMS_PER_TRIAL = 1 + FOLDS / (FOLDS - 1)
"""Tested items per independent trial: every item is also trained on, so that other items would change
the training as well (Nadeau and Bengio, 2003). Counted as one trial each, items would separate two equal
candidates in 12 % of cases (simulated, 160 items)."""


@dataclass(frozen=True, slots=True)
class ScoredModel:
    """A candidate's score on some items, and the basis of its interval: each tested item, or halves of the items."""

    score: float
    items: int
    halves: tuple[float, ...] = ()
    tested: Tested | None = None

    @property
    def estimate(self) -> Estimate:
        """The score with its interval.

        Tested items are Bernoulli trials. Scores on random halves, drawn without replacement, scatter about as much
        as the full sample's score would over new samples: the half has twice its variance, and shares half of it
        with the full sample.
        """
        if self.tested is not None:
            trials = len(self.tested) / ITEMS_PER_TRIAL
            lo, hi = binomial_interval(self.score * trials, trials)
            return Estimate(self.score, lo, hi, self.items, "every item tested once")
        if len(self.halves) < 2:
            return Estimate(self.score, None, None, self.items, "no interval")
        reach = student_t(len(self.halves) - 1) * float(np.std(self.halves, ddof=1))
        return Estimate(self.score, self.score - reach, self.score + reach, self.items, f"{HALVES} random halves")


def halves(labels: Labels, seed: int) -> tuple[npt.NDArray[np.int64], ...]:
    """The same halves for every candidate, each with half of every class, so that differences are paired."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(HALVES):
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        # Every other item of each class in random order; the starting parity is random too, so that odd ones alternate.
        drawn.append(np.sort(by_class[int(rng.integers(2)) :: 2]))
    return tuple(drawn)


def score(
    scorer: Scorer, features: Features, labels: Labels, *, classes: int, seed: int, with_halves: bool = False
) -> ScoredModel:
    """Score one candidate's features; ``with_halves`` also on halves, if the scorer does not test items."""
    if isinstance(scorer, ItemScorer):
        tested = scorer.tested(features, labels, classes=classes, seed=seed)
        tested = tested[~np.isnan(tested)]
        if len(tested):
            return ScoredModel(float(tested.mean()), len(labels), tested=tested)
    whole = scorer.score(features, labels, classes=classes, seed=seed)
    again = (
        tuple(scorer.score(features[half], labels[half], classes=classes, seed=seed) for half in halves(labels, seed))
        if with_halves
        else ()
    )
    return ScoredModel(whole, len(labels), again)


def tied(best: ScoredModel, other: ScoredModel) -> bool:
    """True if these items can't separate two candidates.

    They are compared by item or by half, so that what is hard for both cancels. With neither, only equal
    scores are a tie; scores on different items can't be compared at all.
    """
    if best.items != other.items:
        return False
    if best.score == other.score:
        return True
    if best.tested is not None and other.tested is not None:
        return _sign_test(int((best.tested > other.tested).sum()), int((best.tested < other.tested).sum())) > LEVEL
    if not best.halves or len(best.halves) != len(other.halves):
        return False
    differences = np.subtract(best.halves, other.halves)
    reach = student_t(len(differences) - 1) * float(np.std(differences, ddof=1))
    return abs(best.score - other.score) <= reach


def ranks(scored: Sequence[ScoredModel]) -> list[int]:
    """The rank of each, best first; those tied with the best of a rank share it.

    Args:
        scored: Sorted by score, best first.
    """
    given: list[int] = []
    leader = 0
    for position, score in enumerate(scored):
        if position and not tied(scored[leader], score):
            leader = position
        given.append(leader + 1)
    return given


def _sign_test(better: int, worse: int) -> float:
    """Probability of such an uneven split among items only one of two gets right, if both are equal (McNemar)."""
    from scipy import special

    fewer, trials = min(better, worse) / ITEMS_PER_TRIAL, (better + worse) / ITEMS_PER_TRIAL
    # The tail of the binomial distribution, for possibly fractional counts.
    return min(1.0, 2 * float(special.betainc(trials - fewer, fewer + 1, 0.5)))
