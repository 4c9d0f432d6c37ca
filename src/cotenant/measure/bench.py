"""Carries out trials, with tenants on a real device or a model of one. The runner treats both alike."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cotenant.devices.protocol import Device
from cotenant.measure.properties import PropertyCache
from cotenant.study.preconditions import Before
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords

WARM_S = (0.25, 2.0)
"""A new tenant serves at least and at most this long before its first trial."""


class Bench(Protocol):
    """A device prepared for trials."""

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Do in advance what these trials need. Raises TenantFailed if a tenant can't be built."""
        ...

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """Carry out one trial; tenant failures are recorded, never raised."""
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


def bench_for(device: Device, *, run: str, before: Before | None = None, warm_s: tuple[float, float] = WARM_S) -> Bench:
    """The bench for a device: tenants on a real one, a model for a simulated one.

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
        from cotenant.measure.simulated.fleet import SimulatedFleetBench

        return SimulatedFleetBench(device, run=run, before=before)
    from cotenant.measure.simulated.bench import SimulatedBench

    return SimulatedBench(device.simulation(), run=run)
