"""Prometheus' text format, read and written, and what servers say in it: waiting and running requests, cache use."""

import http.client
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from cotenant.clients.address import Address, ask

_LABELS = r'\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\}'
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ANY = r"[A-Za-z_:][A-Za-z0-9_:]*"
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class Exposed:
    """One sample of a page."""

    metric: str
    labels: Mapping[str, str]
    value: float


def exposed(text: str, metrics: Iterable[str] | None = None) -> Iterator[Exposed]:
    """The samples of a page whose values are numbers.

    Args:
        text: The page.
        metrics: Only of these; the others are skipped without being parsed, since pages can have thousands.
    """
    for metric, labels, value in _form(None if metrics is None else tuple(sorted(set(metrics)))).findall(text):
        try:
            number = float(value)
        except ValueError:
            continue
        if number == number:  # NaN: never set  # noqa: PLR0124
            yield Exposed(metric, read_labels(labels), number)


def read_labels(text: str) -> dict[str, str]:
    """`a="1",b="2"` as a dictionary."""
    return {name: _plain(value) for name, value in _LABEL.findall(text)} if text else {}


def _plain(value: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda escape: _ESCAPED[escape[0]], value) if "\\" in value else value


@lru_cache(maxsize=32)
def _form(metrics: tuple[str, ...] | None) -> re.Pattern[str]:
    names = _ANY if metrics is None else "|".join(map(re.escape, metrics)) or r"(?!)"
    return re.compile(rf"^({names})(?:{_LABELS})?[ \t]+(\S+)", re.MULTILINE)


# --- a page of our own

KIND = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Buckets(Protocol):
    """A histogram."""

    total: float
    count: int

    def buckets(self, most: float | None = None) -> Iterable[tuple[float, int]]:
        """Upper edges, and how many lie below."""


class MetricsPage:
    """Collects metrics, in order."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def put(self, name: str, kind: str, about: str, values: Iterable[tuple[Labels, float]]) -> None:
        """A counter or gauge."""
        self._head(name, kind, about)
        self._lines.extend(f"{name}{_labels(labels)} {value:.17g}" for labels, value in values)

    def histogram(
        self, name: str, about: str, values: Iterable[tuple[Labels, Buckets]], *, most: float | None = None
    ) -> None:
        """A histogram; buckets above ``most`` are left out."""
        self._head(name, "histogram", about)
        for labels, histogram in values:
            for edge, below in histogram.buckets(most):
                text = "+Inf" if edge == float("inf") else repr(float(edge))  # as Prometheus' own client for Python
                self._lines.append(f"{name}_bucket{_labels({**labels, 'le': text})} {below}")
            self._lines.append(f"{name}_sum{_labels(labels)} {histogram.total:.17g}")
            self._lines.append(f"{name}_count{_labels(labels)} {histogram.count}")

    def text(self) -> str:
        """The page."""
        return "\n".join(self._lines) + "\n"

    def _head(self, name: str, kind: str, about: str) -> None:
        self._lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# Servers' own metrics: waiting and running requests, cache use

LIMIT_S = 2.0
PATH = "/metrics"
Sensor = Literal["queue", "running", "kv_cache", "backlog"]


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """One metric of one server."""

    sensor: Sensor
    unit: str
    together: Literal["sum", "max"] = "sum"
    """How values of several models or engines are combined."""


_QUEUE, _RUNNING = KnownMetric("queue", "requests"), KnownMetric("running", "requests")
_CACHE = KnownMetric("kv_cache", "share", "max")
KNOWN: Mapping[str, KnownMetric] = {
    "vllm:num_requests_waiting": _QUEUE,
    "vllm:num_requests_running": _RUNNING,
    "vllm:kv_cache_usage_perc": _CACHE,
    "vllm:gpu_cache_usage_perc": _CACHE,
    "sglang:num_queue_reqs": _QUEUE,
    "sglang:num_running_reqs": _RUNNING,
    "sglang:token_usage": _CACHE,
    "te_queue_size": _QUEUE,
    "llamacpp:requests_deferred": _QUEUE,
    "llamacpp:requests_processing": _RUNNING,
    "llamacpp:kv_cache_usage_ratio": _CACHE,
    "nv_inference_pending_request_count": _QUEUE,
    "cotenant_backlog_seconds": KnownMetric("backlog", "s"),
}
"""By name, for any server; of two for one sensor, the first is read."""
SIZES: Mapping[str, tuple[str, ...]] = {
    "vllm:cache_config_info": ("kv_cache_size_tokens", "kv_cache_memory_bytes", "num_gpu_blocks")
}
"""Labels of metrics that give the size of the server's cache."""
ANSWERED = (
    "vllm:request_success_total",
    "sglang:num_requests_total",
    "te_request_success",
    "nv_inference_request_success",
)
"""Metrics that count answered requests."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric and its value."""

    metric: str
    known: KnownMetric
    value: float


def read_metrics(text: str) -> list[Reading]:
    """The known metrics in a page, one for each sensor: some servers publish a value under several names."""
    sizes: dict[str, float] = {}
    for sample in exposed(text, KNOWN):
        before = sizes.get(sample.metric)
        together = max if KNOWN[sample.metric].together == "max" else float.__add__
        sizes[sample.metric] = sample.value if before is None else together(before, sample.value)
    chosen: dict[Sensor, Reading] = {}
    for name, known in KNOWN.items():
        if name in sizes:
            chosen.setdefault(known.sensor, Reading(name, known, sizes[name]))
    return list(chosen.values())


def read_sizes(text: str) -> dict[str, int]:
    """The size of the server's cache, where reported."""
    sizes: dict[str, int] = {}
    for sample in exposed(text, SIZES):
        for label in SIZES[sample.metric]:
            value = sample.labels.get(label, "")
            if value.isdigit():
                sizes[label] = sizes.get(label, 0) + int(value)
    return sizes


def answered(text: str) -> int | None:
    """Requests that the server has answered, where it counts them."""
    counts = [sample.value for sample in exposed(text, ANSWERED)]
    return round(sum(counts)) if counts else None


def page_of(address: Address, path: str) -> str | None:
    """The metrics page; None if there is none."""
    try:
        status, body = ask(address, path, within_s=LIMIT_S)
    except (OSError, http.client.HTTPException):
        return None
    return body.decode(errors="replace") if status == 200 else None
