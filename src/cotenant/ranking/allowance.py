"""The time budget of a search, and how many items fit into what is left."""

import math
import time
from dataclasses import dataclass, field

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
