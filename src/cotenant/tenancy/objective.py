"""What a tenant must achieve: `slo: {p99: 30ms}`, `{ttft p95: 300ms, tpot p95: 40ms}`, or short `50ms`, `p95 50ms`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from cotenant.scheduling import Contract, ServiceClass
from cotenant.tenancy.values import LATENCY_SCHEMA, quantile_written, read_latency
from cotenant.tenancy.words import did_you_mean, expected, key_shown

Metric = Literal["latency", "ttft", "tpot"]
METRICS: tuple[Metric, ...] = get_args(Metric)
"""Time of a complete request; until its first token; mean time per output token after that."""
DEFAULT_QUANTILE = 0.99
_KEY = r"^\s*(?:(latency|ttft|tpot)(?:\s+p(\d{1,2}(?:\.\d+)?))?|p(\d{1,2}(?:\.\d+)?))\s*$"
_FORMS = ("p99", "latency", "ttft", "tpot", "ttft p95", "tpot p95")


@dataclass(frozen=True, slots=True)
class Objective:
    """This quantile of a metric of the tenant's requests stays within this time."""

    metric: Metric
    quantile: float
    limit_ms: float

    @property
    def label(self) -> str:
        """`p99`, `ttft p95`: the key in a file."""
        quantile = quantile_written(self.quantile)
        return quantile if self.metric == "latency" else f"{self.metric} {quantile}"


Objectives = tuple[Objective, ...]
"""All of a tenant, at most an objective per metric."""


def read_objectives(value: Any) -> Objectives:
    """Objectives as written in a file. Raises ValueError with the complete sentence."""
    if value is None:
        return ()
    if isinstance(value, tuple) and all(isinstance(objective, Objective) for objective in value):
        return value
    if isinstance(value, str | int | float):
        key, _, limit = str(value).strip().rpartition(" ")
        if is_objective(key):  # p99 30ms
            return (read_objective(key, limit),)
        return (Objective("latency", DEFAULT_QUANTILE, _ms(value)),)
    if not isinstance(value, Mapping) or not value:
        raise expected("an objective such as 50ms, {p99: 30ms} or {ttft p95: 300ms, tpot p95: 40ms}", value)
    by_metric: dict[Metric, Objective] = {}
    for key, limit in value.items():
        objective = read_objective(str(key), limit)
        if objective.metric in by_metric:
            raise ValueError(f"{objective.metric} has more than one limit; give each metric one quantile and one time")
        by_metric[objective.metric] = objective
    return tuple(by_metric[metric] for metric in METRICS if metric in by_metric)


def is_objective(key: str) -> bool:
    """Whether this is the key of an objective: p99, ttft, tpot p95."""
    return re.match(_KEY, key) is not None


def read_objective(key: str, limit: Any) -> Objective:
    """An objective from its key and its time; without a quantile it is the 99th percentile."""
    match = re.match(_KEY, key)
    if match is None:
        raise ValueError(
            f"{key_shown(key)} is not an objective; expected p99, ttft p95, tpot p95 or the like"
            f"{did_you_mean(key, _FORMS)}"
        )
    metric = next(metric for metric in METRICS if metric == (match.group(1) or "latency"))
    digits = match.group(2) or match.group(3)
    quantile = float(Decimal(digits) / 100) if digits else DEFAULT_QUANTILE
    if not 0 < quantile < 1:
        raise expected("a quantile such as p99 or p99.9", key)
    return Objective(metric, quantile, _ms(limit))


def objectives_written(objectives: Iterable[Objective]) -> dict[str, str]:
    """Objectives in the syntax of a file."""
    return {objective.label: f"{Decimal(repr(objective.limit_ms)).normalize():f}ms" for objective in objectives}


def objective_for(objectives: Iterable[Objective], metric: Metric) -> Objective | None:
    """The objective of a metric, if any."""
    return next((objective for objective in objectives if objective.metric == metric), None)


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a request is due: ``latency_s`` after its arrival, plus ``per_step_s`` per token for decoders."""

    latency_s: float
    per_step_s: float
    quantile: float
    """Fraction of requests that must be in time."""

    @classmethod
    def of(cls, objectives: Objectives) -> Self:
        """The deadline that keeps the objectives. Raises ValueError.

        Where only the first token has an objective, each of the others may take as long.
        """
        latency, first, step = (objective_for(objectives, metric) for metric in METRICS)
        whole = latency or first
        if whole is None or (latency is not None and (first is not None or step is not None)):
            raise ValueError("state one latency, or ttft and tpot")
        quantile = max(objective.quantile for objective in objectives)
        each = step or (first if latency is None else None)
        return cls(whole.limit_ms / 1e3, each.limit_ms / 1e3 if each else 0.0, quantile)


def contract_of(
    name: str, objectives: Objectives, *, share: float | str | None, hard: bool, best_effort: bool
) -> Contract:
    """A tenant's contract with the server that orders its requests; a share is in per cent. Raises ValueError."""
    due, part = Deadline.of(objectives), share / 100 if isinstance(share, float) else None
    service = ServiceClass.BEST_EFFORT if best_effort else ServiceClass.GUARANTEED
    return Contract(name, due.latency_s, part, hard, service, per_step_s=due.per_step_s)


def slo_columns(objectives: Objectives) -> dict[str, float | None]:
    """Their columns of the tenants table."""
    columns: dict[str, float | None] = {}
    for metric, prefix in (("latency", "slo"), ("ttft", "ttft_slo"), ("tpot", "tpot_slo")):
        objective = objective_for(objectives, metric)  # type: ignore[arg-type] # a metric
        columns[f"{prefix}_ms"] = objective.limit_ms if objective else None
        columns[f"{prefix}_quantile"] = objective.quantile if objective else None
    return columns


def _ms(limit: Any) -> float:
    return float(Decimal(repr(read_latency(limit))) * 1000)


ObjectivesText = Annotated[
    Objectives,
    PlainValidator(read_objectives),
    PlainSerializer(lambda objectives: objectives_written(objectives) or None),
    WithJsonSchema(
        {
            "anyOf": [
                LATENCY_SCHEMA,
                {
                    "type": "object",
                    "additionalProperties": LATENCY_SCHEMA,
                    "propertyNames": {"pattern": _KEY},
                    "minProperties": 1,
                },
            ]
        }
    ),
]
