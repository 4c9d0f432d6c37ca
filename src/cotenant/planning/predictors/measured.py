"""Predictions for planning on a real CPU: measured times alone, measured or predicted slowdowns, simulated queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cotenant.errors import PredictionError
from cotenant.planning.mixes.batching import quantile
from cotenant.planning.mixes.predictor import Mixes, PredictedMix, Range
from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.planning.predictors.run_evidence import costs_sentence
from cotenant.planning.predictors.solo import Batches
from cotenant.planning.solver.problem import Floats, Ints
from cotenant.prediction.interference import LARGEST, MEASURED, Predictor, Slowdowns, mixes_of, stretched
from cotenant.scheduling.simulation import Line, Replications, latencies
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.objective import Objective
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.planning.predictors.solo import SoloTimes

NOT_VALIDATED = 0.5
"""Relative error assumed for a slowdown without any validation."""
REQUESTS, MOST_REQUESTS = 1500, 12000
"""Simulated requests: of the slowest tenant, and in total."""
NEVER_VALID = ", but never valid alone"
SEEDS = 8
"""Times that a mix is simulated."""
SHORTEST_S = 5.0
MOSTLY_BUSY = 0.5
"""Load above which the formula takes requests to follow each other without a pause."""
_TWO_SIDED = 1.645
"""Half-width of the interference predictor's 90 % intervals in standard deviations."""


@dataclass(frozen=True, slots=True)
class SharingLaw:
    """Slowdowns of any mix under a way to share; indexed like the solos."""

    predictor: Predictor
    most: int
    """Tenants at once."""


