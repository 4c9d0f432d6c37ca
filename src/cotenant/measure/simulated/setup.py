"""A trial on a simulated GPU: set up, simulated, and turned into the records real tenants leave."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.devices.simulated import ACTIVITY_PERIOD_S, SimulatedGpuDevice
from cotenant.measure.gather import MODEL_ERROR, RequestColumns, SeatOutcome, Timing, queued, with_unserved
from cotenant.measure.simulated.model_error import model_error
from cotenant.measure.tenants.messages import SeatReady, SeatResult
from cotenant.measure.tenants.seat_run import resolve
from cotenant.prediction.contention import Layout, Outcome, Part, Player, Requests, Steps, plain_trace, simulate
from cotenant.prediction.engines import EngineLoad, StepShape
from cotenant.prediction.interference import core_slowdowns
from cotenant.prediction.kernels import RequestKernels
from cotenant.prediction.simulated_gpu import Controls
from cotenant.study.expand import arrival_seed
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import MISSING_NS, Int64s
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import SCHEDULED
from cotenant.workloads.protocol import in_batches

NS = 1_000_000_000
HOST_SPREAD = 0.02
"""Relative spread of the host's part of a request; an estimate, so that tenants don't run in lockstep."""
ENGINE_MEMORY = 0.9
"""Share of the memory that an engine takes at most."""
PATIENCE_WINDOWS = 1.0
"""Requests due in the window may take this many windows more."""


@dataclass(frozen=True, slots=True)
class SimulatedTenant:
    """One tenant, prepared."""

    tenant: Tenant
    request: RequestKernels
    part: Part
    load: Load
    offsets_ns: Int64s | None


@dataclass(frozen=True, slots=True)
class TrialSetup:
    """One trial, prepared."""

    seats: tuple[SimulatedTenant, ...]
    layout: Layout
    controls: Controls
    timing: Timing
    seed: int
    sharing: Sharing


def set_up(device: SimulatedGpuDevice, trial: Trial, rates: Mapping[str, float]) -> TrialSetup:
    """Place the tenants on this GPU and schedule their requests."""
    layout = device.arrange(trial.sharing, trial.tenants).layout
    controls, timing = device.controls(trial.settings), timing_of(trial)
    seats = []
    for tenant, part in zip(trial.tenants, layout.parts, strict=True):
        load = resolve(tenant.load, rates.get(tenant.of))
        offsets = None
        if load.open:
            offsets = arrivals_ns(load, seed=arrival_seed(trial, tenant), horizon_s=timing.deadline_ns / NS)
        seats.append(SimulatedTenant(tenant, device.request(tenant.workload), part, load, offsets))
    return TrialSetup(tuple(seats), layout, controls, timing, trial.seed, trial.sharing)


def shortages(device: SimulatedGpuDevice, setup: TrialSetup) -> Mapping[str, str]:
    """Tenants that run out of memory: they allocate in turn in their parts."""
    left = {seat.part.dram_domain: seat.part.memory_bytes for seat in setup.seats}
    fates = {}
    for seat in setup.seats:
        needed = device.memory_bytes(seat.request.spec)
        place = seat.part.dram_domain
        if needed > left[place]:
            where = f"its {seat.part.label} instance" if setup.layout.mode == "mig" else device.name
            fates[seat.tenant.name] = (
                f"ran out of memory: it needs {needed / 2**30:.1f} GiB, but {left[place] / 2**30:.1f} of "
                f"{seat.part.memory_bytes / 2**30:.1f} GiB of {where} were left"
            )
        else:
            left[place] -= needed
    return fates


def play(device: SimulatedGpuDevice, setup: TrialSetup, clock_mhz: float | None) -> Outcome:
    """Simulate it at a clock; None for the clock that costs assume."""
    if setup.sharing.mode == SCHEDULED:
        from cotenant.measure.simulated.in_turns import play_in_turns

        return play_in_turns(device, setup, clock_mhz)
    slower = _host_slowdowns(device, setup)
    return simulate(
        [_player(device, seat, setup, clock_mhz, host) for seat, host in zip(setup.seats, slower, strict=True)],
        window_end_ns=float(setup.timing.window_end_ns),
        deadline_ns=float(setup.timing.deadline_ns),
        slicing=setup.layout.slicing,
        host_spread=HOST_SPREAD,
        seed=setup.seed,
        period_ns=ACTIVITY_PERIOD_S * NS,
    )


def _host_slowdowns(device: SimulatedGpuDevice, setup: TrialSetup) -> list[float]:
    """How much longer the tenants' host work takes, because together they want more cores than the host has."""
    cores = setup.controls.host_cores
    if cores is None:
        return [1.0] * len(setup.seats)
    wanted = np.array([[_cores_wanted(device, seat, setup.controls) / cores for seat in setup.seats]])
    return [float(slowdown) for slowdown in core_slowdowns(wanted, wanted > 0)[0]]


