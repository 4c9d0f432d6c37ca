"""Predictions for planning on simulated GPUs by the event simulation, for the mixes that matter most.

The kernels of all tenants run against each other under seeded arrivals, in batches of the size that usually waits. That
gives the slowdown of batch after batch by the neighbours. Queues of single requests, and of sequences that wait for a
slot, are then simulated with it, at the estimate of the service time and at both ends of its range.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from cotenant.planning.mixes.predictor import Mixes, PredictedMix, Range
from cotenant.planning.predictors.closed_form import CLOSED, ClosedForm, Seats
from cotenant.planning.predictors.profiles import Simulation
from cotenant.planning.predictors.scheduled import (
    OrderedTenant,
    OrderedTimes,
    costs_of,
    in_order,
    quantile_ms,
    seconds_for,
)
from cotenant.planning.solver.problem import Floats, Ints
from cotenant.prediction.contention import (
    LEAST_CV,
    ONE_THREAD,
    MixTenant,
    Part,
    mean_slowdowns,
    slicing_of,
    stretches,
    whole_of,
)
from cotenant.prediction.engines import NO_TIMES, EngineLoad, EngineTenant, EngineTimes, engine_times
from cotenant.scheduling import Settings
from cotenant.scheduling.simulation import NEVER, WARM_UP, Replications, requests_at, tail_of
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.ways import SCHEDULED

ENGINE = "simulated (event engine)"
METRICS = ("latency", "ttft", "tpot")
SEQUENCES, SEQUENCE_REQUESTS = 20, 1000
"""Replications of a tenant that generates without an engine, and requests of each."""
ORDERED, ORDERED_WARM_UP = 3, 0.1
"""Replications of requests that one server orders, and the part of each that is left out."""
QUEUES = 100
"""Seeds of a seat's arrivals."""


