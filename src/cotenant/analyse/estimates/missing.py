"""A number that is not there, and why."""

from dataclasses import dataclass
from typing import Any

from cotenant.analyse.estimates.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands where an estimate would; has its shape, with nothing in it but the reason."""

    reason: str
    n: int = 0
    est: None = None
    lo: None = None
    hi: None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"est": None, "lo": None, "hi": None, "n": self.n, "reason": self.reason}


Number = Estimate | Missing
