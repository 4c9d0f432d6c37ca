"""Predictions for planning on simulated GPUs by the event engine, for the mixes that matter most.

The kernels of all tenants run against each other under seeded arrivals, in batches of the size that usually waits. That
gives the slowdown of batch after batch by the neighbours; queues of single requests are then computed with it, for a
generating tenant in closed form.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cotenant.api.planning.closed_form import CLOSED, ClosedForm, Seats
from cotenant.api.planning.profiles import Simulation
from cotenant.planning.mixes.batching import Service, waited
from cotenant.planning.mixes.predictor import Mixes, Predicted, Range
from cotenant.planning.solver.problem import Floats, Ints

if TYPE_CHECKING:
    from cotenant.prediction.sharing.simulate import Player

ENGINE = "simulated (event engine)"
LEAST_REQUESTS, LONGEST_S, SHORTEST_S = 400, 120.0, 4.0
LEAST_CV = 0.05


class Engine:
    """The event engine, mix by mix; caches its results."""

    def __init__(self, simulation: Simulation, rough: ClosedForm, *, seed: int = 1) -> None:
        self.simulation, self.rough, self.seed = simulation, rough, seed
        self._known: dict[tuple[object, ...], Floats] = {}

    def __call__(self, mixes: Mixes, /) -> Predicted:
        """Predict: latencies from the engine, the rest from the closed form."""
        rough = self.rough(mixes)
        low, high = (end[:, :, None] for end in self.rough.errors.factors(mixes, closed=False))
        estimate = np.stack([self._quantiles(mixes, row) for row in range(len(mixes.tenants))])
        latency = Range(estimate * low, estimate, estimate * high)
        measured = np.array([not one.startswith(CLOSED) for one in rough.basis])  # a measurement beats any simulation
        kept = [
            np.where(measured[:, None, None], getattr(rough.latency_ms, end), getattr(latency, end))
            for end in ("lower", "estimate", "upper")
        ]
        basis = tuple(one if one != CLOSED else ENGINE for one in rough.basis)
        return replace(rough, latency_ms=Range(*kept), basis=basis, doubts=self.rough.errors.doubts(mixes))

    def _quantiles(self, mixes: Mixes, row: int) -> Floats:
        """Seats x objectives."""
        seats = [place for place in range(mixes.tenants.shape[1]) if mixes.there[row, place]]
        key = (mixes.device, mixes.sharing, mixes.clock_mhz, tuple(
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
            mixes.clock_mhz,
        )
        table = Seats.of(self.simulation, one)
        batches = table.together(one, self.rough.slowdown(one, table))
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
            tenant, size = int(one.tenants[0, seat]), int(batches[0, seat])
            alone = self.simulation.profile(
                one.device, tenant, size, one.sharing, float(one.share[0, seat]), clock_mhz=one.clock_mhz
            ).alone_ms
            stretch = (requests.done - requests.started) / 1e6 / alone if kept_up else np.array([np.inf])
            slowdown[0, seat] = max(float(np.median(stretch)), 1.0)
            times = self._times(one, table, seat, stretch, window_s) if kept_up else stretch
            for place, objective in enumerate(self.simulation.tenants[tenant].objectives):
                result[seat, place] = np.quantile(times, objective.quantile)
        generating = table.outputs[0] > 1
        if generating.any():
            result[generating] = self.rough.latency(one, table, slowdown)[0][generating]
        return result

    def _times(self, mixes: Mixes, table: Seats, seat: int, stretch: Floats, window_s: float) -> Floats:
        """Time of each request of a seat, in ms, if its batches are slowed down like this one after another."""
        if mixes.rate_rps[0, seat] <= 0:
            return np.asarray(stretch * table.alone[0, seat])
        service = Service(table.single[0, seat], table.alone[0, seat], mixes.batch[0, seat])
        cv = max(self.simulation.tenants[int(mixes.tenants[0, seat])].cv, LEAST_CV)
        due = self._due(float(mixes.rate_rps[0, seat]), cv, seat, window_s)
        return waited(due.astype(np.float64) / 1e6, service, stretch)

    def _due(self, rate_rps: float, cv: float, order: int, window_s: float) -> Ints:
        from cotenant.tenancy.arrivals import arrivals_ns
        from cotenant.tenancy.load import Load

        load = Load(kind="gamma", rate_rps=rate_rps, cv=cv)
        return np.asarray(arrivals_ns(load, seed=self.seed + order, horizon_s=window_s))

    def _player(self, mixes: Mixes, seat: int, order: int, *, batch: int, rate: float, window_s: float) -> "Player":
        from cotenant.prediction.sharing.simulate import Player

        tenant = int(mixes.tenants[0, seat])
        part = self.simulation.part(mixes.device, mixes.sharing, float(mixes.share[0, seat]), order)
        trace, first, _ = self.simulation.trace(mixes.device, tenant, batch, part, mixes.clock_mhz)
        due = None
        if rate > 0:
            cv = max(self.simulation.tenants[tenant].cv / float(np.sqrt(batch)), LEAST_CV)
            due = self._due(rate, cv, order, window_s)
        return Player(
            trace,
            outstanding=0 if rate > 0 else 1,
            arrivals_ns=due,
            sm_domain=part.sm_domain,
            dram_domain=part.dram_domain,
            priority=self.simulation.tenants[tenant].priority,
            first_output=first,
        )
