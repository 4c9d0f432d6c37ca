"""Changes in time to first token and time per output token, for tenants that generate.

They carry no verdict: the verdict on latency covers them, and further tests would weaken each one.
"""

import math
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

from cotenant.analyse.comparison.series import Blocks, Series
from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import student_t


@dataclass(frozen=True, slots=True)
class TokenChange:
    """One time of generation, now against before."""

    metric: str
    """TTFT or TPOT."""
    before_ms: float
    now_ms: float
    ratio: Estimate

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"metric": self.metric, "before_ms": self.before_ms, "now_ms": self.now_ms, "ratio": self.ratio}


def token_changes(old: Series, new: Series) -> tuple[TokenChange, ...]:
    """Changes of the times that both runs have in at least two blocks."""
    pairs = (("TTFT", old.ttft, new.ttft), ("TPOT", old.tpot, new.tpot))
    return tuple(_change(name, a, b) for name, a, b in pairs if min(len(a), len(b)) >= 2)


def _change(metric: str, old: Blocks, new: Blocks) -> TokenChange:
    """The ratio of geometric means, with Welch's interval on the logarithms."""
    a, b = list(old.values()), list(new.values())
    parts = [variance(a) / len(a), variance(b) / len(b)]
    spread, difference = sum(parts), fmean(b) - fmean(a)
    freedom = spread**2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1)) if spread else len(a) + len(b)
    half = student_t(freedom, 0.95) * math.sqrt(spread)
    low, high = math.exp(difference - half), math.exp(difference + half)
    ratio = Estimate(math.exp(difference), low, high, min(len(a), len(b)), "Welch's t on logarithms")
    return TokenChange(metric, math.exp(fmean(a)) / 1e6, math.exp(fmean(b)) / 1e6, ratio)
