"""What servers publish about themselves: which metric of which software counts requests, their time and their tokens.

Names are from the servers' documentation and source as of 2026.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cotenant.clients.exposition import Exposed, read_labels
from cotenant.errors import WatchError

Role = Literal[
    "requests", "latency_s", "latency_count", "token_s", "token_count", "first_s", "first_count", "tokens_in",
    "tokens_out", "device_s",
]  # fmt: skip
"""Totals of a tenant since its server started. `latency_s` is the sum over `latency_count` requests, and so on."""
Measured = Literal["latency", "token", "first"]
BUCKET = "_bucket"


@dataclass(frozen=True, slots=True)
class Software:
    """The metrics of one kind of server."""

    name: str
    tenant: tuple[str, ...]
    """Labels that name the tenant, the first that is there."""
    totals: Mapping[str, Role]
    histograms: Mapping[str, Measured] = field(default_factory=dict)
    """Histograms or summaries, without `_sum`, `_count` and `_bucket`."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """Seconds in the unit of a metric, where that isn't seconds."""
    share: str | None = None
    """A gauge: the fraction of the device that the tenant is guaranteed."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Labels that a sample must have."""

    @property
    def metrics(self) -> frozenset[str]:
        """Every name that a page or a query can have of it."""
        ends = ("_sum", "_count", BUCKET)
        parts = {f"{name}{end}" for name in self.histograms for end in ends}
        return frozenset({*self.totals, *parts, *([self.share] if self.share else [])})


def _engine(prefix: str, name: str, requests: str) -> Software:
    """vLLM, and SGLang, which took over its names."""
    return Software(
        name,
        ("model_name",),
        {
            f"{prefix}:{requests}": "requests",
            f"{prefix}:prompt_tokens_total": "tokens_in",
            f"{prefix}:generation_tokens_total": "tokens_out",
        },
        {
            f"{prefix}:e2e_request_latency_seconds": "latency",
            f"{prefix}:time_to_first_token_seconds": "first",
            f"{prefix}:inter_token_latency_seconds": "token",
            f"{prefix}:time_per_output_token_seconds": "token",
        },
    )


COTENANT = Software(
    "cotenant",
    ("tenant",),
    {
        "cotenant_requests_served_total": "requests",
        "cotenant_tokens_total": "tokens_out",
        "cotenant_device_seconds_total": "device_s",
    },
    {"cotenant_latency_seconds": "latency"},
    share="cotenant_share",
)
KNOWN_SOFTWARE: tuple[Software, ...] = (
    COTENANT,
    _engine("vllm", "vLLM", "request_success_total"),
    _engine("sglang", "SGLang", "num_requests_total"),
    Software(
        "Triton",
        ("model",),
        {
            "nv_inference_request_success": "requests",
            "nv_inference_request_duration_us": "latency_s",
            "nv_inference_compute_infer_duration_us": "device_s",
        },
        scale={"nv_inference_request_duration_us": 1e-6, "nv_inference_compute_infer_duration_us": 1e-6},
    ),
    Software("TEI", (), {"te_request_success": "requests"}, {"te_request_duration": "latency"}),
    Software(
        "llama.cpp",
        (),
        {
            "llamacpp:prompt_tokens_total": "tokens_in",
            "llamacpp:tokens_predicted_total": "tokens_out",
            "llamacpp:tokens_predicted_seconds_total": "token_s",
        },
    ),
)
"""In order: cotenant also publishes some of its figures under the names of others."""


@dataclass(slots=True)
class Published:
    """What a server has published of one tenant, at one time."""

    tenant: str
    """The name in the labels; empty if there is none."""
    software: str
    totals: dict[str, float] = field(default_factory=dict)
    """By role."""
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    """Requests (or tokens) that took at most so many seconds, by bound."""
    share: float | None = None

    def add(self, role: str, value: float) -> None:
        """Add what another model, engine or handler of the same tenant counts."""
        self.totals[role] = self.totals.get(role, 0.0) + value