class EnginePredictor:
    """The event simulation, mix by mix; caches its results."""

    def __init__(self, simulation: Simulation, rough: ClosedForm, *, seed: int = 1) -> None:
        self.simulation, self.rough, self.seed = simulation, rough, seed
        self._known: dict[tuple[object, ...], tuple[Floats, Floats]] = {}

    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """Predict: latencies and slowdowns from the event simulation, the rest from the closed form."""
        rough = self.rough(mixes)
        low, high = self.rough.errors.factors(mixes, closed=False)
        outcomes = [self._outcome(mixes, row, low[row], high[row]) for row in range(len(mixes.tenants))]
        latency = np.stack([outcome[0] for outcome in outcomes], axis=1)
        seats = Seats.of(self.simulation, mixes)
        slowdown = np.stack([outcome[1] for outcome in outcomes]) * seats.alone / seats.whole
        beside = mixes.there.sum(axis=1, keepdims=True) > 1
        # A measurement beats any simulation.
        measured = np.array([not source.startswith(CLOSED) for source in rough.basis])
        known = measured[:, None]
        slow = Range(
            np.where(known, rough.slowdown.lower, np.maximum(slowdown * np.where(beside, low, 1.0), 1.0)),
            np.where(known, rough.slowdown.estimate, slowdown),
            np.where(known, rough.slowdown.upper, slowdown * np.where(beside, high, 1.0)),
        )
        ends = (rough.latency_ms.lower, rough.latency_ms.estimate, rough.latency_ms.upper)
        late = Range(*(np.where(known[:, :, None], was, now) for was, now in zip(ends, latency, strict=True)))
        basis = tuple(source if source != CLOSED else ENGINE for source in rough.basis)
        return replace(rough, latency_ms=late, slowdown=slow, basis=basis, doubts=self.rough.errors.doubts(mixes))

    def _outcome(self, mixes: Mixes, row: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Ends x seats x objectives of latency, and the slowdown of each seat on its part."""
        seats = [seat for seat in range(mixes.tenants.shape[1]) if mixes.there[row, seat]]
        whole = len(seats) == 1 and not np.isfinite(mixes.share[row, seats[0]])
        places = tuple(
            (int(mixes.tenants[row, s]), round(float(mixes.rate_rps[row, s]), 9), int(mixes.batch[row, s]),
             str(float(mixes.share[row, s])), float(low[s]), float(high[s])) for s in seats)  # fmt: skip
        shape = (mixes.tenants.shape[1], *seats)  # of the result: groups of fewer tenants leave seats empty
        key = (mixes.device, "" if whole else mixes.sharing, mixes.clock_mhz, mixes.loaded, shape, places)
        if key not in self._known:
            self._known[key] = self._simulated(mixes, row, seats, np.stack([low, np.ones_like(low), high]))
        return self._known[key]

    def _simulated(self, mixes: Mixes, row: int, seats: Sequence[int], factors: Floats) -> tuple[Floats, Floats]:
        mix = mixes.rows(slice(row, row + 1))
        table = Seats.of(self.simulation, mix)
        batches = table.together(mix, self.rough.slowdown(mix, table), self.simulation)
        if not np.isfinite(table.alone[0, seats]).all():  # an engine without room for a request
            return np.full((3, mixes.tenants.shape[1], self.simulation.objectives), np.inf), np.full(
                mixes.tenants.shape[1], np.inf
            )
        if mixes.sharing == SCHEDULED and len(seats) > 1:
            return self._ordered_tails(mix, seats, factors)
        tenants = [self._seated(mix, seat, order, int(batches[0, seat])) for order, seat in enumerate(seats)]
        slowed = [np.ones(1)]
        if len(tenants) > 1 or tenants[0].engine is None:  # alone, an engine's steps take the time they take alone
            slowed = self._stretches(tenants, mixes.sharing)
        result = np.zeros((3, mixes.tenants.shape[1], self.simulation.objectives))
        slowdown = np.ones(mix.tenants.shape)
        slowdown[0, seats] = mean_slowdowns(slowed)
        for end, factor in enumerate(factors):
            for seat, stretch in zip(seats, slowed, strict=True):
                objectives = self.simulation.tenants[int(mix.tenants[0, seat])].objectives
                times = self._times(mix, table, seat, stretch * factor[seat])
                for index, objective in enumerate(objectives):
                    result[end, seat, index] = 1e3 * times[objective.metric].quantile(objective.quantile)[end]
        return result, slowdown[0]

    def _ordered_tails(self, mix: Mixes, seats: Sequence[int], factors: Floats) -> tuple[Floats, Floats]:
        """The same where one server orders the requests of all: an error of the costs grows with the queue."""
        result = np.zeros((3, mix.tenants.shape[1], self.simulation.objectives))
        for end, times in enumerate(self._ordered(mix, seats, factors)):
            for seat, own in zip(seats, times, strict=True):
                for index, objective in enumerate(self.simulation.tenants[int(mix.tenants[0, seat])].objectives):
                    result[end, seat, index] = quantile_ms(own.of(objective.metric), objective.quantile)[end]
        return result, np.ones(mix.tenants.shape[1])

    def _ordered(self, mix: Mixes, seats: Sequence[int], factors: Iterable[Floats]) -> list[list[OrderedTimes]]:
        """By end and seat: times of requests, all in the order of the scheduler."""
        tenants = []
        for seat in seats:
            number, rate = int(mix.tenants[0, seat]), float(mix.rate_rps[0, seat])
            tenant = self.simulation.tenants[number]
            costs = costs_of(self.simulation, mix.device, number, int(mix.batch[0, seat]), mix.clock_mhz)
            load = Load(kind="gamma", rate_rps=rate, cv=max(tenant.cv, LEAST_CV))
            # Replicas of a tenant on one device are tenants of their own.
            contract = replace(tenant.contract, tenant=f"{tenant.name}/{seat}")
            tenants.append(OrderedTenant(contract, costs, load))
        seconds = seconds_for([tenant.load.rate_rps or 0.0 for tenant in tenants])
        seeds = [1000 * (self.seed + number) for number in range(ORDERED)]
        return [
            in_order(
                [tenant.slower(float(end[seat])) for seat, tenant in zip(seats, tenants, strict=True)],
                Settings(), seconds=seconds, seeds=seeds, warm_up=ORDERED_WARM_UP,
            )
            for end in factors
        ]  # fmt: skip

    def request_times(
        self, mixes: Mixes, ends: Sequence[Floats], *, closed: bool = False
    ) -> list[list[dict[str, Replications]]]:
        """Times of single requests of the only row, by end, seat and metric.

        Args:
            mixes: A single mix.
            ends: By seat: factors by which service times are longer than simulated.
            closed: Slow requests down as the closed form has it, without simulating their kernels.
        """
        table = Seats.of(self.simulation, mixes)
        seats = range(mixes.tenants.shape[1])
        if not np.isfinite(table.alone).all():
            return [[dict.fromkeys(METRICS, NEVER) for _ in seats] for _ in ends]
        if mixes.sharing == SCHEDULED and len(seats) > 1:
            return [
                [{metric: times.of(metric) for metric in METRICS} for times in end]
                for end in self._ordered(mixes, list(seats), ends)
            ]
        slowdown = self.rough.slowdown(mixes, table)
        if closed:
            slowed = [slowdown[:, seat] for seat in seats]
        else:
            batches = table.together(mixes, slowdown, self.simulation)
            tenants = [self._seated(mixes, seat, seat, int(batches[0, seat])) for seat in seats]
            slowed = [np.ones(1)]
            if len(tenants) > 1 or tenants[0].engine is None:
                slowed = self._stretches(tenants, mixes.sharing)
        return [
            [
                self._times(mixes, table, seat, stretch * factors[seat])
                for seat, stretch in zip(seats, slowed, strict=True)
            ]
            for factors in ends
        ]

    def _stretches(self, tenants: Sequence[MixTenant], sharing: str) -> list[Floats]:
        shared_host = sharing in ONE_THREAD
        return stretches(tenants, slicing=slicing_of(sharing), shared_host=shared_host, seed=self.seed)

    def _times(self, mixes: Mixes, table: Seats, seat: int, stretch: Floats) -> dict[str, Replications]:
        if table.engine[0, seat] >= 0:
            times = self._steps(mixes, table, seat, stretch)
            return {metric: times.of(metric) for metric in METRICS}
        if table.outputs[0, seat] > 1:
            return self._sequences(mixes, table, seat, stretch)
        return dict.fromkeys(METRICS, self._queue(mixes, table, seat, stretch))

    def _sequences(self, mixes: Mixes, table: Seats, seat: int, stretch: Floats) -> dict[str, Replications]:
        """Sequences that take the first free slot; a step takes longer the more of them are in progress."""
        rate, slots = float(mixes.rate_rps[0, seat]), int(mixes.batch[0, seat])
        slow = float(stretch.mean())
        if not np.isfinite(slow):
            return dict.fromkeys(METRICS, NEVER)
        single, full = table.step_1[0, seat] / 1e3 * slow, table.step[0, seat] / 1e3 * slow
        prompt, outputs = table.first[0, seat] / 1e3 * slow, int(table.outputs[0, seat])
        if rate <= 0:  # a job's slots are always taken
            first_s, steps_s = prompt + full, np.array([full])
            whole = np.array([first_s + (outputs - 1) * full])
            return {
                metric: Replications((times,))
                for metric, times in zip(METRICS, (whole, np.array([first_s]), steps_s), strict=True)
            }
        left = 1 - rate * prompt  # of the time, beside the prompts of others
        if left <= 0 or rate * (prompt + (outputs - 1) * full / left) >= slots:
            return dict.fromkeys(METRICS, NEVER)
        cv = max(self.simulation.tenants[int(mixes.tenants[0, seat])].cv, LEAST_CV)
        load = Load(kind="gamma", rate_rps=rate, cv=cv)
        kept: dict[str, list[Floats]] = {metric: [] for metric in METRICS}
        for seed in range(self.seed, self.seed + SEQUENCES):
            due = arrivals_ns(load, seed=seed + QUEUES * seat, horizon_s=SEQUENCE_REQUESTS / rate) / 1e9
            waits, steps = _in_slots(due, slots, (single / left, full / left), prompt, outputs)
            first = waits + prompt + steps
            for metric, times in (("ttft", first), ("tpot", steps), ("latency", first + (outputs - 1) * steps)):
                kept[metric].append(times[int(times.size * WARM_UP) :])
        return {metric: Replications(tuple(times)) for metric, times in kept.items()}

    def _steps(self, mixes: Mixes, table: Seats, seat: int, stretch: Floats) -> EngineTimes:
        """Requests of an engine whose consecutive steps are slowed down like this."""
        tenant, rate = int(mixes.tenants[0, seat]), float(mixes.rate_rps[0, seat])
        engine = self.simulation.engines[int(table.engine[0, seat])]
        slowdown = stretch * float(self.simulation.scale[tenant])
        if rate <= 0:
            return engine.idle.stretched(float(slowdown.mean()))
        load = rate * float(slowdown.mean()) / engine.capacity_rps
        if not load < 1:
            return NO_TIMES
        return engine_times(
            engine.engine,
            lambda seed, horizon: engine.arrivals(rate, seed, horizon),
            rate_rps=rate,
            stretch=slowdown,
            together=float(engine.usual(np.array(rate))[3]),
            seed=self.seed + QUEUES * seat,
        )

    def _queue(self, mixes: Mixes, table: Seats, seat: int, stretch: Floats) -> Replications:
        """Requests of a seat whose consecutive batches are slowed down like this."""
        if not np.isfinite(stretch).all():
            return NEVER
        rate, largest = float(mixes.rate_rps[0, seat]), int(mixes.batch[0, seat])
        single_s, full_s = table.single[0, seat] / 1e3, table.alone[0, seat] / 1e3
        if rate <= 0:  # a job's batches are always full
            return Replications((stretch * full_s,))
        load = rate * full_s / largest * float(stretch.mean())
        if load >= 1:
            return NEVER
        arrivals = Load(
            kind="gamma", rate_rps=rate, cv=max(self.simulation.tenants[int(mixes.tenants[0, seat])].cv, LEAST_CV)
        )
        seconds = requests_at(load) / rate
        return tail_of(
            lambda seed: arrivals_ns(arrivals, seed=seed, horizon_s=seconds) / 1e9,
            # Every replication begins elsewhere among the simulated batches.
            lambda seed: np.roll(stretch, -37 * seed) * single_s,
            np.linspace(1.0, full_s / single_s, largest).tolist(),
            seed=self.seed + QUEUES * seat,
        )

    def _seated(self, mixes: Mixes, seat: int, order: int, batch: int) -> MixTenant:
        """A tenant in batches of this size, as often as they come together."""
        tenant = int(mixes.tenants[0, seat])
        loaded = float(self.simulation.loaded(mixes)[0])
        part = self.simulation.part(mixes, float(mixes.share[0, seat]), loaded, order)
        part = part or whole_of(self.simulation.gpus[mixes.device].gpu)
        if self.simulation.served(mixes.device, tenant):
            return self._served(mixes, seat, part)
        trace, first, _ = self.simulation.trace(mixes.device, tenant, batch, part, mixes.clock_mhz)
        serving = self.simulation.tenants[tenant]
        return MixTenant(
            trace,
            part,
            rate_rps=float(mixes.rate_rps[0, seat]) / batch,
            cv=serving.cv / float(np.sqrt(batch)),
            priority=serving.priority,
            first_output=first,
        )

    def _served(self, mixes: Mixes, seat: int, part: Part) -> MixTenant:
        """An engine at the rate of its requests; a job's is never idle."""
        simulation, tenant, most = self.simulation, int(mixes.tenants[0, seat]), int(mixes.batch[0, seat])
        serving, gpu, clock = simulation.tenants[tenant], simulation.gpus[mixes.device], mixes.clock_mhz
        own = simulation.part(mixes, float(mixes.share[0, seat]), part.loaded)
        profile = simulation.profile(mixes.device, tenant, most, own, clock_mhz=clock)
        loads = simulation.engines[profile.engine]
        spec = simulation.spec(mixes.device, tenant, most)
        memory = part.memory_bytes * loads.engine.profile.memory_share

        def engine(window_ns: float, arrivals: Ints) -> EngineTenant:
            load = EngineLoad(window_ns, memory, arrivals, timed=True)
            return gpu.engine(spec, part, load, clock_mhz=gpu.locked_clock(part, clock))

        return MixTenant(
            simulation.usual_step(mixes.device, tenant, part, loads, clock),
            part,
            rate_rps=float(mixes.rate_rps[0, seat]),
            cv=serving.cv,
            priority=serving.priority,
            engine=engine,
        )


def _in_slots(
    due: Floats, slots: int, step_s: tuple[float, float], prompt: float, outputs: int
) -> tuple[Floats, Floats]:
    """By sequence: its wait for a slot, and the time of its steps among those in progress when it begins."""
    ends: list[float] = []
    waits, steps = np.zeros(due.size), np.zeros(due.size)
    for number, time in enumerate(due.tolist()):
        while ends and ends[0] <= time:
            heappop(ends)
        begins = time
        if len(ends) >= slots:
            begins = heappop(ends)
        part = len(ends) / max(slots - 1, 1)
        step = step_s[0] + (step_s[1] - step_s[0]) * part
        heappush(ends, begins + prompt + (outputs - 1) * step)
        waits[number], steps[number] = begins - time, step
    return waits, steps
