"""Predictions for planning on simulated GPUs, in closed form: fast enough for all mixes.

Requests that wait are served together, up to the planned batch; none waits for a batch to fill. A generating tenant
instead has as many slots as its batch, and a sequence takes the first free slot. The simulation's solo times are
stretched by the neighbours' use of the device, and queueing time is added.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from cotenant.planning.mixes.batching import BatchService, quantile
from cotenant.planning.mixes.corrections import NOTHING, Corrections
from cotenant.planning.mixes.predictor import Mixes, PredictedMix, Range
from cotenant.planning.predictors.errors import SimulationErrors
from cotenant.planning.predictors.profiles import WHOLE, Simulation
from cotenant.planning.predictors.scheduled import OrderedMixes, load_of, waits
from cotenant.planning.solver.problem import Bools, Floats, Ints
from cotenant.prediction.contention import ONE_THREAD, Terms, slicing_of, slowdowns
from cotenant.tenancy.objective import Objective
from cotenant.tenancy.ways import SCHEDULED

CLOSED = "simulated (closed form)"
ROOM = 1.5
"""Sequences in progress beside neighbours over those alone, for the size of an engine's cache."""
ROUNDS = 30
"""Until the number of sequences in progress and the time of a step agree."""


class ClosedForm:
    """Predictions for arrays of mixes."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.errors = SimulationErrors(simulation)
        self.corrections: Corrections = NOTHING
        self._cvs: Floats = np.array([tenant.cv for tenant in simulation.tenants])
        self._levels: Floats = np.zeros((len(simulation.tenants), simulation.objectives))
        """Quantiles of the objectives; 0 beyond a tenant's own."""
        for levels, tenant in zip(self._levels, simulation.tenants, strict=True):
            quantiles = [objective.quantile for objective in tenant.objectives or (_ANY,)]
            levels[: len(quantiles)] = quantiles
        self._due: Floats = np.zeros((len(simulation.tenants) + 1, 2))
        """When requests are due where one server orders them: in ms, and per step; the last row is an empty seat."""
        for due, tenant in zip(self._due, simulation.tenants, strict=False):
            if tenant.objectives:
                limits = {objective.metric: objective.limit_ms for objective in tenant.objectives}
                due[:] = limits.get("latency", limits.get("ttft", np.inf)), limits.get("tpot", 0.0)

    @np.errstate(invalid="ignore")  # an engine without room for a request takes for ever
    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """What would happen."""
        seats = Seats.of(self.simulation, mixes)
        slowdown = self.slowdown(mixes, seats)
        held = 1.0 if mixes.sharing == "processes" else seats.holds
        needed, busy = (seats.need * held).sum(axis=1), np.minimum((seats.use * held).sum(axis=1), 1.0)
        if mixes.sharing == SCHEDULED:  # the device waits for the host while a request is launched
            needed = load_of(self._ordered(mixes, seats, np.ones(mixes.tenants.shape)))
        busy = np.where(needed > 1, needed, busy)  # above 1: they can't keep up
        bandwidth = (seats.use * seats.moves).sum(axis=1)
        slowdown, halves, measured = self.corrections.apply(mixes, slowdown, least=self.errors.queue)
        low, high = self.errors.factors(mixes, closed=True)
        low, high = np.maximum(low, 1 / (1 + halves[:, None])), np.minimum(high, 1 + halves[:, None])
        ends = [self.latency(mixes, seats, slowdown * factor) for factor in (low, np.ones_like(low), high)]
        beside = mixes.there.sum(axis=1, keepdims=True) > 1
        # A tenant on a part of the device is slower than on all of it, even without neighbours.
        over_whole = slowdown * seats.alone / seats.whole
        least, most = (over_whole * np.where(beside, end, 1.0) for end in (low, high))
        stretched = Range(np.maximum(least, 1.0), over_whole, most)
        pairs = zip(busy, bandwidth, strict=True)
        watts = [self.simulation.power_w(mixes.device, *pair, mixes.clock_mhz) for pair in pairs]
        memory = np.where(mixes.there, seats.memory, 0.0)
        basis = tuple(source or CLOSED for source in measured)
        together = seats.together(mixes, slowdown, self.simulation)
        return PredictedMix(Range(*ends), stretched, memory, busy, bandwidth, np.array(watts), basis, together)

    def slowdown(self, mixes: Mixes, seats: "Seats") -> Floats:
        """Time beside the others over time alone, without measurements."""
        if mixes.sharing in {"mig", SCHEDULED} or mixes.tenants.shape[1] == 1:
            return np.ones(mixes.tenants.shape)
        demands = self.simulation.demands
        rows = np.where(mixes.there, seats.demand, -1).astype(np.int64)
        priorities = np.array([*(tenant.priority for tenant in self.simulation.tenants), 0])
        terms = Terms(
            slicing_of(mixes.sharing),
            shared_host=mixes.sharing in ONE_THREAD,
            sm_domain=np.arange(rows.shape[1])[None].repeat(len(rows), 0) if mixes.sharing == "green" else None,
            priority=priorities[mixes.tenants],
            rate_per_ns=np.where(mixes.rate_rps > 0, seats.active / self.simulation.alone_ns[np.maximum(rows, 0)], 0.0),
        )
        return np.nan_to_num(slowdowns(demands, rows, terms), nan=1.0)

    def latency(self, mixes: Mixes, seats: "Seats", slowdown: Floats) -> Floats:
        """Quantiles by objective."""
        result = np.zeros((*mixes.tenants.shape, self.simulation.objectives))
        batching = mixes.there & (seats.outputs <= 1) & (seats.engine < 0) & np.isfinite(seats.alone)
        if batching.any():
            result[batching] = self._in_batches(mixes, seats, slowdown, batching)
        for number in np.unique(mixes.tenants[mixes.there & ~batching]):
            tenant, mine = self.simulation.tenants[number], (mixes.tenants == number) & ~batching
            these = seats.only(mine)
            asked = _Asked(mixes.rate_rps[mine] / 1e3, mixes.batch[mine], slowdown[mine], tenant.cv)
            law = _generating
            if these.engine.max() >= 0 or not np.isfinite(these.alone).all():
                law = self._engine
                asked = asked._replace(slowdown=asked.slowdown * float(self.simulation.scale[number]))
            for index, objective in enumerate(tenant.objectives or (_ANY,)):
                result[mine, index] = law(these, asked, objective)
        crowded = mixes.there.sum(axis=1) > 1
        if mixes.sharing == SCHEDULED and crowded.any():
            result[crowded] = self._in_turns(mixes, seats, slowdown)[crowded]
        return result

    def _ordered(self, mixes: Mixes, seats: "Seats", slowdown: Floats) -> OrderedMixes:
        """The requests of all seats, as one server takes them; sequences of a batch are generated together."""
        later = np.maximum(seats.outputs - 1, 0)
        generates = later > 0
        single = np.where(generates, seats.first + later * seats.step_1, seats.single) * slowdown
        full = np.where(generates, mixes.batch * seats.first + later * seats.step, seats.alone) * slowdown
        rate = np.where(mixes.there, mixes.rate_rps / 1e3, 0.0)
        limit = self._due[mixes.tenants, 0] + self._due[mixes.tenants, 1] * later
        cvs = np.append(self._cvs, 1.0)[mixes.tenants]
        single, full = (np.where(mixes.there, np.nan_to_num(times, posinf=1e9), 1.0) for times in (single, full))
        return OrderedMixes(BatchService(single, full, np.maximum(mixes.batch, 1)), rate, limit, cvs)

    def _in_turns(self, mixes: Mixes, seats: "Seats", slowdown: Floats) -> Floats:
        """Mixes x seats x objectives where one server orders the requests of all."""
        ordered = self._ordered(mixes, seats, slowdown)
        result = np.zeros((*mixes.tenants.shape, self.simulation.objectives))
        levels = np.vstack([self._levels, np.zeros(self._levels.shape[1])])[mixes.tenants]
        for index in range(result.shape[2]):
            waited, takes = waits(ordered, np.maximum(levels[..., index], 0.5))
            steps = np.maximum(seats.outputs - 1, 1)
            first = waited + seats.first * slowdown
            by_metric = {"latency": waited + takes, "ttft": first, "tpot": (waited + takes - first) / steps}
            for number in np.unique(mixes.tenants[mixes.there]):
                objectives = self.simulation.tenants[number].objectives
                if index < len(objectives):
                    mine = mixes.tenants == number
                    result[mine, index] = by_metric[objectives[index].metric][mine]
        return result

    def _in_batches(self, mixes: Mixes, seats: "Seats", slowdown: Floats, mine: Bools) -> Floats:
        """Seats x objectives: requests that wait are served together; a job's batches are always full."""
        tenants, rate, slow = mixes.tenants[mine], mixes.rate_rps[mine] / 1e3, slowdown[mine]
        service = BatchService(seats.single[mine] * slow, seats.alone[mine] * slow, mixes.batch[mine])
        levels = self._levels[tenants]
        latency = np.zeros(levels.shape)
        for index in range(levels.shape[1]):
            asked = levels[:, index] > 0
            these = BatchService(service.single[asked], service.full[asked], service.largest[asked])
            waited = quantile(these, rate[asked], self._cvs[tenants[asked]], levels[asked, index])
            latency[asked, index] = np.where(rate[asked] > 0, waited, these.full)
        return latency

    def _engine(self, seats: "Seats", asked: "_Asked", objective: Objective) -> Floats:
        """By the tables of each engine; a job's requests take as long as a single request, slowed down."""
        latency = np.full(asked.rate.shape, np.inf)
        for number in np.unique(seats.engine[seats.engine >= 0]):
            mine, engine = seats.engine == number, self.simulation.engines[int(number)]
            rate, slowdown = 1e3 * asked.rate[mine], asked.slowdown[mine]
            latency[mine] = 1e3 * engine.quantile(objective.metric, objective.quantile, rate, slowdown)
        return np.where(asked.rate > 0, latency, seats.alone * asked.slowdown)


