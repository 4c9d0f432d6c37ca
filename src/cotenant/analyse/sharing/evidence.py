"""One tenant in one trial with everything that comparing and explaining need beside its latency."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cotenant.tenancy.records import TenantObservation


class Work(NamedTuple):
    """What a request asks for: two tenants can only be compared if they do the same."""

    workload: str
    batch: int | None = None
    seq: int | None = None
    dtype: str | None = None
    threads: int | None = None
    flops_per_request: float | None = None
    bytes_per_request: float | None = None


@dataclass(frozen=True, slots=True)
class TenantEvidence:
    """A tenant's part in a trial, and the circumstances of the trial. None: it could not be observed."""

    seen: TenantObservation
    work: Work
    load: str
    """The tenant's own load."""
    rate_rps: float | None = None
    """Intended rate of an open load."""
    service_ns: float | None = None
    """Mean of done - started: what serving took once it had begun."""
    switches_voluntary: int | None = None
    """Context switches that its process asked for, over the window."""
    device_clock: str | None = None
    """Whose time its device time is, in the device's words."""
    peak_memory_bytes: int | None = None
    working_set_bytes: int | None = None
    stages_ns: Mapping[str, float] = field(default_factory=dict)
    """Mean duration of each stage."""
    clock_mhz: float | None = None
    """Mean clock of the device over the window."""
    foreign_share: float | None = None
    """Part of the device's cores that processes outside the study took."""
    steal_share: float | None = None
    """Part of the device's time that the hypervisor took."""
    started_utc: str = ""

    @property
    def open(self) -> bool:
        """Its requests come by a schedule, whether or not the last one is done."""
        return not self.load.startswith("closed")
