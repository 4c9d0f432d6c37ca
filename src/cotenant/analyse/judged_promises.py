"""Promises judged by attainment: kept, missed or can't tell, from the counted share of requests in time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.autocorrelation import Stretches, stretch_bounds
from cotenant.analyse.estimates.quantiles import latency_quantiles
from cotenant.analyse.sharing.cells import counts, usable
from cotenant.analyse.sharing.model_error import time_range, widened_quantile
from cotenant.analyse.sharing.slo import attainment_of, queries_needed
from cotenant.tenancy.interval import Interval, Missing, Number
from cotenant.tenancy.objective import Objective, read_objective
from cotenant.tenancy.plan_document import PlanDocument, PromisedTime
from cotenant.tenancy.records import Int64s, TenantObservation

CONFIDENCE = 0.95
"""Of a verdict. All requests in time keep a p99 from 299 requests on."""
NOT_COUNTED = "tokens weren't counted"

Verdict = Literal["kept", "missed", "can't tell"]
_ENDS = {
    "share": ("share_lo", "share_hi"),
    "expected_ms": ("lower_ms", "upper_ms"),
    "measured_ms": ("measured_lo", "measured_hi"),
}
"""Names of the ends of intervals in JSON."""
_VERDICTS: dict[str, Verdict] = {"met": "kept", "missed": "missed", "undecided": "can't tell"}


@dataclass(frozen=True, slots=True)
class JudgedPromise:
    """An objective of a tenant: what was promised, and what came."""

    tenant: str
    objective: str
    """Its label: `p99`, `ttft p95`."""
    limit_ms: float
    quantile: float
    """The share of requests that must be in time."""
    requests: int
    in_time: int
    share: Interval | None
    """Share in time, with a 95 % interval, exact for the equivalent number of independent ones."""
    verdict: Verdict
    more: int | None = None
    """Further requests that would decide if the share in time stayed the same; None if decided, or out of reach."""
    reason: str | None = None
    """Why nothing can be counted."""
    expected_ms: Interval | None = None
    """The plan's range of the quantile; None without a plan."""
    measured_ms: Interval | None = None
    """The quantile and its 95 % interval; None with too few requests."""

    @property
    def outside(self) -> float | None:
        """How far the measured quantile lies from the plan's range: 0 within, 0.2 if 20 % above it, -0.2 below."""
        if self.measured_ms is None or self.expected_ms is None:
            return None
        measured, (lower, upper) = self.measured_ms.est, self.expected_ms.ends
        if measured > upper > 0:
            return measured / upper - 1
        return min(measured / lower - 1, 0.0) if lower > 0 else 0.0

    @property
    def clearly_outside(self) -> bool:
        """The measured interval and the plan's range don't overlap."""
        if self.measured_ms is None or self.expected_ms is None:
            return False
        (lo, hi), (lower, upper) = (self.measured_ms.lo, self.measured_ms.hi), self.expected_ms.ends
        return (lo is not None and lo > upper) or (hi is not None and hi < lower)

    def to_json(self) -> dict[str, Any]:
        """Plain data, with what follows from it."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, ends in _ENDS.items():
            number = row[name]
            row |= {name: number and number.est, ends[0]: number and number.lo, ends[1]: number and number.hi}
        return row | {"outside": self.outside, "clearly_outside": self.clearly_outside}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "JudgedPromise":
        """From `to_json`, of another version perhaps."""
        row: dict[str, Any] = {name: data.get(name) for name in cls.__dataclass_fields__}
        numbers = {
            name: None if row[name] is None else Interval(row[name], data.get(lo), data.get(hi))
            for name, (lo, hi) in _ENDS.items()
        }
        return cls(**row | numbers)


def judge(
    tenant: str,
    objective: Objective,
    trials: Sequence[Stretches],
    *,
    quantile: Interval | None = None,
    promised: PromisedTime | None = None,
    reason: str | None = None,
) -> JudgedPromise:
    """The verdict from counts of requests in stretches.

    Args:
        tenant: Its name.
        objective: What was promised.
        trials: Requests and those in time, in stretches of each trial.
        quantile: The measured quantile in ms.
        promised: The plan's range.
        reason: Why nothing could be counted.
    """
    requests = sum(int(trial.sizes.sum()) for trial in trials)
    found = None if not requests else attainment_of(trials, objective.quantile, CONFIDENCE)
    needs = queries_needed(objective.quantile, 0, CONFIDENCE) if found is None else found.needs_n
    return JudgedPromise(
        tenant=tenant,
        objective=objective.label,
        limit_ms=objective.limit_ms,
        quantile=objective.quantile,
        requests=requests,
        in_time=sum(int(trial.hits.sum()) for trial in trials),
        share=found.share if found else None,
        verdict=_VERDICTS[found.answer] if found else "can't tell",
        more=None if needs is None or reason is not None else max(1, needs - requests),
        reason=reason,
        expected_ms=promised.range_ms if promised else None,
        measured_ms=quantile,
    )


def judge_plan(plan: PlanDocument, seen: Iterable[TenantObservation], *, served: bool) -> tuple[JudgedPromise, ...]:
    """Every objective of the plan that a run covers, each in the largest mix that has the tenant.

    Args:
        plan: The plan.
        seen: Observations with raw times, those of a cell consecutive.
        served: The requests came singly, as clients sent them. A run of the plan asks for what usually runs
            together as a single request, which adds the time to gather it.
    """
    seats = {name: (device, seat) for device, name, seat in plan.seats()}
    largest: dict[str, tuple[int, list[JudgedPromise]]] = {}
    usual = (
        observation for observation in seen if counts(observation) and usable(observation) and observation.of in seats
    )
    for (mix, *_, name, _), group in groupby(usual, key=_cell):
        size = len(mix.split("+"))
        if size <= largest.get(name, (0, []))[0]:
            continue
        trials, (device, seat) = list(group), seats[name]
        judged = []
        for label, promised in seat.expected.items():
            objective = read_objective(label, f"{promised.limit_ms!r}ms")
            waited_ms = 0.0 if served or objective.metric == "tpot" else device.gathered_ms(seat)
            judged.append(_judge_trials(name, objective, promised, trials, waited_ms))
        largest[name] = size, judged
    return tuple(row for name in seats if name in largest for row in largest[name][1])


def judge_watched(
    plan: PlanDocument, counted: Mapping[str, Sequence[Mapping[float, float]]]
) -> tuple[JudgedPromise, ...]:
    """Every objective of the plan that the buckets of watched servers show.

    A limit between two bounds is kept if it is kept at the bound below it, and missed if it is missed at that above.

    Args:
        plan: The plan.
        counted: By tenant, for each stretch of time: requests by upper bound of their seconds.
    """
    rows = []
    for name, seat in ((name, seat) for _, name, seat in plan.seats() if name in counted):
        for label, promised in seat.expected.items():
            objective = read_objective(label, f"{promised.limit_ms!r}ms")
            if objective.metric != "latency":
                rows.append(
                    judge(name, objective, (), promised=promised, reason="watched servers publish no such counts")
                )
                continue
            below, above = (
                judge(
                    name,
                    objective,
                    _counted_trials(counted[name], objective.limit_ms / 1e3, high=high),
                    promised=promised,
                )
                for high in (False, True)
            )
            decided = below if below.verdict == "kept" else above
            if decided is above and above.verdict == "kept":
                decided = replace(below, verdict="can't tell", more=None, reason="the limit lies between two buckets")
            rows.append(decided)
    return tuple(rows)


def _counted_trials(stretches: Sequence[Mapping[float, float]], limit_s: float, *, high: bool) -> list[Stretches]:
    sizes, hits = [], []
    for buckets in stretches:
        inside = [bound for bound in buckets if bound <= limit_s * (1 + 1e-9)]
        beyond = [bound for bound in buckets if bound >= limit_s * (1 - 1e-9)]
        total = max(buckets.values(), default=0.0)
        kept = min((buckets[bound] for bound in beyond), default=total) if high else max(
            (buckets[bound] for bound in inside), default=0.0
        )  # fmt: skip
        sizes.append(round(total))
        hits.append(min(round(kept), round(total)))
    return [Stretches(np.array(sizes), np.array(hits))] if sum(sizes) else []


def _cell(seen: TenantObservation) -> tuple[str, ...]:
    """What an observation has in common with others of its cell, in whatever run."""
    return seen.mix, seen.device, seen.sharing, seen.settings, seen.load, seen.of, seen.tenant


def _judge_trials(
    name: str, objective: Objective, promised: PromisedTime, trials: Sequence[TenantObservation], waited_ms: float
) -> JudgedPromise:
    times = [_times_ns(seen, objective) for seen in trials]
    known = [(seen, values) for seen, values in zip(trials, times, strict=True) if values is not None]
    if not known:
        return judge(name, objective, (), promised=promised, reason=NOT_COUNTED if trials else None)
    limit_ns = (objective.limit_ms - waited_ms) * 1e6
    # A request without a second token has no time per token, and keeps any limit of it.
    free = [max(0, seen.n - values.size) if objective.metric == "tpot" else 0 for seen, values in known]
    stretches = [
        _stretches(values <= limit_ns, seen.unfinished, also, len(known))
        for (seen, values), also in zip(known, free, strict=True)
    ]
    lost = [seen.unfinished for seen, _ in known]
    quantile = latency_quantiles([values for _, values in known], [objective.quantile], lost)[objective.quantile]
    measured = _in_ms(quantile, waited_ms, trials[0])
    return judge(name, objective, stretches, quantile=measured, promised=promised)


def _times_ns(seen: TenantObservation, objective: Objective) -> Int64s | None:
    """What the objective limits, of each served request; None if it wasn't recorded."""
    if objective.metric == "latency":
        return seen.latency_ns
    if seen.token_times is None:
        return None if seen.n else np.empty(0, np.int64)
    return seen.token_times.ttft_ns if objective.metric == "ttft" else seen.token_times.tpot_ns