_ANY = Objective("latency", 0.5, np.inf)


class _Asked(NamedTuple):
    """The load on a tenant's seats: items per ms, batch size, slowdown, burstiness."""

    rate: Floats
    batch: Ints
    slowdown: Floats
    cv: float


@dataclass(frozen=True, slots=True)
class Seats:
    """Profiles of all seats of some mixes, in the mixes' shape."""

    alone: Floats
    """With the planned batch."""
    single: Floats
    """With a single request."""
    first: Floats
    step: Floats
    """With as many sequences as the planned batch."""
    step_1: Floats
    """With a single sequence."""
    device: Floats
    holds: Floats
    moves: Floats
    memory: Floats
    outputs: Floats
    whole: Floats
    """Alone on the whole device."""
    demand: Floats
    """Row of the simulation's demands: what the usual batch asks of the device."""
    active: Floats
    """Share of time with a request in service, if nothing else runs."""
    use: Floats
    """Share of time with kernels on the device, if nothing else runs."""
    engine: Floats
    """Number among the simulation's engines; -1: none."""
    need: Floats
    """The least share that keeps up: a generating tenant slowed down by others has more sequences in each step."""

    @classmethod
    def of(cls, simulation: Simulation, mixes: Mixes) -> "Seats":
        """Look up the profile of each seat, without repetition."""
        shares = np.where(np.isnan(mixes.share), WHOLE, mixes.share)
        loaded = np.where(shares == WHOLE, 1.0, simulation.loaded(mixes)[:, None])
        keys = np.stack([mixes.tenants, mixes.batch, shares, loaded], axis=-1).reshape(-1, 4).astype(float)
        needed, index = np.unique(keys, axis=0, return_inverse=True)
        rows = []
        for tenant, batch, share, load in needed:
            if tenant < 0:
                rows.append([1.0, 1.0, *[0.0] * 8, 1.0, 1.0, 0.0, 0.0, -1.0, 0.0])
                continue
            part = None if share == WHOLE else simulation.part(mixes, float(share), float(load))
            at = mixes.clock_mhz
            profile = simulation.profile(mixes.device, int(tenant), int(batch), part, clock_mhz=at)
            engine = simulation.served(mixes.device, int(tenant))
            single = profile
            if not engine:
                single = simulation.profile(mixes.device, int(tenant), 1, part, clock_mhz=at)
            first = single.first_ms  # a sequence joins by itself, whatever else runs
            whole = profile.alone_ms
            if share != WHOLE or at is not None:
                whole = simulation.profile(mixes.device, int(tenant), int(batch)).alone_ms
            times = [profile.alone_ms, single.alone_ms, first, profile.step_ms, single.step_ms, profile.device_ms]
            asked = [
                simulation.demand(mixes.device, int(tenant), size, part, clock_mhz=at)
                for size in ((int(batch),) * 2 if engine else (int(batch), 1))
                if profile.engine >= 0 or not engine
            ] or [0, 0]
            rows.append([
                *times, single.device_ms, profile.holds, profile.moves, profile.memory_bytes, profile.outputs, whole,
                *asked, profile.engine, profile.sequence_bytes,
            ])  # fmt: skip
        columns = np.moveaxis(np.array(rows)[index.reshape(mixes.tenants.shape)], -1, 0)
        alone, single, first, step, step_1, device, device_1, holds, moves, memory, outputs, whole = columns[:12]
        rate = mixes.rate_rps / 1e3
        service = BatchService(single, alone, mixes.batch)
        size = np.where((rate > 0) & (outputs == 1), service.usual(rate), mixes.batch)
        prompts, steps = rate * first, rate * (outputs - 1) * step
        least = np.where(outputs > 1, prompts + steps / mixes.batch, rate * service.time(size) / size)
        usual = np.where(outputs > 1, np.maximum(np.minimum(prompts + steps, 1.0), least), least)
        on_device = BatchService(device_1, device, mixes.batch).time(size) / service.time(size)
        # A job is always busy.
        use, need = (
            np.where(mixes.there, np.where(rate > 0, np.minimum(part, 1.5), 1.0) * on_device, 0.0)
            for part in (usual, least)
        )
        demand = np.where((outputs == 1) & (size**2 <= mixes.batch), columns[13], columns[12])
        active = np.minimum(usual, 1.5)
        engine, each = columns[14], columns[15]
        for number in np.unique(engine[engine >= 0]):
            mine = (engine == number) & (mixes.rate_rps > 0)
            busy = simulation.engines[int(number)].usual(mixes.rate_rps[mine])
            active[mine], use[mine], need[mine] = np.minimum(busy[0], 1.0), np.minimum(busy[1], 1.0), busy[2]
            memory[mine] += each[mine] * (np.minimum(_room_for(busy[3]), mixes.batch[mine]) - 1)
        return cls(
            alone, single, first, step, step_1, device, holds, moves, memory, outputs, whole, demand, active, use,
            engine, need,
        )  # fmt: skip

    def together(self, mixes: Mixes, slowdown: Floats, simulation: Simulation) -> Ints:
        """Requests, or sequences, that usually run together."""
        rate = mixes.rate_rps / 1e3
        active = np.round(_active(self, rate, mixes.batch, slowdown))
        waiting = np.ceil(BatchService(self.single * slowdown, self.alone * slowdown, mixes.batch).usual(rate))
        usual = np.where(self.outputs > 1, active, waiting)
        for number in np.unique(self.engine[self.engine >= 0]):
            mine = self.engine == number
            sequences = simulation.engines[int(number)].usual(mixes.rate_rps[mine] * slowdown[mine])[3]
            usual[mine] = np.where(np.isfinite(sequences), sequences, mixes.batch[mine])
        usual = np.nan_to_num(usual, nan=1.0, posinf=1e6)
        return np.where(rate > 0, np.clip(usual, 1, mixes.batch), mixes.batch).astype(np.int64)

    def only(self, mine: Bools) -> "Seats":
        """A subset of the seats, flattened."""
        return Seats(*(getattr(self, name)[mine] for name in Seats.__slots__))


