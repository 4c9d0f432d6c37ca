"""Predictions for planning on simulated GPUs: a closed form for all mixes, the event engine for those that decide.

Items are served in batches as large as the plan says: a batch is due when its last item is there. A generating tenant
has as many places as its batch instead, and a sequence takes the first that is free. The closed form takes the solo
times of the simulation, stretches them by what neighbours hold of the device, and adds the wait of a queue. The engine
runs the kernels of all tenants against each other under seeded arrivals; of a generating tenant it says how much its
neighbours slow it down, and the closed form the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cotenant.planning.mixes.evidence import NOTHING, Corrections
from cotenant.planning.mixes.predictor import Mixes, Predicted, Range
from cotenant.planning.mixes.tenants import Objective, ServingTenant
from cotenant.planning.solver.problem import Bools, Floats, Ints

if TYPE_CHECKING:
    from cotenant.devices.simulated.device import SimulatedGpu
    from cotenant.planning.tenants_file import PlannedEntry
    from cotenant.prediction.sharing.layout import Part
    from cotenant.prediction.sharing.simulate import Player
    from cotenant.prediction.sharing.trace import Trace

WHOLE = -1.0
SWITCHING = 1.11
"""What taking turns costs beside the others' time: the driver's interruptions, 11 % of a slice."""
SERVICE_CV2 = 0.1
"""Squared variation of service times beside neighbours, for the closed form's queue; the engine computes its own."""
NOT_VALIDATED = 0.5
"""Mean error that is assumed of a way to share that nothing was compared with."""
ENGINE_DISAGREES = 0.15
"""Half-width for the closed form against the engine, beside the simulation's own error."""
CLOSED = "simulated (closed form)"
ENGINE = "simulated (event engine)"
LEAST_REQUESTS, LONGEST_S, SHORTEST_S = 400, 120.0, 4.0
_TEMPERATURE_C = 60.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A batch of one tenant alone on a part of a GPU."""

    alone_ms: float
    first_ms: float
    """Until its first output; all of it where there is none before the end."""
    step_ms: float
    """Per output after the first; 0: there is one only."""
    device_ms: float
    """Its kernels behind each other."""
    holds: float
    """Share of the GPU's SMs while they run."""
    moves: float
    """Share of its bandwidth while they run."""
    memory_bytes: float
    outputs: int
    """Per request; 1: it doesn't generate."""


