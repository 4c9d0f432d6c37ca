"""Carries out trials on a simulated GPU: the same records as a real device leaves, computed instead of measured."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from cotenant.devices.simulated.device import ACTIVITY_PERIOD_S, Controls, SimulatedGpu
from cotenant.devices.simulated.request import Request
from cotenant.devices.simulated.sharing import Part, SimulatedArrangement
from cotenant.devices.simulated.simulate import Outcome, Player, Requests, simulate
from cotenant.load.schedule import arrivals_ns
from cotenant.load.spec import Load
from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.gather import RequestColumns, SeatOutcome, Timing, with_unserved
from cotenant.measure.messages import SeatReady, SeatResult
from cotenant.measure.provenance import now_utc
from cotenant.measure.sampler import Samples
from cotenant.measure.seat_run import resolve
from cotenant.measure.simulated_samples import samples_of, settled_clock_mhz
from cotenant.records import MISSING_NS, Int64s, TrialRecords
from cotenant.study.expand import arrival_seed
from cotenant.tenancy import Tenant, Trial

NS = 1_000_000_000
HOST_SPREAD = 0.02
"""Relative spread of the host's part of a request; an estimate, so that tenants don't run in step."""
PATIENCE_WINDOWS = 1.0
"""After the window, requests that were due in it may take this many windows more."""


@dataclass(frozen=True, slots=True)
class _Seat:
    """One tenant, made ready."""

    tenant: Tenant
    request: Request
    part: Part
    load: Load
    offsets_ns: Int64s | None


@dataclass(frozen=True, slots=True)
class _Scene:
    """One trial, made ready."""

    seats: tuple[_Seat, ...]
    arrangement: SimulatedArrangement
    controls: Controls
    timing: Timing
    seed: int


class SimulatedBench:
    """A simulated GPU made ready for trials."""

    def __init__(self, device: SimulatedGpu, *, run: str) -> None:
        self._device, self._run = device, run
        self._coming: list[Trial] = []
        self._ahead: tuple[Trial, _Scene, Future[Outcome]] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="simulation")

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Describe every workload once. Raises WorkloadError where one can't be known before it runs."""
        self._coming = list(trials)
        for trial in trials:
            fusion = self._device.controls(trial.settings).fusion
            for tenant in trial.tenants:
                self._device.request(tenant.workload, fusion)

    def refresh(self) -> None:
        """Nothing to make fresh: nothing ages."""

    def close(self) -> None:
        """End the thread that simulates ahead."""
        self._worker.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """The same without waiting."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def carry_out(self, trial: Trial, *, session: int, rates: Mapping[str, float]) -> TrialRecords:
        """One trial; a mix that doesn't fit is recorded, never raised."""
        device, started_utc = self._device, now_utc()
        scene, fates, simulated = self._begun(trial, rates)
        self._begin_next(trial, rates)
        if simulated is None:
            outcomes, samples = [_unserved(seat, fates) for seat in scene.seats], Samples({}, ())
        else:
            outcome = simulated.result()
            outcomes = [
                _outcome(device, seat, requests, scene)
                for seat, requests in zip(scene.seats, outcome.requests, strict=True)
            ]
            samples = samples_of(device, outcome, scene.controls.limits)
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
                timing=scene.timing,
                samples=samples,
                sharing_violations=(),
                control_violations=(),
            ),
        )

    def _begun(
        self, trial: Trial, rates: Mapping[str, float]
    ) -> tuple[_Scene, Mapping[str, str], Future[Outcome] | None]:
        """The trial on its way, or who ran out of memory."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == trial:
            return ahead[1], {}, ahead[2]
        scene = self._scene(trial, rates)
        fates = self._shortages(scene)
        return scene, fates, None if fates else self._worker.submit(self._simulated, scene)

    def _begin_next(self, trial: Trial, rates: Mapping[str, float]) -> None:
        """While one trial's records are written, the next one is already simulated: compiled code needs no lock."""
        if trial not in self._coming:
            return
        following = self._coming.index(trial) + 1
        if following < len(self._coming):
            coming = self._coming[following]
            scene, fates, simulated = self._begun(coming, rates)
            self._ahead = None if fates or simulated is None else (coming, scene, simulated)

    def _scene(self, trial: Trial, rates: Mapping[str, float]) -> _Scene:
        arrangement = self._device.arrange(trial.sharing, trial.tenants)
        controls, timing = self._device.controls(trial.settings), _timing(trial)
        seats = []
        for tenant, part in zip(trial.tenants, arrangement.parts, strict=True):
            load = resolve(tenant.load, rates.get(tenant.of))
            offsets = None
            if load.open:
                offsets = arrivals_ns(load, seed=arrival_seed(trial, tenant), horizon_s=timing.deadline_ns / NS)
            seats.append(_Seat(tenant, self._device.request(tenant.workload, controls.fusion), part, load, offsets))
        return _Scene(tuple(seats), arrangement, controls, timing, trial.seed)

    def _shortages(self, scene: _Scene) -> Mapping[str, str]:
        """Who runs out of memory: tenants come one after the other, and take what they need where they are."""
        left = {seat.part.dram_domain: seat.part.memory_bytes for seat in scene.seats}
        fates = {}
        for seat in scene.seats:
            needed = self._device.memory_bytes(seat.request.spec)
            place = seat.part.dram_domain
            if needed > left[place]:
                where = f"its {seat.part.label} instance" if scene.arrangement.mode == "mig" else self._device.name
                fates[seat.tenant.name] = (
                    f"ran out of memory: it needs {needed / 2**30:.1f} GiB, and {left[place] / 2**30:.1f} of "
                    f"{seat.part.memory_bytes / 2**30:.1f} GiB of {where} were left"
                )
            else:
                left[place] -= needed
        return fates

    def _simulated(self, scene: _Scene) -> Outcome:
        outcome = self._at_clock(scene, None)
        clock = settled_clock_mhz(self._device, outcome, scene.controls.limits)
        return outcome if clock is None else self._at_clock(scene, clock)

    def _at_clock(self, scene: _Scene, clock_mhz: float | None) -> Outcome:
        players = [
            Player(
                self._device.trace(seat.request, seat.part, scene.controls, clock_mhz=clock_mhz),
                outstanding=0 if seat.load.open else seat.load.outstanding,
                arrivals_ns=seat.offsets_ns,
                sm_domain=seat.part.sm_domain,
                dram_domain=seat.part.dram_domain,
                sm_part=seat.part.domain_sms / self._device.gpu.sms,
                dram_part=seat.part.dram_share,
                shared_host=scene.arrangement.shared_host and len(scene.seats) > 1,
                priority=seat.tenant.priority,
                first_output=seat.request.first_output,
            )
            for seat in scene.seats
        ]
        return simulate(
            players,
            window_end_ns=float(scene.timing.window_end_ns),
            deadline_ns=float(scene.timing.deadline_ns),
            slicing=scene.arrangement.slicing,
            host_spread=HOST_SPREAD,
            seed=scene.seed,
            period_ns=ACTIVITY_PERIOD_S * NS,
        )


