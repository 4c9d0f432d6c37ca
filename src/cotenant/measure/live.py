"""Carries out trials on a real device: places tenants, starts them together, watches them, gathers their records."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.devices.group import MemberProbe
from cotenant.devices.protocol import Arrangement, Device, Probe, SeatReport
from cotenant.errors import CotenantError, DeviceError, SharingUnavailable, TenantFailed
from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.gather import SeatOutcome, Timing
from cotenant.measure.preconditions import Preconditions
from cotenant.measure.provenance import now_utc
from cotenant.measure.sampler import Sampler, Samples, probes_of
from cotenant.measure.tenants.arena import Board, shared_memory_fd
from cotenant.measure.tenants.host_process import HostProcess
from cotenant.measure.tenants.messages import WindowTimes
from cotenant.measure.tenants.ordered import Ordered, OrderingServer, arranged, is_ordered, of_tenant
from cotenant.measure.tenants.own_use import OwnUseProbe, tree
from cotenant.measure.tenants.pool import TenantPool
from cotenant.measure.tenants.seat_run import Place, open_seats
from cotenant.measure.tenants.sequence import Fixtures, Window, begun, serve_sequence
from cotenant.study.model import Before
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import JUDGED_ALONE_S, TrialRecords
from cotenant.workloads.protocol import Properties

NS = 1_000_000_000
CHUNK_S = 1.5
"""Trials are carried out and committed in stretches of about this length: a killed run loses no more."""
_ANY_LOAD = Load(kind="closed")
"""In place of the tenants' own: the same server serves a mix under any load."""
MEMORY_SHARE = 0.9
"""Share of free memory for tenants: the rest is for the page cache and the runner."""


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
        self._preconditions.look(self._probes)  # nothing runs yet: this is the idle temperature
        self._served: set[str] = set()
        self._servers: dict[str, OrderingServer] = {}
        self._pool = TenantPool(
            device.name,
            board_fd=self._board_fd,
            memory_bytes=int(device.free_memory_bytes() * MEMORY_SHARE),
            memory_of=memory_of,
            process_bytes=device.tenant_bytes,
            at_once=device.host_cores,
            warm_s=warm_s,
        )
        self._fixtures = Fixtures(end_tenants=self._pool.clear)

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Start the tenants of these trials in advance, except where a fixture needs exclusive use of the device.

        Raises:
            TenantFailed: A tenant can't be built.
            SharingUnavailable: A fixture could not be set up.
        """
        ready = []
        for trial in trials:
            arrangement = self._arranged(self._device, trial)
            if arrangement.fixture is None or not arrangement.fixture.alone:
                self._fixtures.set_up(arrangement.fixture)
                ready.append((arrangement.hosts, _as_placed(trial, arrangement).tenants))
        self._pool.prefetch(ready)

    def refresh(self) -> None:
        """End all tenants: the next trials get new processes."""
        self._pool.clear()

    def close(self) -> None:
        """End all tenants and free what was held."""
        self._pool.close()
        self._fixtures.close()
        self._release()

    def kill(self) -> None:
        """End all tenants at once."""
        self._pool.kill()
        self._fixtures.close()
        self._release()

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """Carry out a trial; tenant failures are recorded, never raised.

        Args:
            trial: The trial.
            session: Number of this start of the run.
            rates: Each tenant's capacity alone, in requests per second; only needed for loads that
                are given as a share of it.
        """
        [records] = self.carry_out_some([trial], session=session, rates=rates)
        return records

    def carry_out_some(
        self, trials: Sequence[Trial], *, session: int, rates: Mapping[str, float]
    ) -> tuple[TrialRecords, ...]:
        """Carry out about a second's worth of these trials, from the first on, without a pause.

        All have the first trial's configuration, so that running tenants can switch between them.
        """
        started_utc = now_utc()
        first = trials[0]
        used = self._device.only([tenant.member for tenant in first.tenants])
        probes = self._probes_of(used)
        readiness = self._preconditions.wait(probes)
        # Listing processes takes milliseconds, and a CPU's own are seen by their use of it.
        others = () if used.kind == "cpu" else used.foreign_processes(self._pool.pids())
        control_violations: Sequence[str] = ()
        gone: tuple[str, ...] = ()
        try:
            with used.apply(first.settings) as control_violations:
                found = self._served_together(used, self._alike(used, trials), probes, rates)
        except DeviceError as error:
            # A failure at the start is the user's to fix. Later, a device was lost: the others' trials continue.
            if not used.names or not self._served.issuperset(used.names):
                raise
            found = [self._unserved(first, error)]
            gone = (error.message,)
        gone = gone or used.lost()
        if not gone:
            self._served.update(used.names)
        span = _span([part.timing for part in found])
        alone = len(found) == 1
        return tuple(
            assemble(
                part.trial,
                part.outcomes,
                Circumstances(
                    run=self._run,
                    session=session,
                    device=self._device.name,
                    simulated=self._device.simulated,
                    cores=used.host_cores,
                    started_utc=started_utc,
                    timing=part.timing,
                    samples=readiness.added_to(
                        part.samples
                        if alone
                        else part.samples.between(part.timing.start_ns, part.timing.window_end_ns),
                        part.timing.start_ns,
                    ),
                    sharing_violations=part.violations,
                    control_violations=tuple(control_violations),  # after leaving: some show only at the end
                    identities=used.identities(),
                    devices_lost=gone,
                    not_ready=readiness.unmet or self._preconditions.unsteady(part.samples, part.timing),
                    foreign_jobs=others,
                    stretch=(part.samples, span),
                ),
            )
            for part in found
        )

    def request_times(self, trials: Sequence[Trial]) -> Mapping[str, float]:
        """Seconds of a request alone by tenant, as observed during warm-up."""
        seen = self._pool.request_times()
        placed = [_as_placed(trial, self._arranged(self._device, trial)) for trial in trials]
        tenants = {tenant.of: tenant.workload.model_dump_json() for trial in placed for tenant in trial.tenants}
        return {of: seen[workload] for of, workload in tenants.items() if workload in seen}

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def _probes_of(self, used: Device) -> list[Probe]:
        """Probes that work and belong to the trial's devices."""
        mine = set(used.identities().values())
        return [probe for probe in self._probes if not isinstance(probe, MemberProbe) or probe.device in mine]

    def _alike(self, used: Device, trials: Sequence[Trial]) -> list[Trial]:
        """The leading trials that need no new setup between them."""
        if len(trials) == 1 or used.names or self._preconditions.asked:
            return [trials[0]]
        fixture = self._arranged(used, trials[0]).fixture
        alike = []
        for trial in trials:
            other = self._arranged(used, trial).fixture
            apart = other is not fixture and any(needed is not None and needed.alone for needed in (fixture, other))
            if trial.settings == trials[0].settings and not apart:
                alike.append(trial)
        ends = np.cumsum([trial.window_s + trial.lead_s for trial in alike])
        parts = max(1, round(float(ends[-1]) / CHUNK_S))  # equal lengths avoid a short remainder with its own commit
        return alike[: min(int(np.searchsorted(ends, ends[-1] / parts)) + 1, Board.WINDOWS)]

    def _served_together(
        self, used: Device, trials: Sequence[Trial], probes: Sequence[Probe], rates: Mapping[str, float]
    ) -> "list[_Served]":
        """Place as many of these trials as fit, and carry them out in sequence."""
        placed: list[tuple[Trial, Arrangement, list[Place]]] = []
        kept: list[HostProcess] = []
        by_number = {trial.number: trial for trial in trials}
        for trial in trials:
            arrangement = self._arranged(used, trial)
            try:
                self._fixtures.set_up(arrangement.fixture)
                there = _as_placed(trial, arrangement)
                placements = self._pool.place(arrangement.hosts, there.tenants, keep=kept)
            except (SharingUnavailable, TenantFailed) as failure:
                if placed:
                    break  # it will be retried, as the first
                sentence = (failure.message,) if isinstance(failure, SharingUnavailable) else ()
                return [self._unserved(trial, failure, sentence)]
            if placements is None:
                break
            order = [seat.tenant for plan in arrangement.hosts for seat in plan.seats]
            found = [(place.host, seat) for place in placements for seat in place.seats]
            places = [place for _, place in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]
            placed.append((there, arrangement, places))
            kept += [place.host for place in placements]
        served = self._serve(placed, probes, rates)
        if served:
            return [self._as_asked(part, by_number[part.trial.number]) for part in served]
        # A tenant died before its turn. When run alone, its failure is the trial's result.
        return self._served_together(used, trials[:1], probes, rates)

    def _serve(
        self,
        placed: "Sequence[tuple[Trial, Arrangement, list[Place]]]",
        probes: Sequence[Probe],
        rates: Mapping[str, float],
    ) -> "list[_Served]":
        # On a GPU the time of a request hardly depends on the host's core; long windows are few; and
        # calibration measures the instrument without it.
        blocks = [trial for trial, _, _ in placed if trial.block >= 0]
        canary = self._device.kind == "cpu" and any(trial.window_s < JUDGED_ALONE_S for trial in blocks)
        laid_out = [(trial, _times(trial, places), places) for trial, _, places in placed]
        with open_seats(laid_out, rates, canary=canary) as sequence:
            windows = [Window(trial, times, seats) for (trial, times, _), seats in zip(laid_out, sequence, strict=True)]
            hosts = list(dict.fromkeys(seat.host for window in windows for seat in window.seats))
            ordering = tree(pid for server in self._servers.values() for pid in server.pids)
            own = OwnUseProbe([*(host.pid for host in hosts), *self._pool.servers(), *ordering])
            asked = {seat.tenant.name: seat.ready.facts.get("metrics") for window in windows for seat in window.seats}
            with contextlib.ExitStack() as stack:
                servers = [stack.enter_context(probe) for probe in probes_of(asked.items())]
                sampler = stack.enter_context(Sampler(self._device.name, [*probes, own, *servers]))
                serve_sequence(windows, self._board)
            samples = sampler.samples()
            found = []
            for window in windows if len(windows) == 1 else begun(windows, self._board):
                number = window.seats[0].window
                timing = window.timing(self._board.start[number])
                outcomes = [seat.outcome(self._properties(seat.tenant), self._board, timing) for seat in window.seats]
                reports = _reports(outcomes)
                # Dead tenants can't report where they run; their death is enough.
                complete = len(reports) == len(outcomes)
                violations = placed[number][1].verify(reports) if complete else ()
                found.append(_Served(window.trial, outcomes, timing, samples, violations))
        for seat in (seat for window in windows for seat in window.seats):
            if seat.host.fate is not None or (seat.result and (seat.result.gave_up or seat.result.out_of_memory)):
                self._pool.drop(seat.host)  # the next trial gets a new host
        for host in hosts:
            if host.alive:
                host.trim_log()
        self._probes = [
            probe for probe in self._probes if probe not in samples.lost_probes
        ]  # report once, not every trial
        return found

    def _arranged(self, used: Device, trial: Trial) -> Arrangement:
        """A trial's mix on the device; where a server orders its requests, the clients of that server."""
        arrangement = arranged(used, trial.sharing, trial.tenants)
        if not is_ordered(used, trial.sharing):
            return arrangement
        mix = tuple(tenant.model_copy(update={"load": _ANY_LOAD}) for tenant in trial.tenants)
        key = "\n".join(tenant.model_dump_json() for tenant in mix)
        server = self._servers.setdefault(key, OrderingServer(used.name, mix, self._pool.mark))
        return Ordered(server, arrangement)

    def _as_asked(self, part: "_Served", trial: Trial) -> "_Served":
        """What a server's clients saw, as that of the tenants of the trial."""
        if part.trial is trial:
            return part
        outcomes = [
            replace(of_tenant(outcome, tenant), properties=self._properties(tenant))
            for outcome, tenant in zip(part.outcomes, trial.tenants, strict=True)
        ]
        return replace(part, trial=trial, outcomes=outcomes)

    def _unserved(self, trial: Trial, failure: CotenantError, violations: tuple[str, ...] = ()) -> "_Served":
        """The outcome of a trial whose mix never ran."""
        now = time.monotonic_ns()
        outcomes = [
            SeatOutcome(tenant, None, self._properties(tenant), None, None, f"did not serve: {failure.message}", None)
            for tenant in trial.tenants
        ]
        return _Served(
            trial, outcomes, Timing(now, now, now + int(trial.window_s * 1e9), now), Samples({}, ()), violations
        )

    def _release(self) -> None:
        self._board.close()
        os.close(self._board_fd)


