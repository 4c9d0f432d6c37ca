"""Prometheus' text format: our own names, and those known to dashboards of other servers."""

from collections.abc import Iterable, Mapping

from cotenant.serving.http.messages import Reply, Request
from cotenant.serving.measures import BUCKETS_S, TenantMeasures
from cotenant.serving.service import Service

KIND = "text/plain; version=0.0.4; charset=utf-8"
Row = tuple[Mapping[str, str], float]


async def metrics(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """All of them."""
    del request, parts
    return Reply(200, render(service).encode(), KIND)


def render(service: Service) -> str:
    """The page."""
    standings = service.standings()
    rows = {name: service.measures.of(name) for name in service.tenants}
    lines: list[str] = []

    def put(name: str, kind: str, about: str, values: Iterable[Row]) -> None:
        lines.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}"))
        lines.extend(f"{name}{_labels(labels)} {value:.17g}" for labels, value in values)

    def each(name: str) -> dict[str, str]:
        return {"tenant": name}

    put("cotenant_requests_served_total", "counter", "Requests answered with a result.",
        ((each(n), m.served) for n, m in rows.items()))  # fmt: skip
    put("cotenant_requests_within_objective_total", "counter", "Requests answered within their objective.",
        ((each(n), m.within) for n, m in rows.items()))  # fmt: skip
    put("cotenant_requests_not_served_total", "counter", "Requests shed, failed or cancelled, by reason.",
        (({"tenant": n, "why": why}, count) for n, m in rows.items() for why, count in m.why.items()))  # fmt: skip
    put("cotenant_device_seconds_total", "counter", "Device time spent on answered requests.",
        ((each(n), m.device_s) for n, m in rows.items()))  # fmt: skip
    put("cotenant_predicted_device_seconds_total", "counter", "Predicted device time of the same requests.",
        ((each(n), m.predicted_s) for n, m in rows.items()))  # fmt: skip
    put("cotenant_tokens_total", "counter", "Tokens made.", ((each(n), m.tokens) for n, m in rows.items()))
    put("cotenant_share", "gauge", "Guaranteed fraction of the device.",
        ((each(s.tenant), s.share_rate) for s in standings))  # fmt: skip
    put("cotenant_backlog_seconds", "gauge", "Device time of waiting requests.",
        ((each(s.tenant), s.backlog_s) for s in standings))  # fmt: skip
    put("cotenant_attainment", "gauge", "Fraction of recent conforming requests served in time.",
        ((each(s.tenant), min(1.0, s.attained)) for s in standings))  # fmt: skip
    put("cotenant_request_cost_seconds", "gauge", "Current device time of a typical request.",
        ((each(s.tenant), s.request_s) for s in standings))  # fmt: skip
    put("cotenant_tenant_ready", "gauge", "1 if the tenant can be served now.",
        ((each(n), float(service.ready(n))) for n in rows))  # fmt: skip
    put("cotenant_worker_restarts_total", "counter", "Restarts of worker processes.",
        (({"tenants": "+".join(one["tenants"])}, one["restarts"]) for one in service.workers()))  # fmt: skip
    put("cotenant_requests_in_flight", "gauge", "Unanswered requests.",
        [({}, service.in_flight)])  # fmt: skip
    put("cotenant_device_slowdown", "gauge", "Current ratio of device time to prediction.",
        [({}, service.slowdown)])  # fmt: skip
    put("cotenant_device_busy_seconds_total", "counter", "Total time of chunks.", [({}, service.busy_s)])
    lines += _histogram(service)
    put("nv_inference_request_success", "counter", "As in Triton.",
        (({"model": n, "version": "1"}, m.served) for n, m in rows.items()))  # fmt: skip
    put("nv_inference_request_failure", "counter", "As in Triton.",
        (({"model": n, "version": "1"}, m.asked - m.served) for n, m in rows.items()))  # fmt: skip
    put("nv_inference_queue_duration_us", "counter", "As in Triton.",
        (({"model": n, "version": "1"}, m.queue_s * 1e6) for n, m in rows.items()))  # fmt: skip
    put("nv_inference_count", "counter", "As in Triton.",
        (({"model": n, "version": "1"}, m.served) for n, m in rows.items()))  # fmt: skip
    put("nv_inference_request_duration_us", "counter", "As in Triton.",
        (({"model": n, "version": "1"}, m.latency_s * 1e6) for n, m in rows.items()))  # fmt: skip
    put("nv_inference_compute_infer_duration_us", "counter", "As in Triton.",
        (({"model": n, "version": "1"}, m.device_s * 1e6) for n, m in rows.items()))  # fmt: skip
    waiting, begun = service.under_way()
    put("nv_inference_pending_request_count", "gauge", "As in Triton.",
        (({"model": n, "version": "1"}, waiting.get(n, 0)) for n in rows))  # fmt: skip
    decoders = {n: m for n, m in rows.items() if service.tenants[n].signature.decodes}
    put("vllm:num_requests_running", "gauge", "As in vLLM.",
        (({"model_name": n}, begun.get(n, 0)) for n in decoders))  # fmt: skip
    put("vllm:num_requests_waiting", "gauge", "As in vLLM.",
        (({"model_name": n}, waiting.get(n, 0)) for n in decoders))  # fmt: skip
    put("vllm:generation_tokens_total", "counter", "As in vLLM.",
        (({"model_name": n}, m.tokens) for n, m in decoders.items()))  # fmt: skip
    put("vllm:request_success_total", "counter", "As in vLLM.",
        (({"model_name": n}, m.served) for n, m in decoders.items()))  # fmt: skip
    used = {n: use for n in decoders if (use := service.conductor_of(n).scheduler.cache_use) is not None}
    if used:
        put("vllm:kv_cache_usage_perc", "gauge", "As in vLLM: 1 is full. All decoders that share a device together.",
            (({"model_name": n}, use) for n, use in used.items()))  # fmt: skip
    lines += _summary("vllm:time_to_first_token_seconds", decoders)
    return "\n".join(lines) + "\n"


def _summary(name: str, rows: Mapping[str, TenantMeasures]) -> list[str]:
    """Sum and count, enough for a mean over time."""
    lines = [f"# HELP {name} As in vLLM, without buckets.", f"# TYPE {name} summary"]
    for tenant, one in rows.items():
        labels = _labels({"model_name": tenant})
        lines += [f"{name}_sum{labels} {one.first_s:.17g}", f"{name}_count{labels} {one.first_count}"]
    return lines


def _histogram(service: Service) -> list[str]:
    name = "cotenant_latency_seconds"
    lines = [f"# HELP {name} From arrival to answer of served requests.", f"# TYPE {name} histogram"]
    for tenant in service.tenants:
        one, total = service.measures.of(tenant), 0
        for edge, count in zip((*BUCKETS_S, float("inf")), one.buckets, strict=True):
            total += count
            edge_text = "+Inf" if edge == float("inf") else f"{edge:g}"
            lines.append(f"{name}_bucket{_labels({'tenant': tenant, 'le': edge_text})} {total}")
        lines.append(f"{name}_sum{_labels({'tenant': tenant})} {one.latency_s:.17g}")
        lines.append(f"{name}_count{_labels({'tenant': tenant})} {total}")
    return lines


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