class Measured:
    """Answers for mixes on a kind of device; `closer` simulates the queues as well."""

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
        predictor = Measured(self.tenants, self.solos, self.laws, risk=0.1, closer=True, seed=self.seed)
        predictor._z = self._z
        return predictor

    def at_costs(self, costs_s: Mapping[str, float]) -> "tuple[Measured, str]":
        """The same with single requests as long as served ones, and the costs in a sentence.

        Args:
            costs_s: By tenant: the usual time of a request on the device.
        """
        costs, solos = [], dict(self.solos)
        for (number, batch), solo in self.solos.items():
            name = self.tenants[number].name
            if batch == 1 and name in costs_s:
                costs.append((name, solo.usual_s, costs_s[name]))
                solos[number, batch] = solo.slower(costs_s[name] / solo.usual_s)
        predictor = Measured(self.tenants, solos, self.laws, risk=0.1, closer=self.is_closer, seed=self.seed)
        predictor._z = self._z
        return predictor, costs_sentence(costs)

    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """What would happen."""
        rows = [self._row(mixes, row) for row in range(len(mixes.tenants))]
        late = np.stack([row[0] for row in rows])
        slow = np.stack([row[1] for row in rows])
        seats = [[self._seat(mixes, row, seat) for seat in range(late.shape[2])] for row in range(len(rows))]
        return PredictedMix(
            latency_ms=Range(*np.moveaxis(late, 1, 0)),
            slowdown=Range(*np.moveaxis(slow, 1, 0)),
            memory_bytes=np.array([[0.0 if seat is None else seat[0].memory_bytes for seat in row] for row in seats]),
            busy=np.array([sum(seat[1] * seat[0].cores for seat in row if seat) for row in seats]),
            bandwidth=np.array([sum(seat[1] * seat[0].bandwidth for seat in row if seat) for row in seats]),
            power_w=np.zeros(len(rows)),
            basis=tuple(row[2] for row in rows),
            together=self._together(mixes, slow[:, 1]),
        )

    def _seat(self, mixes: Mixes, row: int, seat: int) -> "tuple[SoloTimes, float] | None":
        """The measurement for a seat and the share of time it is busy; None if the seat is empty or not measured."""
        batches = self._batches(int(mixes.tenants[row, seat]), int(mixes.batch[row, seat]))
        if batches is None:
            return None
        rate = float(mixes.rate_rps[row, seat])
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
        for row, seat in zip(*np.nonzero(mixes.there), strict=True):
            batches = self._batches(int(mixes.tenants[row, seat]), int(mixes.batch[row, seat]))
            if batches is not None and np.isfinite(stretch[row, seat]):
                usual = batches.usual(float(mixes.rate_rps[row, seat]), float(stretch[row, seat]))
                result[row, seat] = int(np.ceil(usual - 1e-9))
        return result

    def _row(self, mixes: Mixes, row: int) -> tuple[Floats, Floats, str]:
        """Ends x seats x objectives of latency, ends x seats of slowdown, and the basis."""
        there = [seat for seat in range(mixes.tenants.shape[1]) if mixes.there[row, seat]]
        asked = tuple(
            (int(mixes.tenants[row, seat]), int(mixes.batch[row, seat]), round(float(mixes.rate_rps[row, seat]), 9))
            for seat in there
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
        known = [self._batches(*seat[:2]) for seat in asked]
        batches = [tenant for tenant in known if tenant is not None]
        if len(batches) < len(asked):
            return *never, "not measured alone"
        if len(asked) > law.most:
            return *never, f"at most {amount(law.most, 'tenant')}"
        sizes = [tenant.usual(rate) for tenant, (_, _, rate) in zip(batches, asked, strict=True)]
        solos = [tenant.like(size) for tenant, size in zip(batches, sizes, strict=True)]
        tables = self._tables(law, [solo.place for solo in solos])
        mean = np.array([tenant.mean_s(size) for tenant, size in zip(batches, sizes, strict=True)])
        rates = np.array([rate / size if rate > 0 else np.nan for (*_, rate), size in zip(asked, sizes, strict=True)])
        late, slow = [], []
        for end, table in zip((-1, 0, 1), tables.slowdowns, strict=True):
            off = np.array([np.exp(end * solo.drift * self._z) for solo in solos])
            stretch = stretched(mean * off, table[-1], tables.weights, rates) / mean
            slow.append(stretch)
            with np.errstate(divide="ignore", invalid="ignore"):
                late.append(self._late(asked, batches, table, off, stretch)[end + 1])
        basis = tables.basis + NEVER_VALID * any(solo.doubted for solo in solos)
        return np.array(late), np.maximum.accumulate(np.array(slow), axis=0), basis

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
        for seat, (number, _, rate) in enumerate(asked):
            tenant, service = self.tenants[number], batches[seat]
            for which, objective in enumerate(tenant.objectives):
                if objective.metric == "tpot":
                    result[:, seat, which] = 1e3 * (service.solos[service.largest].step_s or 0.0) * stretch[seat]
                    continue
                at = objective.quantile
                whole = (
                    np.full(3, _by_formula(service, rate, tenant.cv, stretch[seat], at))
                    if queues is None
                    else np.array(queues[seat].quantile(at))
                )
                first = service.single.first_s
                rest = (service.single.mean_s - first) * stretch[seat] if _first(objective) and first else 0.0
                result[:, seat, which] = 1e3 * np.maximum(whole - rest, 0.0)
        return result

    def simulate(
        self, sharing: str, asked: Sequence[tuple[int, int, float]], cvs: Sequence[float],
        *, end: int, seed: int, seconds: float,
    ) -> list[Floats]:  # fmt: skip
        """Latencies of the requests of a mix, in seconds.

        Args:
            sharing: The way to share; `alone` for a single tenant.
            asked: Tenant, batch and items per second of every seat.
            cvs: Burstiness of each.
            end: 0, 1, 2: the lower end, the estimate, the upper end.
            seed: Seed of arrivals and draws.
            seconds: Simulated time.
        """
        law = self.laws[next(iter(self.laws)) if sharing == "alone" else sharing]
        batches = [tenant for tenant in (self._batches(*seat[:2]) for seat in asked) if tenant is not None]
        assert len(batches) == len(asked), "a plan is only made of measured tenants"
        rates = [rate for *_, rate in asked]
        solos = [tenant.like(tenant.usual(rate)) for tenant, rate in zip(batches, rates, strict=True)]
        table = self._tables(law, [solo.place for solo in solos]).slowdowns[end]
        off = np.array([np.exp((end - 1) * solo.drift * self._z) for solo in solos])
        return simulated(cvs, rates, batches, table, off=off, seed=seed, seconds=seconds)

    def _tables(self, law: SharingLaw, places: Sequence[int]) -> "_Tables":
        """Slowdowns of every subset of a mix that may be active at once."""
        count = len(places)
        masks = range(1, 2**count)
        groups = [[member for member in range(count) if mask >> member & 1] for mask in masks]
        several = [number for number, group in enumerate(groups) if len(group) > 1]
        slowdowns = np.ones((3, 2**count, count))
        basis = "measured alone, queues simulated" if self.is_closer else "measured alone"
        weights = np.zeros((count, count))
        if several:
            rows = mixes_of([[places[seat] for seat in groups[number]] for number in several])
            predicted = law.predictor.slowdowns(rows)
            for row, number in enumerate(several):
                group, mask = groups[number], number + 1
                for at, seat in enumerate(group):
                    slowdowns[:, mask, seat] = self._ends(law, predicted, row, at)
            whole = len(several) - 1
            basis = self._basis(law, predicted.basis[whole], int(predicted.count[whole].max()))
            for tenant in range(count):
                others = [other for other in range(count) if other != tenant]
                row_of = np.array([[places[tenant], *(places[seat] for seat in others)]])
                weights[tenant, others] = law.predictor.setting.weights(row_of)[0]
        return _Tables(np.maximum(slowdowns, 1.0), weights, basis)

    def _ends(self, law: SharingLaw, predicted: Slowdowns, row: int, at: int) -> list[float]:
        estimate = float(predicted.estimate[row, at])
        high = float(predicted.high[row, at])
        several = law.predictor.evidence.cells >= 3
        # The prior's interval is as wide as its error before anything was measured; a few mixes say more.
        by_prior = predicted.basis[row, at] != MEASURED and not law.predictor.widths.relative
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
    serving = [number for number, rate in enumerate(rates) if rate > 0]
    slowest = min((rates[number] for number in serving), default=1.0)
    total = sum(rates[number] for number in serving)
    if seconds is None:
        seconds = max(min(REQUESTS / slowest, MOST_REQUESTS / max(total, 1e-9)), SHORTEST_S)
    always = sum(1 << number for number in range(len(rates)) if number not in serving)
    queues = []
    for number, rate in enumerate(rates):
        if number not in serving:
            queues.append(Line(np.empty(0), np.empty(0)))
            continue
        load = Load(kind="gamma", rate_rps=rate, cv=max(cv[number], 0.05))
        due = arrivals_ns(load, seed=seed + number, horizon_s=seconds) / 1e9
        solo = batches[number].single
        work = solo.draw(due.size, random) * off[number]
        paused = None if solo.after_pause_s is None else random.choice(solo.after_pause_s, due.size) * off[number]
        queues.append(Line(due, work, paused, batches[number].growth.tolist()))
    masks = np.arange(len(table)) | always
    latencies_s = latencies(queues, 1 / table[masks])
    return [times if times.size else np.array([0.0]) for times in latencies_s]


def _first(objective: Objective) -> bool:
    return objective.metric == "ttft"


def _by_formula(batches: Batches, rate: float, cv: float, stretch: float, level: float) -> float:
    """Typical tail of a queue: the wait for a single server, plus the quantile of its service."""
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