@dataclass(frozen=True, slots=True)
class _Served:
    """A trial that was carried out."""

    trial: Trial
    outcomes: list[SeatOutcome]
    timing: Timing
    samples: Samples
    """Samples of the entire sequence it was part of."""
    violations: tuple[str, ...]


def _as_placed(trial: Trial, arrangement: Arrangement) -> Trial:
    """The trial with the tenants that are placed: clients where a server orders the requests."""
    return arrangement.server.asked(trial) if isinstance(arrangement, Ordered) else trial


def _times(trial: Trial, places: Sequence[Place]) -> WindowTimes:
    """Durations: lead, window, and time to finish requests due in it."""
    slowest_s = max(host.ready.seats[seat].request_s for host, seat in places if host.ready)
    deepest = max(tenant.load.outstanding for tenant in trial.tenants)  # the last request due has this many ahead of it
    patience_s = max(1.0, trial.window_s / 2) + (2 + deepest) * slowest_s * len(places)
    return WindowTimes(
        seats=len(places),
        lead_ns=int(trial.lead_s * NS),
        window_ns=int(trial.window_s * NS),
        patience_ns=int(patience_s * NS),
    )


def _span(timings: Sequence[Timing]) -> Timing:
    """From the first start to the last window's end."""
    start, end = timings[0].start_ns, timings[-1].window_end_ns
    return Timing(start, start if len(timings) > 1 else timings[0].window_start_ns, end, timings[-1].deadline_ns)


def _reports(outcomes: Sequence[SeatOutcome]) -> list[SeatReport]:
    return [
        SeatReport(o.tenant.name, o.ready.pid, o.result.observed)
        for o in outcomes
        if o.ready is not None and o.result is not None
    ]
