"""One tenant in one trial, with everything that comparisons and explanations need besides its latency."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cotenant.tenancy.records import TenantObservation


class Work(NamedTuple):
    """The work of a request: two tenants are comparable only if it is the same."""

    workload: str
    batch: int | None = None
    seq: int | None = None
    dtype: str | None = None
    threads: int | None = None
    flops_per_request: float | None = None
    bytes_per_request: float | None = None


@dataclass(frozen=True, slots=True)
class TenantEvidence:
    """A tenant's part in a trial, and the trial's circumstances. None where not observed."""

    seen: TenantObservation
    work: Work
    load: str
    """The tenant's own load."""
    rate_rps: float | None = None
    """Intended rate of an open load."""
    service_ns: float | None = None
    """Mean of done - started: serving time without the queue."""
    switches_voluntary: int | None = None
    """Voluntary context switches of its process over the window."""
    device_clock: str | None = None
    """What its device time is measured on, in the device's terms."""
    peak_memory_bytes: int | None = None
    working_set_bytes: int | None = None
    stages_ns: Mapping[str, float] = field(default_factory=dict)
    """Mean duration of each stage."""
    clock_mhz: float | None = None
    """Mean clock of the device over the window."""
    foreign_share: float | None = None
    """Share of the device's cores taken by processes outside the study."""
    steal_share: float | None = None
    """Share of the device's time taken by the hypervisor."""
    started_utc: str = ""

    @property
    def open(self) -> bool:
        """Requests arrive on a schedule, whether or not the previous one is done."""
        return not self.load.startswith("closed")
