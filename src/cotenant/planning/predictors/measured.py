"""Predictions for planning on a real CPU: measured times alone, measured or predicted slowdowns, simulated queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cotenant.errors import PredictionError
from cotenant.planning.mixes.batching import quantile
from cotenant.planning.mixes.predictor import Mixes, PredictedMix, Range
from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.planning.predictors.evidence import costs_sentence
from cotenant.planning.predictors.solo import Batches
from cotenant.planning.solver.problem import Floats, Ints
from cotenant.prediction.interference.mixes import LARGEST, mixes_of
from cotenant.prediction.interference.predictor import MEASURED, Predictor, Slowdowns
from cotenant.prediction.interference.under_load import stretched
from cotenant.scheduling.simulation.lines import Line, Replications, latencies
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.objective import Objective
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.planning.predictors.solo import SoloTimes

NOT_VALIDATED = 0.5
"""Relative error assumed for a slowdown without any validation."""
REQUESTS, MOST_REQUESTS = 1500, 12000
"""Simulated requests: of the slowest tenant, and in total."""
SEEDS = 8
"""Times that a mix is simulated."""
SHORTEST_S = 5.0
MOSTLY_BUSY = 0.5
"""Load above which the formula takes requests to follow each other without a pause."""
_TWO_SIDED = 1.645
"""Half-width of the interference predictor's 90 % intervals in standard deviations."""


@dataclass(frozen=True, slots=True)
class SharingLaw:
    """Slowdowns of any mix under one way to share; indexed like the solos."""

    predictor: Predictor
    most: int
    """Tenants at once."""