def named_histogram(text: str) -> Software:
    """A histogram of any server, from the command line: `http_request_duration_seconds{handler="/embed"}`.

    Raises:
        WatchError: It isn't the name of a metric.
    """
    name, brace, rest = text.strip().partition("{")
    where = read_labels(rest.removesuffix("}"))
    plain = name.replace(":", "").replace("_", "a")
    if not (plain.isascii() and plain.isalnum() and not name[0].isdigit()) or (brace and not where):
        raise WatchError(
            f"`{text}` is not the name of a histogram",
            hint='write it as on the page: http_request_duration_seconds, or with labels: name{handler="/embed"}',
        )
    for end in ("_sum", "_count", BUCKET):
        name = name.removesuffix(end)
    ends = {"_milliseconds": 1e-3, "_ms": 1e-3, "_microseconds": 1e-6, "_us": 1e-6}
    unit = next((scale for end, scale in ends.items() if name.endswith(end)), 1.0)
    return Software("histogram", (), {}, {name: "latency"}, {name: unit}, where=where)


def read_published(samples: Iterable[Exposed], known: Sequence[Software] = KNOWN_SOFTWARE) -> list[Published]:
    """The tenants of a page, of the first software in ``known`` that it has metrics of; empty if of none."""
    every = list(samples)
    for software in known:
        names = software.metrics
        mine = [
            sample for sample in every if sample.metric in names and software.where.items() <= sample.labels.items()
        ]
        if tenants := _tenants(software, mine):
            return tenants
    return []


def _tenants(software: Software, samples: Sequence[Exposed]) -> list[Published]:
    by_name: dict[str, Published] = {}
    # Of two names for one quantity (an old and a new one) only the first counts.
    used: dict[tuple[str, str], str] = {}
    for sample in samples:
        name = next((text for label in software.tenant if (text := sample.labels.get(label))), "")
        role, base = _role(software, sample.metric)
        if used.setdefault((name, role), base) != base:
            continue
        published = by_name.setdefault(name, Published(name, software.name))
        value = sample.value * software.scale.get(base, 1.0)
        if role == "share":
            published.share = sample.value
        elif role.endswith(BUCKET):
            _put_bucket(published, role, sample, software.scale.get(base, 1.0))
        else:
            published.add(role, value if role.endswith("_s") else sample.value)
    for published in by_name.values():
        _complete(published)
    return [published for published in by_name.values() if published.totals]


def _role(software: Software, metric: str) -> tuple[str, str]:
    """What a metric stands for, and its name without endings."""
    if metric == software.share:
        return "share", metric
    if metric in software.totals:
        return software.totals[metric], metric
    base = next(metric.removesuffix(end) for end in ("_sum", "_count", BUCKET) if metric.endswith(end))
    measured = software.histograms[base]
    end = metric.removeprefix(base)
    return {"_sum": f"{measured}_s", "_count": f"{measured}_count"}.get(end, f"{measured}{BUCKET}"), base


def _put_bucket(published: Published, role: str, sample: Exposed, unit: float) -> None:
    try:
        bound = float(sample.labels.get("le", "nan")) * unit
    except ValueError:
        return
    if not math.isnan(bound):
        counts = published.buckets.setdefault(role.removesuffix(BUCKET), {})
        counts[bound] = counts.get(bound, 0.0) + sample.value


def _complete(published: Published) -> None:
    """Fill in a count that the software publishes under another name."""
    totals = published.totals
    if "requests" not in totals and "latency_count" in totals:
        totals["requests"] = totals["latency_count"]
    if "latency_s" in totals and "latency_count" not in totals and "requests" in totals:
        totals["latency_count"] = totals["requests"]
    if "token_s" in totals and "token_count" not in totals and "tokens_out" in totals:
        totals["token_count"] = totals["tokens_out"]
