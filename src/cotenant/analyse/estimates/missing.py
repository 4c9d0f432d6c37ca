"""A missing number, with the reason."""

from dataclasses import dataclass
from typing import Any

from cotenant.analyse.estimates.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Missing:
    """An estimate that could not be made: the same shape, and the reason."""

    reason: str
    n: int = 0
    est: None = None
    lo: None = None
    hi: None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"est": None, "lo": None, "hi": None, "n": self.n, "reason": self.reason}


Number = Estimate | Missing