def _stretches(kept: npt.NDArray[np.bool_], unfinished: int, also_kept: int, trials: int) -> Stretches:
    """A trial's requests in stretches; those without a time, whose order isn't known, are spread over them."""
    bounds = stretch_bounds(kept.size + unfinished + also_kept, trials)
    pieces = bounds.size - 1
    parts = np.array_split(kept, pieces)
    lost = np.array([part.size for part in np.array_split(np.empty(unfinished), pieces)])
    free = np.array([part.size for part in np.array_split(np.empty(also_kept), pieces)])
    hits = np.array([int(part.sum()) for part in parts]) + free
    return Stretches(np.array([part.size for part in parts]) + free + lost, hits)


def _in_ms(quantile: Number, waited_ms: float, seen: TenantObservation) -> Interval | None:
    if isinstance(quantile, Missing):
        return None
    shown: Number = quantile.scaled(1e-6, waited_ms)
    if seen.model_error is not None:
        shown = widened_quantile(shown, time_range(seen.model_error, solo=seen.solo, tail=True))
    return None if isinstance(shown, Missing) else shown


def promise_sentence(rows: Sequence[JudgedPromise]) -> str:
    """`4 of 5 objectives kept; missed: chat; can't tell: tags`."""
    text = f"{sum(row.verdict == 'kept' for row in rows)} of {len(rows)} objective{'s'[: len(rows) != 1]} kept"
    return text + "".join(_named(rows))


def _named(rows: Sequence[JudgedPromise]) -> Iterator[str]:
    for verdict in ("missed", "can't tell"):
        names = list(dict.fromkeys(row.tenant for row in rows if row.verdict == verdict))
        if names:
            yield f"; {verdict}: {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class PlanAndReality:
    """A plan and a run of it."""

    plan: str
    runs: tuple[str, ...]
    rows: tuple[JudgedPromise, ...]
    simulated: bool
    """The run is from a simulated device."""

    @property
    def missed(self) -> bool:
        """An objective promised by the plan was missed."""
        return any(row.verdict == "missed" for row in self.rows)

    @property
    def kept(self) -> bool:
        """Every objective that the run covers was kept."""
        return all(row.verdict == "kept" for row in self.rows)
