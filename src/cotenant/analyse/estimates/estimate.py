"""A number with its interval: the form in which all results leave the analysis."""

from dataclasses import dataclass

from cotenant.analyse.estimates.distributions import t_quantile


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with a 95 % interval. ``lo`` and ``hi`` are None where the data allows no interval."""

    est: float
    lo: float | None
    hi: float | None
    n: int
    """Independent replicates behind it (blocks or trials), or requests for a quantile."""
    method: str
    """Method of the interval, in a few words."""

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval as a share of the estimate: 0.03 means ±3 %."""
        if self.lo is None or self.hi is None or self.est == 0:
            return None
        return (self.hi - self.lo) / 2 / abs(self.est)


def student_t(df: float, level: float = 0.95) -> float:
    """Two-sided quantile of Student's t."""
    return t_quantile(df, (1 + level) / 2)
