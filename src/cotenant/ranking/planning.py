"""How many items a search scores and how long that takes: rounds, baselines, intervals, and its time budget."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from cotenant.errors import CotenantError
from cotenant.ranking.costs import Round
from cotenant.ranking.preparation import Prepared
from cotenant.ranking.protocol import ItemScorer, SearchSettings
from cotenant.ranking.ranking import HALVES
from cotenant.text import duration

ENOUGH_S = 2.0
"""Predicted seconds of work to complete before the pace can be estimated."""


def now() -> float:
    """Seconds on a monotonic clock."""
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Later:
    """Work to reserve time for, in predicted seconds."""

    per_item_s: float
    once_s: float = 0.0
    """Independent of the number of items."""


@dataclass(slots=True)
class Allowance:
    """A time budget, counted from its creation."""

    budget_s: float | None
    began: float = field(default_factory=now)
    worked: float = field(default_factory=now)
    """When the work counted by ``done_s`` began."""
    done_s: float = 0.0
    """The work done since then, in predicted seconds."""

    @property
    def left_s(self) -> float:
        """Negative if overdrawn; infinite without a budget."""
        return math.inf if self.budget_s is None else self.budget_s - self.spent_s

    @property
    def spent_s(self) -> float:
        """Seconds since its creation."""
        return now() - self.began

    @property
    def pace(self) -> float:
        """Actual seconds per predicted second: more than one when the machine is busy."""
        return 1.0 if self.done_s < ENOUGH_S else (now() - self.worked) / self.done_s

    def items(self, *, per_item_s: float, later: "Later", first: int = 0) -> float:
        """Number of items that can be extracted beyond the first ones, with time reserved for later work on all.

        Args:
            per_item_s: Predicted time to extract one item.
            later: Work to do afterwards: scores and baselines.
            first: Items whose features exist.
        """
        if self.budget_s is None:
            return math.inf
        left_s = self.left_s / self.pace - later.once_s - first * later.per_item_s
        return max(0.0, left_s / max(per_item_s + later.per_item_s, 1e-12))


SOME = 10_000
"""Items for which any scorer takes measurably longer than for none."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The rounds, and notes about them."""

    rounds: tuple[Round, ...]
    predicted_s: float
    """From the first round to the last baseline."""
    notes: tuple[str, ...] = ()

    @property
    def items(self) -> int:
        """Number of items the last round sees."""
        return self.rounds[-1].items


def plan(ready: Prepared, settings: SearchSettings, allowance: Allowance, planned: int | None) -> SearchPlan:
    """Plan the rounds, over fewer items if there is not enough time for all.

    Args:
        ready: The prepared search.
        settings: The user's settings.
        allowance: The time budget.
        planned: Number of items planned before, which a resumed search keeps.

    Raises:
        CotenantError: Even the minimum number of items takes too long.
    """
    there = len(ready.bench.data)
    plan = _over(ready, settings, there if planned is None else planned)
    if allowance.budget_s is None or planned is not None or not ready.ranked:
        return _noted(plan, there)
    left, batch, least = allowance.left_s, ready.bench.batch, ready.least_items
    while plan.predicted_s > 0.9 * left and plan.items > least:
        fewer = int(plan.items * max(0.5, 0.85 * left / plan.predicted_s)) // batch * batch
        plan = _over(ready, settings, max(least, min(plan.items - batch, fewer)))
    if plan.predicted_s > left:
        needed = plan.predicted_s + allowance.budget_s - left
        raise CotenantError(
            f"there is not enough time to rank {len(ready.ranked)} models even on {plan.items:,} items: that takes "
            f"about {duration(needed)}, but the budget is {duration(allowance.budget_s)}",
            hint=f"--budget {int(1.3 * needed) + 1}s, or fewer models",
        )
    return _noted(plan, there)


def afterwards(ready: Prepared, top: int, models: int) -> Later:
    """The work left once that many models have been extracted: their scores, baselines, intervals."""
    return reserved(ready, models + _scores(ready, top, models), _random_s(ready, models))


def reserved(ready: Prepared, scores: float, per_item_s: float) -> Later:
    """A number of scores to compute, and work for each item."""
    per_score_s = (ready.score_s(SOME) - ready.score_s(0)) / SOME
    return Later(per_item_s + per_score_s * scores, ready.score_s(0) * scores)


def _noted(plan: SearchPlan, there: int) -> SearchPlan:
    if plan.items == there:
        return plan
    note = f"At most {plan.items:,} of {there:,} items are used, since all would exceed the time budget."
    return SearchPlan(plan.rounds, plan.predicted_s, (note,))


def _over(ready: Prepared, settings: SearchSettings, items: int) -> SearchPlan:
    rounds = ready.plan(items, exact=settings.exact)
    if not ready.ranked:
        return SearchPlan(rounds, 0.0)  # timed by now, and there is nothing to compare
    last = rounds[-1].models
    closing_s = _random_s(ready, last) * items + ready.score_s(items) * _scores(ready, settings.top, last)
    return SearchPlan(rounds, ready.predict(rounds).seconds + closing_s)


def _random_s(ready: Prepared, models: int) -> float:
    """Cost per item after the last round: random weights in every architecture of its models."""
    seconds = _architectures(ready)
    return fmean(seconds.values()) * min(models, len(seconds))


def _scores(ready: Prepared, top: int, models: int) -> float:
    """Number of scores computed after the last round: of baselines, and for intervals."""
    again = 0 if isinstance(ready.scorer, ItemScorer) else HALVES / 2
    return (min(models, len(_architectures(ready))) + 1) * (1 + again) + min(top, models) * again


def _architectures(ready: Prepared) -> dict[str, float]:
    """Time of an item through each of them."""
    return {
        ready.bench.candidates[candidate].architecture: sum(step.seconds for step in ready.paths[candidate].steps)
        for candidate in ready.ranked
    }


def left_over(rounds: Sequence[Round], number: int, reached: int, allowance: Allowance) -> str:
    """The state of a search when the time was up."""
    assert allowance.budget_s is not None
    return (
        f"The {duration(allowance.budget_s)} were up in round {number} of {len(rounds)}, after {reached:,} of "
        f"{rounds[number - 1].items:,} items"
    )
