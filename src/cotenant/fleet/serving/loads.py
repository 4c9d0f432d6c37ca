"""How busy devices are, and which of them gets a request: the fullest that still keeps its deadline. Pure.

Filling one device before the next keeps the others free for tenants that need a whole one, and shows how many devices
a load really needs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

REPORT_S = 0.1
"""Seconds between a device's reports."""
SILENT_S = 0.6
"""A device that has not reported for this long gets no requests."""
CAUTION = 0.9
"""Fraction of a deadline that may be used up by what is predicted: reports are up to 100 ms old."""


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """One tenant on one device."""

    ready: bool
    backlog_s: float
    """Device time of its accepted requests."""
    share: float
    request_s: float
    """Device time of a typical request."""
    objective_s: float

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "TenantLoad":
        """As reported."""
        return cls(bool(said["ready"]), *(float(said[name]) for name in cls.__slots__[1:]))


@dataclass(slots=True)
class DeviceLoad:
    """A device as a front end knows it: the last report, and what was sent there since."""

    tenants: Mapping[str, TenantLoad] = field(default_factory=dict)
    reported_s: float = float("-inf")
    sent_s: float = 0.0
    """Device time of this front end's unanswered requests."""
    sent_then_s: float = 0.0
    """The same when the last report came; the report includes it."""

    def report(self, tenants: Mapping[str, TenantLoad], now: float) -> None:
        """A report came."""
        self.tenants, self.reported_s, self.sent_then_s = tenants, now, self.sent_s

    def lost(self) -> None:
        """The connection is gone: nothing is known until the next report."""
        self.reported_s = float("-inf")

    def serves(self, tenant: str, now: float) -> bool:
        """Whether a request can be sent there now."""
        known = self.tenants.get(tenant)
        return known is not None and known.ready and now - self.reported_s <= SILENT_S

    @property
    def backlog_s(self) -> float:
        """Device time of everything that waits there, by the report and what was sent and answered since."""
        reported = sum(load.backlog_s for load in self.tenants.values())
        return max(self.sent_s, reported + self.sent_s - self.sent_then_s, 0.0)

    def finish_s(self, tenant: str) -> float:
        """Predicted time to the answer of a new request: after all that waits, or within the tenant's own share."""
        load = self.tenants[tenant]
        own = max(0.0, load.backlog_s + self.sent_s - self.sent_then_s) + load.request_s
        by_share = own / load.share if load.share > 0 else float("inf")
        return min(self.backlog_s + load.request_s, max(by_share, load.request_s))


def choose(
    devices: Mapping[str, DeviceLoad],
    tenant: str,
    now: float,
    *,
    within_s: float | None = None,
    without: Iterable[str] = (),
) -> str | None:
    """The device for a request, or None if none serves its tenant now.

    Args:
        devices: All devices, by name.
        tenant: The request's tenant.
        now: Seconds of the clock of the reports.
        within_s: The client's deadline, if earlier than the objective.
        without: Devices that were tried already.
    """
    tried = set(without)
    there = [name for name, load in devices.items() if name not in tried and load.serves(tenant, now)]
    if not there:
        return None
    finish = {name: devices[name].finish_s(tenant) for name in there}
    limit = {name: CAUTION * min(devices[name].tenants[tenant].objective_s, within_s or float("inf")) for name in there}
    in_time = [name for name in there if finish[name] <= limit[name]]
    if in_time:
        return max(in_time, key=lambda name: devices[name].backlog_s)
    return min(there, key=finish.__getitem__)