class Measured:
    """Answers for mixes on one kind of device; `closer` simulates the queues as well."""

    def __init__(
        self,
        tenants: Sequence[ServingTenant],
        solos: "Mapping[tuple[int, int], SoloTimes]",
        laws: Mapping[str, SharingLaw],
        *,
        risk: float,
        closer: bool = False,
        seed: int = 1,
    ) -> None:
        """Store the measurements.

        Args:
            tenants: Tenants of the plan.
            solos: By tenant and batch.
            laws: By way to share.
            risk: How often an upper end may be exceeded.
            closer: Simulate the queues instead of using a formula.
            seed: Seed of the arrivals.
        """
        from scipy.special import ndtri

        self.tenants, self.solos, self.laws, self.is_closer, self.seed = tenants, solos, laws, closer, seed
        self.objectives = max((len(tenant.objectives) for tenant in tenants), default=1) or 1
        self._z = float(ndtri(1 - risk))
        self._known: dict[tuple[object, ...], tuple[Floats, Floats, str]] = {}
        self._sizes: dict[tuple[int, int], Batches | None] = {}

    def closer(self) -> "Measured":
        """The same with simulated queues."""
        found = Measured(self.tenants, self.solos, self.laws, risk=0.1, closer=True, seed=self.seed)
        found._z = self._z
        return found

    def at_costs(self, costs_s: Mapping[str, float]) -> "tuple[Measured, str]":
        """The same with single requests as long as served ones, and the costs in a sentence.

        Args:
            costs_s: By tenant: the usual time of a request on the device.
        """
        said, solos = [], dict(self.solos)
        for (number, batch), solo in self.solos.items():
            name = self.tenants[number].name
            if batch == 1 and name in costs_s:
                said.append((name, solo.usual_s, costs_s[name]))
                solos[number, batch] = solo.slower(costs_s[name] / solo.usual_s)
        found = Measured(self.tenants, solos, self.laws, risk=0.1, closer=self.is_closer, seed=self.seed)
        found._z = self._z
        return found, costs_sentence(said)

    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """What would happen."""
        rows = [self._row(mixes, row) for row in range(len(mixes.tenants))]
        late = np.stack([row[0] for row in rows])
        slow = np.stack([row[1] for row in rows])
        seats = [[self._seat(mixes, row, place) for place in range(late.shape[2])] for row in range(len(rows))]
        return PredictedMix(
            latency_ms=Range(*np.moveaxis(late, 1, 0)),
            slowdown=Range(*np.moveaxis(slow, 1, 0)),
            memory_bytes=np.array([[0.0 if one is None else one[0].memory_bytes for one in row] for row in seats]),
            busy=np.array([sum(one[1] * one[0].cores for one in row if one) for row in seats]),
            bandwidth=np.array([sum(one[1] * one[0].bandwidth for one in row if one) for row in seats]),
            power_w=np.zeros(len(rows)),
            basis=tuple(row[2] for row in rows),
            together=self._together(mixes, slow[:, 1]),
        )

    def _seat(self, mixes: Mixes, row: int, place: int) -> "tuple[SoloTimes, float] | None":
        """The measurement for a seat and the share of time it is busy; None if the seat is empty or not measured."""
        batches = self._batches(int(mixes.tenants[row, place]), int(mixes.batch[row, place]))
        if batches is None:
            return None
        rate = float(mixes.rate_rps[row, place])
        size = batches.usual(rate)
        solo = batches.solos[batches.largest]
        return solo, rate / size * batches.mean_s(size) if rate > 0 else 1.0

    def _batches(self, tenant: int, batch: int) -> Batches | None:
        key = tenant, batch
        if key not in self._sizes:
            self._sizes[key] = Batches.of(self.solos, tenant, batch)
        return self._sizes[key]

    def _together(self, mixes: Mixes, stretch: Floats) -> Ints:
        """Requests that usually run together beside the others."""
        result = mixes.batch.astype(np.int64).copy()
        for row, place in zip(*np.nonzero(mixes.there), strict=True):
            batches = self._batches(int(mixes.tenants[row, place]), int(mixes.batch[row, place]))
            if batches is not None and np.isfinite(stretch[row, place]):
                usual = batches.usual(float(mixes.rate_rps[row, place]), float(stretch[row, place]))
                result[row, place] = int(np.ceil(usual - 1e-9))
        return result

    def _row(self, mixes: Mixes, row: int) -> tuple[Floats, Floats, str]:
        """Ends x seats x objectives of latency, ends x seats of slowdown, and the basis."""
        there = [place for place in range(mixes.tenants.shape[1]) if mixes.there[row, place]]
        asked = tuple(
            (int(mixes.tenants[row, one]), int(mixes.batch[row, one]), round(float(mixes.rate_rps[row, one]), 9))
            for one in there
        )
        key = (mixes.sharing, asked)
        if key not in self._known:
            self._known[key] = self._found(mixes.sharing, asked)
        late, slow, basis = self._known[key]
        width = mixes.tenants.shape[1]
        latency, slowdown = np.zeros((3, width, self.objectives)), np.ones((3, width))
        latency[:, there], slowdown[:, there] = late, slow
        return latency, slowdown, basis

    def _found(self, sharing: str, asked: Sequence[tuple[int, int, float]]) -> tuple[Floats, Floats, str]:
        law = self.laws[sharing]
        never = np.full((3, len(asked), self.objectives), np.inf), np.full((3, len(asked)), np.inf)
        found = [self._batches(*one[:2]) for one in asked]
        batches = [one for one in found if one is not None]
        if len(batches) < len(asked):
            return *never, "not measured alone"
        if len(asked) > law.most:
            return *never, f"at most {amount(law.most, 'tenant')}"
        sizes = [one.usual(rate) for one, (_, _, rate) in zip(batches, asked, strict=True)]
        solos = [one.like(size) for one, size in zip(batches, sizes, strict=True)]
        tables = self._tables(law, [solo.place for solo in solos])
        mean = np.array([one.mean_s(size) for one, size in zip(batches, sizes, strict=True)])
        rates = np.array([rate / size if rate > 0 else np.nan for (*_, rate), size in zip(asked, sizes, strict=True)])
        late, slow = [], []
        for end, table in zip((-1, 0, 1), tables.slowdowns, strict=True):
            off = np.array([np.exp(end * solo.drift * self._z) for solo in solos])
            stretch = stretched(mean * off, table[-1], tables.weights, rates) / mean
            slow.append(stretch)
            with np.errstate(divide="ignore", invalid="ignore"):
                late.append(self._late(asked, batches, table, off, stretch)[end + 1])
        return np.array(late), np.maximum.accumulate(np.array(slow), axis=0), tables.basis

    def _late(
        self, asked: Sequence[tuple[int, int, float]], batches: Sequence[Batches], table: Floats, off: Floats,
        stretch: Floats,
    ) -> Floats:  # fmt: skip
        """Ends x seats x objectives: the ends cover that only so many requests are simulated."""
        result = np.zeros((3, len(asked), self.objectives))
        queues = None
        if self.is_closer:
            cvs = [self.tenants[number].cv for number, _, _ in asked]
            rates = [rate for *_, rate in asked]
            runs = [
                simulated(cvs, rates, batches, table, off=off, seed=self.seed + len(asked) * number)
                for number in range(SEEDS)
            ]
            queues = [Replications(tuple(times)) for times in zip(*runs, strict=True)]
        for place, (number, _, rate) in enumerate(asked):
            tenant, one = self.tenants[number], batches[place]
            for which, objective in enumerate(tenant.objectives):
                if objective.metric == "tpot":
                    result[:, place, which] = 1e3 * (one.solos[one.largest].step_s or 0.0) * stretch[place]
                    continue
                at = objective.quantile
                whole = (
                    np.full(3, _by_formula(one, rate, tenant.cv, stretch[place], at))
                    if queues is None
                    else np.array(queues[place].quantile(at))
                )
                first = one.single.first_s
                rest = (one.single.mean_s - first) * stretch[place] if _first(objective) and first else 0.0
                result[:, place, which] = 1e3 * np.maximum(whole - rest, 0.0)
        return result

    def simulate(
        self, sharing: str, asked: Sequence[tuple[int, int, float]], cvs: Sequence[float],
        *, end: int, seed: int, seconds: float,
    ) -> list[Floats]:  # fmt: skip
        """Latencies of the requests of one mix, in seconds.

        Args:
            sharing: The way to share; `alone` for a single tenant.
            asked: Tenant, batch and items per second of every seat.
            cvs: Burstiness of each.
            end: 0, 1, 2: the lower end, the estimate, the upper end.
            seed: Seed of arrivals and draws.
            seconds: Simulated time.
        """
        law = self.laws[next(iter(self.laws)) if sharing == "alone" else sharing]
        batches = [one for one in (self._batches(*seat[:2]) for seat in asked) if one is not None]
        assert len(batches) == len(asked), "a plan is only made of measured tenants"
        rates = [rate for *_, rate in asked]
        solos = [one.like(one.usual(rate)) for one, rate in zip(batches, rates, strict=True)]
        table = self._tables(law, [solo.place for solo in solos]).slowdowns[end]
        off = np.array([np.exp((end - 1) * solo.drift * self._z) for solo in solos])
        return simulated(cvs, rates, batches, table, off=off, seed=seed, seconds=seconds)

    def _tables(self, law: SharingLaw, places: Sequence[int]) -> "_Tables":
        """Slowdowns of every subset of a mix that may be active at once."""
        count = len(places)
        masks = range(1, 2**count)
        groups = [[place for place in range(count) if mask >> place & 1] for mask in masks]
        several = [number for number, group in enumerate(groups) if len(group) > 1]
        slowdowns = np.ones((3, 2**count, count))
        basis = "measured alone, queues simulated" if self.is_closer else "measured alone"
        weights = np.zeros((count, count))
        if several:
            rows = mixes_of([[places[one] for one in groups[number]] for number in several])
            found = law.predictor.slowdowns(rows)
            for row, number in enumerate(several):
                group, mask = groups[number], number + 1
                for at, one in enumerate(group):
                    slowdowns[:, mask, one] = self._ends(law, found, row, at)
            whole = len(several) - 1
            basis = self._basis(law, found.basis[whole], int(found.count[whole].max()))
            for place in range(count):
                others = [other for other in range(count) if other != place]
                row_of = np.array([[places[place], *(places[one] for one in others)]])
                weights[place, others] = law.predictor.setting.weights(row_of)[0]
        return _Tables(np.maximum(slowdowns, 1.0), weights, basis)

    def _ends(self, law: SharingLaw, found: Slowdowns, row: int, at: int) -> list[float]:
        estimate = float(found.estimate[row, at])
        high = float(found.high[row, at])
        several = law.predictor.evidence.cells >= 3
        # The prior's interval is as wide as its error before anything was measured; a few mixes say more.
        by_prior = found.basis[row, at] != MEASURED and not law.predictor.widths.relative
        if np.isnan(high) or (by_prior and several):
            wrong = law.predictor.left_out_quantile(0.9) if several else NOT_VALIDATED
            half = float(np.log1p(wrong))
        else:
            half = float(np.log(high / estimate))
        wide = half * self._z / _TWO_SIDED
        return [estimate * float(np.exp(-wide)), estimate, estimate * float(np.exp(wide))]

    def _basis(self, law: SharingLaw, codes: Ints, blocks: int) -> str:
        queues = ", queues simulated" if self.is_closer else ""
        if codes[0] == MEASURED:
            return f"measured ({amount(blocks, 'block')}){queues}"
        cells = law.predictor.evidence.cells
        if cells:
            return f"predicted from {amount(cells, 'measured mix', 'measured mixes')}{queues}"
        return f"measured alone, mixes by the prior{queues}"