def _timing(trial: Trial) -> Timing:
    """The simulated clock begins at zero, so that the same trial leaves the same records."""
    window_start = int(trial.lead_s * NS)
    window_end = window_start + int(trial.window_s * NS)
    return Timing(0, window_start, window_end, window_end + int(max(1.0, PATIENCE_WINDOWS * trial.window_s) * NS))


def _outcome(device: SimulatedGpu, seat: _Seat, requests: Requests, scene: _Scene) -> SeatOutcome:
    controls, timing = scene.controls, scene.timing
    columns = _columns(seat.request, requests)
    if seat.offsets_ns is not None:
        columns = with_unserved(columns, seat.offsets_ns, timing.window_end_ns)
    spec, observed = seat.request.spec, _observed(seat.part)
    in_window = (requests.intended >= timing.window_start_ns) & (requests.intended < timing.window_end_ns)
    host_ns = float(seat.request.kernels.launches.sum()) * controls.launch_us * 1e3 * int(in_window.sum())
    memory = device.memory_bytes(spec)
    return SeatOutcome(
        tenant=seat.tenant,
        rate_rps=seat.load.rate_rps,
        properties=seat.request.properties,
        ready=SeatReady(
            pid=0,
            observed=observed,
            dtype=spec.dtype or "",
            weights="none",
            seq=spec.seq,
            facts={"simulated": True, "fusion": controls.fusion, "kernels": len(seat.request.kernels)},
            slots=seat.request.stages,
            memory_bytes=memory,
        ),
        result=SeatResult(
            index=0,
            recorded=requests.done.size,
            errors=0,
            error=None,
            out_of_memory=False,
            overflowed=False,
            stopped_early=False,
            cpu_time_ns=int(host_ns),
            switches_voluntary=0,
            switches_forced=0,
            memory_bytes=memory,
            observed=observed,
        ),
        fate=None,
        requests=columns,
    )


def _columns(request: Request, requests: Requests) -> RequestColumns:
    def whole(values: np.ndarray) -> Int64s:
        return np.asarray(np.rint(values), dtype=np.int64)

    last = int(request.slot[-1]) + 1
    used = np.unique(request.slot)
    ends = np.empty((len(request.stages), requests.done.size), np.int64)
    for stage in range(len(request.stages)):
        # A stage without kernels ends with the one before it; the very first with the host's part before the launches.
        before = used[used <= stage]
        ends[stage] = whole(requests.slot_ends[:, int(before[-1]) + 1 if before.size else 0])
    ends[-1] = whole(requests.slot_ends[:, last + 1])
    first = np.where(requests.first < 0, MISSING_NS, whole(requests.first))
    return RequestColumns(
        intended=whole(requests.intended),
        started=whole(requests.started),
        first=first,
        done=whole(requests.done),
        device=whole(requests.device),
        ok=np.ones(requests.done.size, np.int64),
        slot_ends=ends,
    )


def _unserved(seat: _Seat, fates: Mapping[str, str]) -> SeatOutcome:
    fate = fates.get(seat.tenant.name, "did not serve: the mix was never complete")
    return SeatOutcome(seat.tenant, seat.load.rate_rps, seat.request.properties, None, None, fate, None)


def _observed(part: Part) -> dict[str, object]:
    return {"simulated": True, "sms": part.sms, "dram_share": part.dram_share, "part": part.label}
