"""Where a run's trials are carried out: hosts that each take a stretch of blocks at a time.

On this machine there is a single host: a device with tenants on it, or its model. A cluster has a host per device.
The runner treats all of them alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cotenant import workloads
from cotenant.devices.protocol import Device
from cotenant.measure.events import TrialDone
from cotenant.measure.run_plan import RunPlan
from cotenant.store.folder import RunFolder
from cotenant.study.model import Before
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import TenantObservation, TrialRecords
from cotenant.workloads.protocol import Properties

WARM_S = (0.25, 2.0)
"""A new tenant serves at least and at most this long before its first trial."""


class DeviceBench(Protocol):
    """A device prepared for trials."""

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Do in advance what these trials need. Raises TenantFailed if a tenant can't be built."""
        ...

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """Carry out a trial; tenant failures are recorded, never raised."""
        ...

    def carry_out_some(
        self, trials: Sequence[Trial], *, session: int, rates: Mapping[str, float]
    ) -> tuple[TrialRecords, ...]:
        """Carry out the first of these trials and as many more as are best done without a pause."""
        ...

    def request_times(self, trials: Sequence[Trial]) -> Mapping[str, float]:
        """Seconds of a request alone by tenant, as far as known after `prepare`."""
        ...

    def refresh(self) -> None:
        """Give the next trials new tenants."""
        ...

    def pause(self, seconds: float) -> None:
        """Let time pass between blocks: simulated time on a simulated device, real time otherwise."""
        ...

    def close(self) -> None:
        """Shut down in order."""
        ...

    def kill(self) -> None:
        """Shut down at once."""
        ...


def bench_for(
    device: Device, *, run: str, before: Before | None = None, warm_s: tuple[float, float] = WARM_S
) -> DeviceBench:
    """The bench for a device: tenants on a real device, a model for a simulated device.

    Args:
        device: The device for the trials.
        run: The run they belong to.
        before: The study's conditions on the device before each trial.
        warm_s: Minimum and maximum time a new tenant serves before its first trial.
    """
    if not device.simulated:
        from cotenant.measure.live import LiveBench

        costs = PropertyCache(device)
        return LiveBench(
            device,
            run=run,
            properties=costs.properties,
            memory_of=costs.memory_bytes,
            warm_s=warm_s,
            before=before,
        )
    if device.names:
        from cotenant.measure.simulated.simulated_fleet import SimulatedFleetBench

        return SimulatedFleetBench(device, run=run, before=before)
    from cotenant.measure.simulated.simulated_bench import SimulatedBench

    return SimulatedBench(device.simulation(), run=run)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Trials of consecutive blocks for a host."""

    first: int
    """The first block."""
    after: int
    """The block after the last."""
    trials: tuple[Trial, ...]
    begins: bool = False
    """Nothing was measured before: a tenant that can't start is for the user to fix. Later it is a result."""
    alone: bool = False
    """All other tenants of the host are stopped first."""


NextStretch = Callable[[str], Stretch | None]
"""The next stretch for a free host; None if there is nothing for it to do now."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Trials that a host has carried out."""

    host: str
    trials: tuple[TrialDone, ...]
    observations: tuple[TenantObservation, ...]
    device_s: float
    """Time of these trials on the device's clock."""
    complete: bool
    """The host is done with its stretch."""
    store: Callable[[RunFolder], None]
    """Writes their records into the run folder."""


@dataclass(frozen=True, slots=True)
class HostLost:
    """A host is gone, with the stretch it had begun."""

    host: str


class Bench(Protocol):
    """The hosts of a run."""

    @property
    def simulated(self) -> bool:
        """True if the trials are computed."""
        ...

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts that are there."""
        ...

    @property
    def divided(self) -> bool:
        """True if each block is done once, by any host; False if each host does every block."""
        ...

    @property
    def turns(self) -> Mapping[str, str]:
        """Hosts with the same value don't work at the same time."""
        ...

    def trials(self, plan: RunPlan, block: int, host: str) -> Sequence[Trial]:
        """The trials of a block as this host carries them out."""
        ...

    def get_ready(self, plan: RunPlan, folder: RunFolder) -> None:
        """Measure what has to be known before the first block, unless the manifest has it; see `calibration`."""
        ...

    def carry_out(self, next_stretch: NextStretch, rates: Mapping[str, float]) -> Iterator[Delivery | HostLost]:
        """Carry out stretches until no host gets another; a delivery is stored before the next.

        Args:
            next_stretch: Called for each host that is free.
            rates: Each tenant's capacity alone, in requests per second; for loads given as a share of it.
        """
        ...

    def facts(self) -> Mapping[str, Any]:
        """Entries of the manifest that were measured beside the trials."""
        ...

    def close(self) -> None:
        """Shut down in order."""
        ...

    def kill(self) -> None:
        """Shut down at once."""
        ...


# --- the cost of a request of each workload on a device, looked up once per run


class PropertyCache:
    """Caches the properties of a run's workloads, in the number format they have on its device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._properties: dict[str, Properties] = {}

    def properties(self, tenant: Tenant) -> Properties:
        """From the cache, or by a dry run of the workload."""
        key = tenant.workload.model_dump_json()
        if key not in self._properties:
            spec = self._device.spec(tenant.workload)
            self._properties[key] = workloads.find(spec.name).properties(spec)
        return self._properties[key]

    def memory_bytes(self, tenant: Tenant) -> int:
        """Estimated memory of the tenant's model; 0 where that is unknown."""
        return self.properties(tenant).peak_memory_bytes or 0