@dataclass(frozen=True, slots=True)
class _Tables:
    slowdowns: Floats
    """Indexed by end, set of active tenants, tenant."""
    weights: Floats
    basis: str


def simulated(
    cv: Sequence[float], rates: Sequence[float], batches: Sequence[Batches], table: Floats,
    *, off: Floats, seed: int, seconds: float | None = None,
) -> list[Floats]:  # fmt: skip
    """Latencies of the requests of a mix; a tenant without a rate is always active and has none.

    Args:
        cv: Burstiness, by tenant.
        rates: Requests per second.
        batches: Measured times.
        table: Slowdown by set of active tenants and tenant.
        off: Factor on the times of each tenant.
        seed: Seed of arrivals and draws.
        seconds: Duration; default: enough for a tail of the slowest.
    """
    random = np.random.default_rng(seed)
    serving = [place for place, rate in enumerate(rates) if rate > 0]
    slowest = min((rates[place] for place in serving), default=1.0)
    total = sum(rates[place] for place in serving)
    if seconds is None:
        seconds = max(min(REQUESTS / slowest, MOST_REQUESTS / max(total, 1e-9)), SHORTEST_S)
    always = sum(1 << place for place in range(len(rates)) if place not in serving)
    queues = []
    for place, rate in enumerate(rates):
        if place not in serving:
            queues.append(Line(np.empty(0), np.empty(0)))
            continue
        load = Load(kind="gamma", rate_rps=rate, cv=max(cv[place], 0.05))
        due = arrivals_ns(load, seed=seed + place, horizon_s=seconds) / 1e9
        one = batches[place].single
        work = one.draw(due.size, random) * off[place]
        paused = None if one.after_pause_s is None else random.choice(one.after_pause_s, due.size) * off[place]
        queues.append(Line(due, work, paused, batches[place].growth.tolist()))
    masks = np.arange(len(table)) | always
    found = latencies(queues, 1 / table[masks])
    return [times if times.size else np.array([0.0]) for times in found]


