"""What carries out trials: real tenants on a real device, or a model of one. The runner can't tell the difference."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cotenant.devices.protocol import Device
from cotenant.measure.properties import PropertyCache
from cotenant.study.preconditions import Before
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords

WARM_S = (0.25, 2.0)
"""A fresh tenant serves at least and at most this long before its first trial."""


class Bench(Protocol):
    """A device made ready for trials."""

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Do ahead of time what these trials need. Raises TenantFailed if a tenant can't be built."""
        ...

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """One trial; whatever happens to its tenants is recorded, never raised."""
        ...

    def carry_out_some(
        self, trials: Sequence[Trial], *, session: int, rates: Mapping[str, float]
    ) -> tuple[TrialRecords, ...]:
        """As many of these trials, the first among them, as are best carried out without a pause in between."""
        ...

    def request_times(self, trials: Sequence[Trial]) -> Mapping[str, float]:
        """Seconds of a request alone by the study's tenant, as far as `prepare` has shown them."""
        ...

    def refresh(self) -> None:
        """The next trials get fresh tenants."""
        ...

    def pause(self, seconds: float) -> None:
        """Let time go by between blocks: a simulated device's own, for a real one the world's."""
        ...

    def close(self) -> None:
        """End in order."""
        ...

    def kill(self) -> None:
        """End at once."""
        ...


def bench_for(device: Device, *, run: str, before: Before | None = None, warm_s: tuple[float, float] = WARM_S) -> Bench:
    """The bench for a device: tenants on a real one, or a model of a simulated one.

    Args:
        device: Where trials are carried out.
        run: The run that they belong to.
        before: What the study asks of the device before each trial.
        warm_s: How long a fresh tenant serves before its first trial, at least and at most.
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
