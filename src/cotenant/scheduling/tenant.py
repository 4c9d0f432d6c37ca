"""The state of a tenant: its account in device time, and its recent attainment."""

import math

from cotenant.scheduling.contract import Contract, ServiceClass
from cotenant.scheduling.correction import CostEstimate, DeviceSpeed
from cotenant.scheduling.costs import TenantCosts

HISTORY_S = 10.0
"""Time constant of a tenant's attainment: long enough to count a slow tenant's requests."""

LEAST_RETRY_S = 0.5
OVERDUE = 0.25
"""Of the time that a pause has lasted: the rest to expect if it is longer than expected."""


class TenantState:
    """A tenant on a device."""

    __slots__ = (
        "_account_at", "_booked_until", "_capacity_s", "_fortune_at", "_memory_s", "_met", "_offered", "_paused_at",
        "_paused_s", "account_s", "asked_s", "backlog_s", "beyond_s", "contract", "estimate", "held_bytes", "name",
        "objective_s", "rate", "spaced_s",
    )  # fmt: skip

    def __init__(self, contract: Contract, costs: TenantCosts, speed: DeviceSpeed, now: float) -> None:
        self.backlog_s = 0.0
        self.held_bytes = 0
        self._paused_at: float | None = None
        self._paused_s = 0.0
        self._account_at = self._fortune_at = self._booked_until = now
        self.asked_s = self.beyond_s = self._offered = self._met = 0.0
        self.account_s = math.inf
        self._capacity_s = 0.0
        self.rate = 0.0
        self.agree(contract, costs, speed)

    def agree(self, contract: Contract, costs: TenantCosts, speed: DeviceSpeed) -> None:
        """Replace contract and costs; account and history stay."""
        self.contract = contract
        self.name = contract.tenant
        self.objective_s = contract.within_s(costs.steps)
        self.estimate = CostEstimate(costs, speed)
        self.spaced_s = costs.spaced_s

    def pause(self, seconds: float, now: float) -> None:
        """It can't be served, for about so long."""
        self._paused_at, self._paused_s = now, seconds

    def resume(self) -> None:
        """It can be served again."""
        self._paused_at = None

    def paused_for_s(self, now: float) -> float | None:
        """The rest of its pause; None if it isn't paused. Longer than expected, a part of the time so far."""
        if self._paused_at is None:
            return None
        passed = now - self._paused_at
        rest = self._paused_s - passed if passed < self._paused_s else OVERDUE * passed
        return max(LEAST_RETRY_S, rest)

    def grant(self, share: float, slots: int, burst: float, memory_s: float) -> None:
        """Set the guaranteed rate, in device-seconds per second, and the size of the account."""
        self.rate = share * slots
        self._memory_s = memory_s
        self._capacity_s = max(burst * self.objective_s, 2 * self.estimate.costs.total_s)
        if self.contract.service is ServiceClass.BEST_EFFORT:
            self.rate = self._capacity_s = 0.0
        self.account_s = min(self.account_s, self._capacity_s)

    def balance_s(self, now: float) -> float:
        """Balance of the account, in device-seconds; in a burst a second of the device does less."""
        rate = self.rate * self.estimate.speed.ease
        return min(self._capacity_s, self.account_s + (now - self._account_at) * rate)

    def charge(self, cost_s: float, now: float) -> bool:
        """Charge a request to the account; False, without charging, if the balance is too low."""
        self.account_s = self.balance_s(now)
        self._account_at = now
        if self.account_s < cost_s:
            return False
        self.account_s -= cost_s
        return True

    def book_return(self, cost_s: float, now: float) -> float:
        """Seconds until the account will hold the cost; callers get staggered times."""
        if self.rate <= 0:
            return math.inf
        free = max(self._booked_until, now - self.balance_s(now) / self.rate)
        self._booked_until = free + cost_s / self.rate
        return max(0.0, self._booked_until - now)

    def age(self, now: float) -> None:
        """Decay the recent history."""
        if now > self._fortune_at:
            passed = self._fortune_at - now
            fade = math.exp(passed / self._memory_s)
            self._fortune_at = now
            self.asked_s *= fade
            self.beyond_s *= fade
            fade = math.exp(passed / HISTORY_S)
            self._offered *= fade
            self._met *= fade

    def offer(self, cost_s: float, now: float) -> None:
        """Record a conforming request."""
        self.age(now)
        self.asked_s += cost_s
        self._offered += 1

    def exceed(self, cost_s: float, now: float) -> None:
        """Record a request beyond the share."""
        self.age(now)
        self.beyond_s += cost_s

    def meet(self, now: float) -> None:
        """Record a conforming request served in time."""
        self.age(now)
        self._met += 1

    @property
    def attained(self) -> float:
        """Fraction of recent conforming requests served in time."""
        return self._met / self._offered if self._offered > 1e-9 else 1.0

    @property
    def floods(self) -> bool:
        """Whether it has recently sent more than twice its share, by more than a request."""
        return self.beyond_s > max(self.asked_s, self.spaced_s)

    @property
    def expected_rate(self) -> float:
        """Expected conforming work in device-seconds per second: the recent rate, at most the guaranteed rate."""
        return min(self.asked_s / self._memory_s, self.rate)