def _cores_wanted(device: SimulatedGpuDevice, seat: SimulatedTenant, controls: Controls) -> float:
    """Share of the time in which its thread works on the host; waiting for the device wants no core."""
    spec, requests = seat.request.spec, float(seat.load.outstanding)
    if device.served(spec):
        if seat.load.rate_rps:
            requests = seat.load.rate_rps * device.request_s(spec, controls=controls)
        running = round(min(max(requests, 1.0), spec.at_once or requests))
        trace = device.engine_step(
            spec, seat.part, StepShape(running, running * float(spec.seq or 1)), controls=controls
        )
    else:
        trace = device.trace(seat.request, seat.part, controls)
        requests = seat.load.rate_rps * trace.alone_ns() / NS if seat.load.rate_rps else requests
    return min(trace.host_ns / trace.alone_ns(), 1.0) * min(requests, 1.0)


def _player(
    device: SimulatedGpuDevice, seat: SimulatedTenant, setup: TrialSetup, clock_mhz: float | None, host: float
) -> Player:
    steps: Steps | None = None
    spec, controls = seat.request.spec, setup.controls
    if device.served(spec):
        load = _load(seat, setup, _engine_bytes(device, seat, setup))
        steps = device.engine(spec, seat.part, load, clock_mhz=clock_mhz, controls=controls, host=host)
    elif in_batches(spec):
        load = _load(seat, setup, float(seat.part.memory_bytes))
        steps = device.batching(spec, seat.part, load, clock_mhz=clock_mhz, controls=controls, host=host)
    if steps is None:
        trace = device.trace(seat.request, seat.part, controls, clock_mhz=clock_mhz).host_slowed(host)
    else:
        trace = plain_trace(kernels=steps.most_kernels, device_ns=float(steps.most_kernels))
    return Player(
        trace,
        outstanding=0 if seat.load.open or steps is not None else seat.load.outstanding,
        arrivals_ns=None if steps is not None else seat.offsets_ns,
        sm_domain=seat.part.sm_domain,
        dram_domain=seat.part.dram_domain,
        sm_part=seat.part.domain_sms / device.gpu.sms,
        dram_part=seat.part.dram_share,
        # An engine is a process of its own, whoever launches for the others.
        shared_host=setup.layout.shared_host and len(setup.seats) > 1 and steps is None,
        priority=seat.tenant.priority,
        first_output=seat.request.first_output if steps is None else -1,
        steps=steps,
    )


def _engine_bytes(device: SimulatedGpuDevice, seat: SimulatedTenant, setup: TrialSetup) -> float:
    """Memory of an engine, whose cache gets what the others leave; several engines get equal parts of it."""
    here = [neighbour for neighbour in setup.seats if neighbour.part.dram_domain == seat.part.dram_domain]
    engines = [neighbour for neighbour in here if device.served(neighbour.request.spec)]
    needed = sum(device.memory_bytes(neighbour.request.spec) for neighbour in here)
    spare = (seat.part.memory_bytes - needed) / len(engines)
    mine = device.memory_bytes(seat.request.spec) - device.tenant_bytes + spare
    return min(mine, ENGINE_MEMORY * seat.part.memory_bytes)