def _first(objective: Objective) -> bool:
    return objective.metric == "ttft"


def _by_formula(batches: Batches, rate: float, cv: float, stretch: float, level: float) -> float:
    """Typical tail of a queue: the wait of one server, and the quantile of its service."""
    if batches.largest > 1 and rate > 0:
        return float(quantile(batches.service(stretch), np.array(rate), cv, level))
    solo = batches.single
    service = solo.mean_s * stretch
    load = rate * service
    if load >= 1:
        return float("inf")
    drawn = solo.drawn_s if solo.after_pause_s is None or load > MOSTLY_BUSY else solo.after_pause_s
    spread = float(np.var(drawn)) / solo.mean_s**2
    waiting = service * (cv**2 + spread) / 2 / (1 - load)
    queued = waiting * max(float(np.log(max(load, 1e-12) / (1 - level))), 0.0)
    return float(np.quantile(drawn, level)) * stretch + queued


def most_of(sharing: str, cores: int) -> int:
    """Most tenants that a way to share a CPU can hold, and that a mix can be predicted for."""
    return min(cores, LARGEST) if sharing == "pinned" else LARGEST


def require_measured(missing: Sequence[str], device: str, file: str, *, reasons: Sequence[str] = ()) -> None:
    """Raises PredictionError with the commands that measure what is missing."""
    if missing:
        names = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
        have = "has" if len(missing) == 1 else "have"
        raise PredictionError(
            "; ".join((f"{names} {have} not been measured alone on {device}", *reasons)),
            hint=f"cotenant plan {file} --devices {device} --study measure.yaml, cotenant run measure.yaml, "
            "and plan again with --from RUN",
        )
