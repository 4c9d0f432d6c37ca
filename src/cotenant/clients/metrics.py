"""Servers' own Prometheus metrics: waiting and running requests, cache use."""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cotenant.clients.address import Address
from cotenant.clients.asking import ask
from cotenant.clients.exposition import exposed

LIMIT_S = 2.0
PATH = "/metrics"
Sensor = Literal["queue", "running", "kv_cache", "backlog"]


@dataclass(frozen=True, slots=True)
class Known:
    """One metric of one server."""

    sensor: Sensor
    unit: str
    together: Literal["sum", "max"] = "sum"
    """How values of several models or engines are combined."""


_QUEUE, _RUNNING = Known("queue", "requests"), Known("running", "requests")
_CACHE = Known("kv_cache", "share", "max")
KNOWN: Mapping[str, Known] = {
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
    "cotenant_backlog_seconds": Known("backlog", "s"),
}
"""By name, for any server; of two for one sensor, the first is read."""
SIZES: Mapping[str, tuple[str, ...]] = {
    "vllm:cache_config_info": ("kv_cache_size_tokens", "kv_cache_memory_bytes", "num_gpu_blocks")
}
"""Labels of metrics that give the size of the server's cache."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric and its value."""

    metric: str
    known: Known
    value: float


def read_metrics(text: str) -> list[Reading]:
    """The known metrics in a page, one for each sensor: some servers publish a value under several names."""
    found: dict[str, float] = {}
    for sample in exposed(text, KNOWN):
        before = found.get(sample.metric)
        together = max if KNOWN[sample.metric].together == "max" else float.__add__
        found[sample.metric] = sample.value if before is None else together(before, sample.value)
    chosen: dict[Sensor, Reading] = {}
    for name, known in KNOWN.items():
        if name in found:
            chosen.setdefault(known.sensor, Reading(name, known, found[name]))
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


def page_of(address: Address, path: str) -> str | None:
    """The metrics page; None if there is none."""
    try:
        status, body = ask(address, path, within_s=LIMIT_S)
    except (OSError, http.client.HTTPException):
        return None
    return body.decode(errors="replace") if status == 200 else None