def _generating(seats: Seats, asked: _Asked, objective: Objective) -> Floats:
    """A sequence waits for a slot, its prompt is processed between two steps of the others, then it takes its steps.

    The wait is that of a queue with as many servers as slots: Erlang's formula, scaled by (arrivals' cv^2 + services'
    cv^2) / 2 (Allen and Cunneen), of which the second is 0: a tenant's sequences are all of the same length.
    """
    rate, batch, slowdown, cv = asked
    active = _active(seats, rate, batch, slowdown)
    if objective.metric == "tpot":
        busier = np.minimum(active + float(ndtri(objective.quantile)) * cv * np.sqrt(active), batch)
        return _step(seats, rate, batch, slowdown, busier)
    prompt, step = seats.first * slowdown, _step(seats, rate, batch, slowdown, active)
    lasts = prompt + (seats.outputs - 1) * step
    waits = _erlang(active, batch)
    tail = np.log(np.maximum(waits / (1 - objective.quantile), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        queued = np.where(tail > 0, lasts * cv**2 / 2 / (batch - active) * tail, 0.0)
    queued = np.where(active < batch, queued, np.inf)
    begun = queued + prompt + step
    return np.asarray(begun if objective.metric == "ttft" else begun + (seats.outputs - 1) * step)


def _step(seats: Seats, rate: Floats, batch: Ints, slowdown: Floats, active: Floats) -> Floats:
    """Time of a step with this many sequences, and with the prompts of others that come in between."""
    part = (np.clip(active, 1, batch) - 1) / np.maximum(batch - 1, 1)
    left = 1 - rate * seats.first * slowdown
    alone = seats.step_1 + (seats.step - seats.step_1) * part
    return np.where(left > 0, alone * slowdown / np.maximum(left, 1e-9), np.inf)


def _active(seats: Seats, rate: Floats, batch: Ints, slowdown: Floats) -> Floats:
    """Sequences in progress: more of them take longer steps, and then stay longer. At most more than the batch."""
    later = np.maximum(seats.outputs - 1, 0)
    active = np.ones_like(rate)
    for _ in range(ROUNDS):
        each = np.where(later > 0, _step(seats, rate, batch, slowdown, active), 0.0)  # infinite where it can't keep up
        steps = later * each
        active = rate * (seats.first * slowdown + steps)
    return active


def _room_for(sequences: Floats) -> Floats:
    """Sequences that the cache should hold so that hardly any has to wait: of as many in progress on average."""
    usual = np.where(np.isfinite(sequences), sequences, 1e6)
    return np.asarray(np.ceil(ROOM * usual + 4 * np.sqrt(usual) + 2))


def _erlang(active: Floats, places: Ints) -> Floats:
    """Probability that all slots are taken."""
    result = np.ones_like(active)
    for count in np.unique(places):
        mine = (places == count) & (active < count)
        blocked = np.ones(int(mine.sum()))
        for slot in range(1, int(count) + 1):
            blocked = active[mine] * blocked / (slot + active[mine] * blocked)
        share = active[mine] / count
        result[mine] = blocked / (1 - share + share * blocked)
    return result
