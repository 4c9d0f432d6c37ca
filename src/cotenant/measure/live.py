"""Carries out trials on a real device: tenants are placed, started together, watched, and their records gathered."""

import os
import time
from collections.abc import Callable, Mapping, Sequence

from cotenant.devices.group import MemberProbe
from cotenant.devices.protocol import Device, Probe, SeatReport
from cotenant.errors import CotenantError, DeviceError, SharingUnavailable, TenantFailed
from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.gather import SeatOutcome, Timing
from cotenant.measure.preconditions import Preconditions
from cotenant.measure.provenance import now_utc
from cotenant.measure.sampler import Sampler, Samples
from cotenant.measure.tenants.arena import Board, shared_memory_fd
from cotenant.measure.tenants.common_start import serve_together
from cotenant.measure.tenants.fixtures import Fixtures
from cotenant.measure.tenants.host_process import HostProcess
from cotenant.measure.tenants.own_use import OwnUseProbe
from cotenant.measure.tenants.pool import Placement, TenantPool
from cotenant.measure.tenants.seat_run import open_seats
from cotenant.study.preconditions import Before
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import TrialRecords
from cotenant.workloads.protocol import Properties

NS = 1_000_000_000
START_DELAY_NS = 30_000_000
"""Between the order and the common start: enough for every host to read it."""
MEMORY_SHARE = 0.9
"""Of the free memory, for tenants: the rest is for the page cache and the runner."""


