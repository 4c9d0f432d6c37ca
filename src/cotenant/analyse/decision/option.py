"""One way to share one mix: its effect on the work done, on each tenant and on every objective."""

from dataclasses import dataclass
from typing import Literal

from cotenant.analyse.decision.objective import Kept, MeasuredObjective
from cotenant.analyse.estimates.quantiles import Number
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.summary import MixSummary

FAIRNESS_FLOOR = 0.5
"""Without objectives, a way to share is recommended only if no tenant makes less than half the progress of another."""
TOO_GOOD = 0.10
"""If the work exceeds that of all tenants alone by more than this, the solo trials are no measure.

Something else disturbed them, or cores that a neighbour keeps awake slept between the requests of a tenant alone.
"""

VISIBLE = 0.005
"""A gain that two decimals would show as 1.00 is ignored, however narrow its interval."""

Gain = Literal["more", "less", "same", "open", "unknown"]


@dataclass(frozen=True, slots=True)
class TenantInOption:
    """One tenant within an option."""

    tenant: str
    of: str
    slowdown: Number
    alone: MeasuredObjective | None
    shared: MeasuredObjective | None
    under: str = ""
    """Load and settings, if the tenant was measured under several."""
    rate_given: bool = False
    """Its requests arrive at a rate of their own: it does the same work however long they take."""


@dataclass(frozen=True, slots=True)
class Option:
    """One cell with neighbours."""

    mix: MixSummary
    standings: tuple[TenantInOption, ...]

    @property
    def cell(self) -> Cell:
        """Mix, sharing and conditions."""
        return self.mix.cell

    @property
    def work(self) -> Number:
        """Work done, where taking turns is 1 (STP)."""
        return self.mix.metrics["stp"]

    @property
    def delay(self) -> Number:
        """Mean time of requests beside each other, where alone is 1 (ANTT)."""
        return self.mix.metrics["antt"]

    @property
    def rates_given(self) -> bool:
        """The work is given by the rates of arrival; sharing changes only how long requests take."""
        return bool(self.standings) and all(one.rate_given for one in self.standings)

    @property
    def gauge(self) -> Number:
        """The figure that stands for the option: the delay if rates are given, else the work."""
        return self.delay if self.rates_given else self.work

    @property
    def trusted(self) -> bool:
        """At least one trial passed every check."""
        return self.mix.trials_by_verdict.get("valid", 0) > 0

    @property
    def fair(self) -> bool:
        """No tenant is clearly starved."""
        fairness = self.mix.metrics["fairness"]
        most = fairness.est if fairness.hi is None else fairness.hi
        return most is None or most >= FAIRNESS_FLOOR

    @property
    def objectives(self) -> tuple[MeasuredObjective, ...]:
        """Objectives of the tenants that have one."""
        return tuple(one.shared for one in self.standings if one.shared is not None)

    @property
    def kept(self) -> Kept | None:
        """`kept` if all are, `missed` if one is; None without objectives."""
        answers = {one.answer for one in self.objectives}
        if not answers:
            return None
        return "missed" if "missed" in answers else "open" if "open" in answers else "kept"

    @property
    def headroom(self) -> float:
        """Headroom of the tenant with the least."""
        return min((one.headroom for one in self.objectives if one.headroom is not None), default=0.0)

    @property
    def disturbed(self) -> bool:
        """The mix did more work than all its tenants alone."""
        return self.work.lo is not None and self.work.lo > len(self.standings) * (1 + TOO_GOOD)

    def gain(self, same_within: float) -> Gain:
        """Work compared with taking turns; `same` if the whole interval lies within that margin of 1."""
        work = self.work
        if work.est is None or work.lo is None or work.hi is None:
            return "unknown"
        if work.lo > 1 + VISIBLE:
            return "more"
        if work.hi < 1:
            return "less"
        return "same" if work.lo >= 1 - same_within and work.hi <= 1 + same_within else "open"