class Simulation:
    """Profiles of all tenants on all kinds of simulated GPUs, found when they are asked for."""

    def __init__(
        self,
        tenants: Sequence[ServingTenant],
        entries: Mapping[str, "PlannedEntry"],
        gpus: Mapping[str, "SimulatedGpu"],
        *,
        risk: float,
    ) -> None:
        self.tenants, self.gpus, self.risk = tenants, gpus, risk
        self._entries = [entries[tenant.name] for tenant in tenants]
        self._profiles: dict[tuple[str, int, int, str, float], Profile] = {}
        self.scale: Floats = np.ones(len(tenants))
        """By tenant: measured time alone over the simulated one."""
        self.objectives = max((len(tenant.objectives) for tenant in tenants), default=1) or 1

    def profile(self, device: str, tenant: int, batch: int, sharing: str, share: float) -> Profile:
        """One of them; the share is a percentage of SMs, a number of a MIG profile, or NaN."""
        key = (device, tenant, batch, sharing if np.isfinite(share) else "", share if np.isfinite(share) else WHOLE)
        if key not in self._profiles:
            self._profiles[key] = self._found(device, tenant, batch, sharing, share)
        return self._profiles[key]

    def forget(self) -> None:
        """Find profiles anew; the scale has changed."""
        self._profiles.clear()

    def trace(self, device: str, tenant: int, batch: int, part: "Part") -> "tuple[Trace, int, int]":
        """For the engine: the trace, the kernel of the first output, and how many outputs there are."""
        gpu, entry = self.gpus[device], self._entries[tenant]
        request = gpu.request(gpu.spec(entry.at_batch(batch)))
        outputs = sum(stage == "decode" for stage in request.stages) + 1
        trace = gpu.trace(request, part, gpu.controls({}))
        scale = float(self.scale[tenant])
        if scale != 1:
            trace = replace(trace.slowed(scale), launch_ns=trace.launch_ns * scale)
        return trace, request.first_output, outputs

    def part(self, device: str, sharing: str, share: float, domain: int = 0) -> "Part":
        """The part of a GPU that a seat has."""
        from cotenant.prediction.sharing.layout import Part

        gpu = self.gpus[device].gpu
        if not np.isfinite(share):
            return Part(gpu.sms, 0, gpu.sms, gpu.memory_bytes)
        if sharing == "mig":
            assert gpu.mig is not None
            name = list(gpu.mig.profiles)[int(share)]
            one = gpu.mig.profiles[name]
            size = int(one.memory_gib * 2**30)
            dram = one.memory_slices / gpu.mig.memory_slices
            return Part(one.sms, domain, one.sms, size, dram_domain=domain, dram_share=dram, label=name)
        return Part(max(1, int(gpu.sms * share / 100)), 0, gpu.sms, gpu.memory_bytes)

    def law_half_width(self) -> float:
        """Of what the closed form's queue says where times are measured."""
        return self._half(ENGINE_DISAGREES)

    def _half(self, mean_error: float) -> float:
        from scipy.special import ndtri

        return mean_error * float(np.sqrt(np.pi / 2)) * float(ndtri(1 - self.risk))

    def half_width(self, sharing: str, *, closed: bool) -> float:
        """Of an interval that is exceeded as often as the risk says, from the simulation's validated errors."""
        from cotenant.prediction.trust import classes

        way = "mps" if sharing == "streams" else sharing
        errors = []
        for wanted in (("alone", "time"), (way, "slowdown")):
            seen = [error.mean_error for (kind, of), error in classes().items() if (kind.sharing, of) == wanted]
            errors.append(sum(seen) / len(seen) if seen else NOT_VALIDATED)
        return self._half(float(np.hypot.reduce([*errors, ENGINE_DISAGREES if closed else 0.0])))

    def power_w(self, device: str, busy: float, bandwidth: float) -> float:
        """On average, at its boost clock."""
        from cotenant.prediction.power.draw import Activity, leakage_w, power_curve

        gpu = self.gpus[device].gpu
        curve = power_curve(gpu, Activity(min(busy, 1.0), min(bandwidth, 1.0)))
        leaking = float(leakage_w(gpu, np.array(_TEMPERATURE_C)))
        return float(min(curve.board_w + curve.dynamic_w[-1] + leaking, gpu.power.limit_w))

    def _found(self, device: str, tenant: int, batch: int, sharing: str, share: float) -> Profile:
        gpu, entry = self.gpus[device], self._entries[tenant]
        part = self.part(device, sharing, share)
        trace, first, outputs = self.trace(device, tenant, batch, part)
        alone = _alone_ns(trace, trace.duration_ns.size) + trace.before_ns + trace.after_ns
        until = alone if first < 0 else _alone_ns(trace, first + 1) + trace.before_ns
        working = trace.duration_ns.sum()
        whole = part.domain_sms / gpu.gpu.sms
        return Profile(
            alone_ms=alone / 1e6,
            first_ms=until / 1e6,
            step_ms=(alone - until) / max(outputs - 1, 1) / 1e6 if first >= 0 else 0.0,
            device_ms=working / 1e6,
            holds=float((trace.occupancy * trace.duration_ns).sum() / working) * whole,
            moves=float((trace.dram * trace.duration_ns).sum() / working) * part.dram_share,
            memory_bytes=float(gpu.memory_bytes(gpu.spec(entry.at_batch(batch)))),
            outputs=outputs if first >= 0 else 1,
        )


def _alone_ns(trace: "Trace", kernels: int) -> float:
    """From the first launch to the end of the last of the first kernels."""
    launched = np.cumsum(trace.launch_ns[:kernels])
    behind = np.cumsum(trace.duration_ns[:kernels][::-1])[::-1]
    return float(np.max(launched + behind))


