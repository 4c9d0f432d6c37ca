"""The time that a search may take, and for how many items what is left of it suffices."""

import math
import time
from dataclasses import dataclass, field

ENOUGH_S = 2.0
"""Predicted seconds of work that have to be done before the pace can be told from what they took."""


def now() -> float:
    """Seconds on a clock that is never set."""
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Later:
    """Work that has to be left time for, in predicted seconds."""

    per_item_s: float
    once_s: float = 0.0
    """However few items there are."""


@dataclass(slots=True)
class Allowance:
    """Counts from the moment it is made."""

    budget_s: float | None
    began: float = field(default_factory=now)
    worked: float = field(default_factory=now)
    """When the work began that ``done_s`` counts."""
    done_s: float = 0.0
    """The work done since then, in predicted seconds."""

    @property
    def left_s(self) -> float:
        """Negative if it is overdrawn; infinite without a budget."""
        return math.inf if self.budget_s is None else self.budget_s - self.spent_s

    @property
    def spent_s(self) -> float:
        """Since it was made."""
        return now() - self.began

    @property
    def pace(self) -> float:
        """Seconds that a predicted second takes here and now: other work on the machine makes it more than one."""
        return 1.0 if self.done_s < ENOUGH_S else (now() - self.worked) / self.done_s

    def items(self, *, per_item_s: float, later: "Later", first: int = 0) -> float:
        """How many items can be extracted after the first so many, if all have to be paid for again later.

        Args:
            per_item_s: What extracting one item takes, as predicted.
            later: What has to be done afterwards: scores and baselines.
            first: Items whose features are there.
        """
        if self.budget_s is None:
            return math.inf
        left_s = self.left_s / self.pace - later.once_s - first * later.per_item_s
        return max(0.0, left_s / max(per_item_s + later.per_item_s, 1e-12))