def _load(seat: SimulatedTenant, setup: TrialSetup, memory_bytes: float) -> EngineLoad:
    return EngineLoad(
        window_end_ns=float(setup.timing.window_end_ns),
        memory_bytes=memory_bytes,
        arrivals_ns=seat.offsets_ns,
        in_flight=0 if seat.load.open else seat.load.outstanding,
        ramp_ns=float(setup.timing.window_start_ns),
    )


def timing_of(trial: Trial) -> Timing:
    """The simulated clock starts at zero, so that the same trial leaves the same records."""
    window_start = int(trial.lead_s * NS)
    window_end = window_start + int(trial.window_s * NS)
    return Timing(0, window_start, window_end, window_end + int(max(1.0, PATIENCE_WINDOWS * trial.window_s) * NS))


def seat_outcome(
    device: SimulatedGpuDevice, seat: SimulatedTenant, requests: Requests, setup: TrialSetup
) -> SeatOutcome:
    """The result of a tenant that served."""
    controls, timing = setup.controls, setup.timing
    columns = _columns(seat.request, requests)
    due = queued(columns, seat.load.outstanding) if seat.offsets_ns is None else seat.offsets_ns
    columns = with_unserved(columns, due, timing.window_end_ns)
    spec, observed = seat.request.spec, _observed(seat.part)
    in_window = (requests.intended >= timing.window_start_ns) & (requests.intended < timing.window_end_ns)
    host_ns = float(device.launch_ns(seat.request, controls).sum()) * int(in_window.sum())
    memory = device.memory_bytes(spec)
    others = [neighbour.tenant.priority for neighbour in setup.seats if neighbour is not seat]
    first = bool(others) and seat.tenant.priority > max(others)
    fit = device.engine_fit(spec, controls) if device.served(spec) else None
    sequences = requests.facts.get("most_sequences", 1.0) if requests.facts else 1.0
    calibrated = None if fit is None else fit.error(spec.seq or 1, sequences)
    off = model_error(device.gpu, spec, setup.sharing, controls, first=first, calibrated=calibrated)
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
            facts={
                "simulated": True,
                "software": spec.software or "eager",
                "kernels": len(seat.request.kernels),
                MODEL_ERROR: off,
                **({"engine": dict(requests.facts)} if requests.facts else {}),
            },
            slots=seat.request.stages,
            memory_bytes=memory,
        ),
        result=SeatResult(
            window=0,
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


def _columns(request: RequestKernels, requests: Requests) -> RequestColumns:
    served = np.isfinite(requests.done)  # a server refuses requests that can't be in time

    def whole(values: np.ndarray) -> Int64s:
        return np.asarray(np.rint(np.where(np.isfinite(values), values, MISSING_NS)), dtype=np.int64)

    last = int(request.slot[-1]) + 1
    used = np.unique(request.slot)
    ends = np.empty((len(request.stages), requests.done.size), np.int64)
    for stage in range(len(request.stages)):
        # A stage without kernels ends with the previous stage; the first ends with the host's part before the launches.
        before = used[used <= stage]
        ends[stage] = whole(requests.slot_ends[:, int(before[-1]) + 1 if before.size else 0])
    ends[-1] = whole(requests.slot_ends[:, last + 1])
    first = np.where(requests.first < 0, MISSING_NS, whole(requests.first))
    return RequestColumns(
        intended=whole(requests.intended),
        started=whole(requests.started),
        first=first,
        done=whole(requests.done),
        device=whole(requests.device - request.waited_ns),
        ok=served.astype(np.int64),
        slot_ends=ends,
    )


def unserved(seat: SimulatedTenant, fates: Mapping[str, str]) -> SeatOutcome:
    """The result of a tenant whose mix never ran."""
    fate = fates.get(seat.tenant.name, "did not serve: the mix was never complete")
    return SeatOutcome(seat.tenant, seat.load.rate_rps, seat.request.properties, None, None, fate, None)


def _observed(part: Part) -> dict[str, object]:
    return {"simulated": True, "sms": part.sms, "dram_share": part.dram_share, "part": part.label}