class LiveBench:
    """A device with tenant processes on it."""

    def __init__(
        self,
        device: Device,
        *,
        run: str,
        properties: Callable[[Tenant], Properties],
        memory_of: Callable[[Tenant], int],
        warm_s: tuple[float, float],
        before: Before | None = None,
    ) -> None:
        self._device, self._run, self._properties = device, run, properties
        self._board_fd = shared_memory_fd("cotenant-board")
        self._board = Board(self._board_fd)
        self._probes = list(device.probes())
        self._preconditions = Preconditions(before, device.name)
        self._preconditions.look(self._probes)  # nothing runs yet: this is how warm it is idle
        self._served: set[str] = set()
        self._pool = TenantPool(
            device.name,
            board_fd=self._board_fd,
            memory_bytes=int(device.free_memory_bytes() * MEMORY_SHARE),
            memory_of=memory_of,
            at_once=device.host_cores,
            warm_s=warm_s,
        )
        self._fixtures = Fixtures(end_tenants=self._pool.clear)

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Start the tenants of these trials ahead of time, except where a fixture wants the device for itself.

        Raises:
            TenantFailed: One can't be built.
            SharingUnavailable: What a sharing needs could not be set up.
        """
        ready = []
        for trial in trials:
            arrangement = self._device.arrange(trial.sharing, trial.tenants)
            if arrangement.fixture is None or not arrangement.fixture.alone:
                self._fixtures.set_up(arrangement.fixture)
                ready.append((arrangement.hosts, trial.tenants))
        self._pool.prefetch(ready)

    def refresh(self) -> None:
        """End all tenants: the next trials get fresh processes."""
        self._pool.clear()

    def close(self) -> None:
        """End all tenants and free what was held."""
        self._pool.close()
        self._fixtures.close()
        self._release()

    def kill(self) -> None:
        """The same at once, without goodbye."""
        self._pool.kill()
        self._fixtures.close()
        self._release()

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """One trial, whatever happens to its tenants: a failure is recorded, never raised.

        Args:
            trial: What to do.
            session: Which start of the run this is.
            rates: What each of the study's tenants can do alone, requests per second; only needed for loads that
                are given as a share of it.
        """
        started_utc = now_utc()
        used = self._device.only([tenant.member for tenant in trial.tenants])
        probes = self._probes_of(used)
        readiness = self._preconditions.wait(probes)
        others = used.foreign_processes(self._pool.pids())
        violations: tuple[str, ...] = ()
        control_violations: Sequence[str] = ()
        gone: tuple[str, ...] = ()
        try:
            with used.apply(trial.settings) as control_violations:
                outcomes, timing, samples, violations = self._arranged(used, trial, probes, rates)
        except DeviceError as error:
            # What never worked is the user's to fix. What did is a device that was lost: the others' trials go on.
            if not used.names or not self._served.issuperset(used.names):
                raise
            outcomes, timing, samples = self._unserved(trial, error)
            gone = (error.message,)
        gone = gone or used.lost()
        if not gone:
            self._served.update(used.names)
        return assemble(
            trial,
            outcomes,
            Circumstances(
                run=self._run,
                session=session,
                device=self._device.name,
                simulated=self._device.simulated,
                cores=used.host_cores,
                started_utc=started_utc,
                timing=timing,
                samples=readiness.added_to(samples, timing.start_ns),
                sharing_violations=violations,
                control_violations=tuple(control_violations),  # after leaving: some show only at the end
                identities=used.identities(),
                devices_lost=gone,
                not_ready=readiness.unmet or self._preconditions.unsteady(samples, timing),
                foreign_jobs=others,
            ),
        )

    def pause(self, seconds: float) -> None:
        """Let time go by."""
        time.sleep(seconds)

    def _probes_of(self, used: Device) -> list[Probe]:
        """Those that can be read and belong to the trial's devices."""
        mine = set(used.identities().values())
        return [probe for probe in self._probes if not isinstance(probe, MemberProbe) or probe.device in mine]

    def _arranged(
        self, used: Device, trial: Trial, probes: Sequence[Probe], rates: Mapping[str, float]
    ) -> tuple[list[SeatOutcome], Timing, Samples, tuple[str, ...]]:
        """Carry the trial out where it is laid out; with sentences for what is not shared as asked."""
        arrangement = used.arrange(trial.sharing, trial.tenants)
        try:
            self._fixtures.set_up(arrangement.fixture)
            placements = self._pool.place(arrangement.hosts, trial.tenants)
        except SharingUnavailable as refusal:
            return *self._unserved(trial, refusal), (refusal.message,)
        except TenantFailed as failure:
            return *self._unserved(trial, failure), ()
        order = [seat.tenant for plan in arrangement.hosts for seat in plan.seats]
        outcomes, timing, samples = self._serve(trial, order, placements, probes, rates)
        reports = _reports(outcomes)
        # The dead can't say where they run: that they died is enough.
        violations = arrangement.verify(reports) if len(reports) == len(outcomes) else ()
        return outcomes, timing, samples, violations

    def _serve(
        self,
        trial: Trial,
        order: Sequence[int],
        placements: Sequence[Placement],
        probes: Sequence[Probe],
        rates: Mapping[str, float],
    ) -> tuple[list[SeatOutcome], Timing, Samples]:
        found = [(place.host, seat) for place in placements for seat in place.seats]
        places = [place for _, place in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]
        timing = _timing(trial, places)
        with open_seats(trial, places, timing, rates) as seats:
            hosts = list(dict.fromkeys(seat.host for seat in seats))
            with Sampler(self._device.name, [*probes, OwnUseProbe([h.pid for h in hosts])]) as sampler:
                serve_together(seats, self._board, timing)
            outcomes = [seat.outcome(self._properties(seat.tenant), self._board, timing) for seat in seats]
        for seat in seats:
            if seat.result is None or seat.result.gave_up or seat.result.out_of_memory:
                self._pool.drop(seat.host)  # the next trial gets a fresh one
        for host in hosts:
            if host.alive:
                host.trim_log()
        samples = sampler.samples()
        self._probes = [
            probe for probe in self._probes if probe not in samples.lost_probes
        ]  # said once, not every trial
        return outcomes, timing, samples

    def _unserved(self, trial: Trial, failure: CotenantError) -> tuple[list[SeatOutcome], Timing, Samples]:
        """The outcome of a trial whose mix never stood."""
        now = time.monotonic_ns()
        outcomes = [
            SeatOutcome(tenant, None, self._properties(tenant), None, None, f"did not serve: {failure.message}", None)
            for tenant in trial.tenants
        ]
        return outcomes, Timing(now, now, now + int(trial.window_s * 1e9), now), Samples({}, ())

    def _release(self) -> None:
        self._board.close()
        os.close(self._board_fd)


def _timing(trial: Trial, places: Sequence[tuple[HostProcess, int]]) -> Timing:
    """When things happen: a common start, a lead together, the window, and time to finish what was due in it."""
    slowest_s = max(host.ready.seats[seat].request_s for host, seat in places if host.ready)
    deepest = max(tenant.load.outstanding for tenant in trial.tenants)  # what is due last has so many in front of it
    patience_s = max(1.0, trial.window_s / 2) + (2 + deepest) * slowest_s * len(places)
    start = time.monotonic_ns() + START_DELAY_NS
    window_start = start + int(trial.lead_s * NS)
    window_end = window_start + int(trial.window_s * NS)
    return Timing(start, window_start, window_end, window_end + int(patience_s * NS))


def _reports(outcomes: Sequence[SeatOutcome]) -> list[SeatReport]:
    return [
        SeatReport(o.tenant.name, o.ready.pid, o.result.observed)
        for o in outcomes
        if o.ready is not None and o.result is not None
    ]
