"""Carries out trials on a simulated GPU: the same records as on a real device, computed instead of measured."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import pairwise

from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice
from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.provenance import now_utc
from cotenant.measure.sampler import Samples
from cotenant.measure.simulated.model_error import Modelled, request_times
from cotenant.measure.simulated.samples import samples_of, settled_clock_mhz
from cotenant.measure.simulated.setup import TrialSetup, play, seat_outcome, set_up, shortages, unserved
from cotenant.prediction.contention.simulate import Outcome
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TrialRecords


class SimulatedBench(Modelled):
    """A simulated GPU prepared for trials."""

    def __init__(self, device: SimulatedGpuDevice, *, run: str) -> None:
        super().__init__(device, threads=1)
        self._device, self._run = device, run
        self._following: dict[int, Trial] = {}
        self._ahead: tuple[Trial, TrialSetup, Future[Outcome]] | None = None

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Describe every workload once, and note what follows what."""
        super().prepare(trials)
        self._following = {trial.number: following for trial, following in pairwise(trials)}

    def request_times(self, trials: Sequence[Trial]) -> Mapping[str, float]:
        """Seconds of a request alone by tenant, in closed form."""
        tenants = {tenant.of: tenant for trial in trials for tenant in trial.tenants}
        return request_times(
            self._device,
            {name: tenant.workload for name, tenant in tenants.items()},
            {name: tenant.load.outstanding for name, tenant in tenants.items()},
        )

    def pause(self, seconds: float) -> None:
        """A no-op: nothing changes with time."""

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """Carry out one trial; a mix that doesn't fit is recorded, never raised."""
        device, started_utc = self._device, now_utc()
        setup, fates, simulated = self._begun(trial, rates)
        self._begin_next(trial, rates)
        if simulated is None:
            outcomes, samples = [unserved(seat, fates) for seat in setup.seats], Samples({}, ())
        else:
            outcome = simulated.result()
            outcomes = [
                seat_outcome(device, seat, requests, setup)
                for seat, requests in zip(setup.seats, outcome.requests, strict=True)
            ]
            samples = samples_of(device, outcome, setup.controls.limits)
        return assemble(
            trial,
            outcomes,
            Circumstances(
                run=self._run,
                session=session,
                device=device.name,
                simulated=True,
                cores=1,
                started_utc=started_utc,
                timing=setup.timing,
                samples=samples,
                sharing_violations=(),
                control_violations=(),
            ),
        )

    def _begun(
        self, trial: Trial, rates: Mapping[str, float]
    ) -> tuple[TrialSetup, Mapping[str, str], Future[Outcome] | None]:
        """The trial in progress, or the tenants that ran out of memory."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == trial:
            return ahead[1], {}, ahead[2]
        setup = set_up(self._device, trial, rates)
        fates = shortages(self._device, setup)
        return setup, fates, None if fates else self._workers.submit(self._simulated, setup)

    def _begin_next(self, trial: Trial, rates: Mapping[str, float]) -> None:
        """While one trial's records are written, the next is already simulated: compiled code needs no lock."""
        coming = self._following.get(trial.number)
        if coming is not None:
            setup, fates, simulated = self._begun(coming, rates)
            self._ahead = None if fates or simulated is None else (coming, setup, simulated)

    def _simulated(self, setup: TrialSetup) -> Outcome:
        outcome = play(self._device, setup, None)
        clock = settled_clock_mhz(self._device, outcome, setup.controls.limits)
        return outcome if clock is None else play(self._device, setup, clock)