class ClosedForm:
    """Answers for arrays of mixes."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.corrections: Corrections = NOTHING

    def __call__(self, mixes: Mixes, /) -> Predicted:
        """What would happen."""
        seats = _Seats.of(self.simulation, mixes)
        slowdown = _slowdown(mixes.sharing, seats.use, seats.holds, seats.moves)
        taken = seats.use * (1.0 if mixes.sharing == "processes" else seats.holds)
        busy, bandwidth = taken.sum(axis=1), (seats.use * seats.moves).sum(axis=1)
        wide = self.simulation.half_width(mixes.sharing, closed=True)
        slowdown, halves, measured = self.corrections.apply(
            mixes, slowdown, wide, least=self.simulation.law_half_width()
        )
        half = halves[:, None]
        ends = [self.latency(mixes, seats, slowdown * factor) for factor in (1 / (1 + half), 1.0, 1 + half)]
        spread = 1 + half * (mixes.there.sum(axis=1, keepdims=True) > 1)
        # A tenant on a part of the device is slower than on the whole of it, neighbours or not.
        over_whole = slowdown * seats.alone / seats.whole
        stretched = Range(np.maximum(over_whole / spread, 1.0), over_whole, over_whole * spread)
        watts = [self.simulation.power_w(mixes.device, *pair) for pair in zip(busy, bandwidth, strict=True)]
        memory = np.where(mixes.there, seats.memory, 0.0)
        basis = tuple(one or CLOSED for one in measured)
        return Predicted(Range(*ends), stretched, memory, busy, bandwidth, np.array(watts), basis)

    def latency(self, mixes: Mixes, seats: "_Seats", slowdown: Floats) -> Floats:
        """Quantiles by objective."""
        result = np.zeros((*mixes.tenants.shape, self.simulation.objectives))
        for number, tenant in enumerate(self.simulation.tenants):
            mine = mixes.tenants == number
            if not mine.any():
                continue
            one = seats.only(mine)
            asked = _Asked(mixes.rate_rps[mine] / 1e3, mixes.batch[mine], slowdown[mine], tenant.cv)
            law = _generating if one.outputs.max() > 1 else _in_batches
            for place, objective in enumerate(tenant.objectives or (_ANY,)):
                result[mine, place] = law(one, asked, objective)
        return result


_ANY = Objective("latency", 0.5, np.inf)


class _Asked(NamedTuple):
    """What a tenant's seats are asked to do: items per ms, in which batches, how much slower than alone, how bursty."""

    rate: Floats
    batch: Ints
    slowdown: Floats
    cv: float


@dataclass(frozen=True, slots=True)
class _Seats:
    """Profiles of all seats of some mixes, in the mixes' shape."""

    alone: Floats
    first: Floats
    step: Floats
    device: Floats
    holds: Floats
    moves: Floats
    memory: Floats
    outputs: Floats
    whole: Floats
    """Alone on the whole device."""
    use: Floats
    """Share of time with kernels on the device."""

    @classmethod
    def of(cls, simulation: Simulation, mixes: Mixes) -> "_Seats":
        shares = np.where(np.isnan(mixes.share), WHOLE, mixes.share)
        keys = np.stack([mixes.tenants, mixes.batch, shares], axis=-1).reshape(-1, 3).astype(float)
        needed, index = np.unique(keys, axis=0, return_inverse=True)
        rows = []
        for tenant, batch, share in needed:
            if tenant < 0:
                rows.append([1.0, 1.0, *[0.0] * 5, 1.0, 1.0])
                continue
            held = float("nan") if share == WHOLE else float(share)
            one = simulation.profile(mixes.device, int(tenant), int(batch), mixes.sharing, held)
            first = one.first_ms
            if one.outputs > 1 and batch > 1:  # a sequence joins alone, whatever else runs
                first = simulation.profile(mixes.device, int(tenant), 1, mixes.sharing, held).first_ms
            whole = one.alone_ms
            if share != WHOLE:
                whole = simulation.profile(mixes.device, int(tenant), int(batch), "", float("nan")).alone_ms
            times = [one.alone_ms, first, one.step_ms, one.device_ms]
            rows.append([*times, one.holds, one.moves, one.memory_bytes, one.outputs, whole])
        columns = np.array(rows)[index.reshape(mixes.tenants.shape)]
        alone, first, step, device, holds, moves, memory, outputs, whole = np.moveaxis(columns, -1, 0)
        rate = mixes.rate_rps / 1e3
        together = np.clip(rate * (first + (outputs - 1) * step), 1.0, mixes.batch)
        needs = np.where(outputs > 1, first + (outputs - 1) * step / together, alone / mixes.batch)
        asked = np.where(mixes.rate_rps > 0, np.minimum(rate * needs, 1.5), 1.0)  # a job never rests
        use = np.where(mixes.there, asked * device / alone, 0.0)
        return cls(alone, first, step, device, holds, moves, memory, outputs, whole, use)

    def only(self, mine: Bools) -> "_Seats":
        return _Seats(*(getattr(self, name)[mine] for name in _Seats.__slots__))


def _in_batches(seats: _Seats, asked: _Asked, objective: Objective) -> Floats:
    """A batch fills, waits for the one before it, and is served."""
    rate, batch, slowdown, cv = asked
    service = seats.alone * slowdown
    load = rate / batch * service
    gather = np.where(rate > 0, (batch - 1) / np.maximum(rate, 1e-12), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        waiting = np.where(load < 1, service * (cv**2 / batch + SERVICE_CV2) / 2 / (1 - load), np.inf)
    tail = np.log(np.maximum(load / (1 - objective.quantile), 1.0))
    queued = np.where(load < 1, np.where(tail > 0, waiting, 0.0) * tail, np.inf)
    return np.asarray(gather + service + queued)


def _generating(seats: _Seats, asked: _Asked, objective: Objective) -> Floats:
    """A sequence waits for a place, its prompt is read between two steps of the others, and then it takes its steps.

    The wait is that of a queue with as many servers as places (Erlang's formula, stretched by the burstiness).
    """
    rate, batch, slowdown, cv = asked
    prompt = seats.first * slowdown
    left = 1 - rate * prompt
    step = np.where(left > 0, seats.step * slowdown / np.maximum(left, 1e-9), np.inf)
    if objective.metric == "tpot":
        return step
    lasts = prompt + (seats.outputs - 1) * step
    active = rate * lasts
    waits = _erlang(active, batch)
    tail = np.log(np.maximum(waits / (1 - objective.quantile), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        queued = np.where(tail > 0, lasts * (1 + cv**2) / 2 / (batch - active) * tail, 0.0)
    queued = np.where(active < batch, queued, np.inf)
    begun = queued + prompt + step
    return np.asarray(begun if objective.metric == "ttft" else begun + (seats.outputs - 1) * step)


def _erlang(active: Floats, places: Ints) -> Floats:
    """Probability that all places are taken."""
    result = np.ones_like(active)
    for count in np.unique(places):
        mine = (places == count) & (active < count)
        blocked = np.ones(int(mine.sum()))
        for place in range(1, int(count) + 1):
            blocked = active[mine] * blocked / (place + active[mine] * blocked)
        share = active[mine] / count
        result[mine] = blocked / (1 - share + share * blocked)
    return result


def _slowdown(sharing: str, use: Floats, holds: Floats, moves: Floats) -> Floats:
    """Time beside the others over time alone."""
    if sharing == "mig" or use.shape[1] == 1:
        return np.ones_like(use)
    if sharing == "processes":
        others = use.sum(axis=1, keepdims=True) - use
        crowded = (use > 0).sum(axis=1, keepdims=True) > 1
        left = 1 - np.minimum(others * np.where(crowded, SWITCHING, 1.0), 0.99)
        return np.asarray(1 / left)
    slowdown = np.ones_like(use)
    own, other = np.maximum(holds[:, :, None], 1e-9), holds[:, None, :]
    of_sms = np.clip((own + other - 1) / own, 0.0, 1.0)
    even = np.maximum(1 - moves[:, None, :], 0.5)
    of_dram = 1 - np.minimum(even / np.maximum(moves[:, :, None], 1e-9), 1.0)
    conflict = np.maximum(of_sms, of_dram) * (1 - np.eye(use.shape[1]))[None]
    for _ in range(4):
        active = np.minimum(use * slowdown, 1.0)
        slowdown = 1 + (conflict * active[:, None, :]).sum(axis=2)
    return slowdown


class Engine:
    """The event engine, mix by mix; remembers its answers."""

    def __init__(self, simulation: Simulation, rough: ClosedForm, *, seed: int = 1) -> None:
        self.simulation, self.rough, self.seed = simulation, rough, seed
        self._known: dict[tuple[object, ...], Floats] = {}

    def __call__(self, mixes: Mixes, /) -> Predicted:
        """What would happen: latencies by the engine, the rest as the closed form has it."""
        rough = self.rough(mixes)
        half = self.simulation.half_width(mixes.sharing, closed=False)
        estimate = np.stack([self._quantiles(mixes, row) for row in range(len(mixes.tenants))])
        latency = Range(estimate / (1 + half), estimate, estimate * (1 + half))
        measured = np.array(
            [not one.startswith(CLOSED) for one in rough.basis]
        )  # a measurement is closer than any look
        kept = [
            np.where(measured[:, None, None], getattr(rough.latency_ms, end), getattr(latency, end))
            for end in ("lower", "estimate", "upper")
        ]
        basis = tuple(one if one != CLOSED else ENGINE for one in rough.basis)
        return replace(rough, latency_ms=Range(*kept), basis=basis)

    def _quantiles(self, mixes: Mixes, row: int) -> Floats:
        """Seats x objectives."""
        seats = [place for place in range(mixes.tenants.shape[1]) if mixes.there[row, place]]
        key = (mixes.device, mixes.sharing, tuple(
            (int(mixes.tenants[row, s]), round(float(mixes.rate_rps[row, s]), 9), int(mixes.batch[row, s]),
             str(float(mixes.share[row, s]))) for s in seats))  # fmt: skip
        if key not in self._known:
            self._known[key] = self._simulated(mixes, row, seats)
        return self._known[key]

    def _simulated(self, mixes: Mixes, row: int, seats: Sequence[int]) -> Floats:
        from cotenant.prediction.sharing.layout import TURNS
        from cotenant.prediction.sharing.simulate import simulate

        one = Mixes(
            mixes.device,
            mixes.sharing,
            mixes.tenants[row : row + 1],
            mixes.rate_rps[row : row + 1],
            mixes.batch[row : row + 1],
            mixes.share[row : row + 1],
        )
        batches = self._batches(one)
        rates = np.where(one.rate_rps > 0, one.rate_rps / batches, 0.0)[0]
        slowest = min((float(rates[seat]) for seat in seats if rates[seat] > 0), default=1.0)
        window_s = float(np.clip(LEAST_REQUESTS / slowest, SHORTEST_S, LONGEST_S))
        players = [
            self._player(one, seat, order, batch=int(batches[0, seat]), rate=float(rates[seat]), window_s=window_s)
            for order, seat in enumerate(seats)
        ]
        turns = TURNS if mixes.sharing == "processes" and len(players) > 1 else None
        outcome = simulate(players, window_end_ns=window_s * 1e9, slicing=turns, seed=self.seed)
        result = np.zeros((mixes.tenants.shape[1], self.simulation.objectives))
        slowdown = np.ones(one.tenants.shape)
        for requests, player, seat in zip(outcome.requests, players, seats, strict=True):
            due = 0 if player.arrivals_ns is None else player.arrivals_ns.size
            kept_up = requests.done.size >= 0.98 * due and requests.done.size > 0
            served = np.median(requests.done - requests.started) if kept_up else np.inf
            tenant = int(one.tenants[0, seat])
            alone = self.simulation.profile(
                one.device, tenant, int(batches[0, seat]), one.sharing, float(one.share[0, seat])
            ).alone_ms
            slowdown[0, seat] = max(float(served) / 1e6 / alone, 1.0)
            gather = (one.batch[0, seat] - 1) / max(float(one.rate_rps[0, seat]), 1e-9) * 1e3
            times = (requests.done - requests.intended) / 1e6 + gather
            for place, objective in enumerate(self.simulation.tenants[tenant].objectives):
                result[seat, place] = np.quantile(times, objective.quantile) if kept_up else np.inf
        table = _Seats.of(self.simulation, one)
        generating = table.outputs[0] > 1
        if generating.any():
            result[generating] = self.rough.latency(one, table, slowdown)[0][generating]
        return result

    def _batches(self, mixes: Mixes) -> Ints:
        """Batches as the engine runs them: of generating tenants, as many sequences as are active on average."""
        table = _Seats.of(self.simulation, mixes)
        active = mixes.rate_rps / 1e3 * (table.first + (table.outputs - 1) * table.step)
        usual = np.clip(np.round(active), 1, mixes.batch).astype(np.int64)
        return np.where(table.outputs > 1, usual, mixes.batch)

    def _player(self, mixes: Mixes, seat: int, order: int, *, batch: int, rate: float, window_s: float) -> "Player":
        from cotenant.prediction.sharing.simulate import Player
        from cotenant.tenancy.arrivals import arrivals_ns
        from cotenant.tenancy.load import Load

        tenant = int(mixes.tenants[0, seat])
        part = self.simulation.part(mixes.device, mixes.sharing, float(mixes.share[0, seat]), order)
        trace, first, _ = self.simulation.trace(mixes.device, tenant, batch, part)
        due = None
        if rate > 0:
            cv = max(self.simulation.tenants[tenant].cv / float(np.sqrt(batch)), 0.05)
            load = Load(kind="gamma", rate_rps=rate, cv=cv)
            due = arrivals_ns(load, seed=self.seed + order, horizon_s=window_s)
        return Player(
            trace,
            outstanding=0 if rate > 0 else 1,
            arrivals_ns=due,
            sm_domain=part.sm_domain,
            dram_domain=part.dram_domain,
            priority=self.simulation.tenants[tenant].priority,
            first_output=first,
        )
