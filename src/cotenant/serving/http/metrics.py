"""Metrics for Prometheus: our own names, and those that dashboards of vLLM and Triton know."""

from collections.abc import Callable, Mapping

from cotenant.clients.exposition import KIND, MetricsPage
from cotenant.serving.http.messages import HttpRequest, Reply
from cotenant.serving.measures import GenerationMeasures, Histogram, TenantMeasures
from cotenant.serving.service import Service
from cotenant.serving.tickets import BAD_INPUT, FAILED


async def metrics(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """All of them."""
    del request, parts
    return Reply(200, render(service).encode(), KIND)


def render(service: Service) -> str:
    """The page."""
    standings = service.standings()
    rows = {name: service.measures.of(name) for name in service.tenants}
    page = MetricsPage()
    put = page.put

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
        (({"tenants": "+".join(worker["tenants"])}, worker["restarts"]) for worker in service.workers()))  # fmt: skip
    backends = [worker for worker in service.workers() if "backend" in worker]
    put("cotenant_backend_up", "gauge", "1 if the backend answers; 0 while it is marked and polled.",
        (({"backend": b["backend"]}, float(b["up"])) for b in backends))  # fmt: skip
    put("cotenant_backend_timeouts_total", "counter", "Requests that the backend did not answer in time.",
        (({"backend": b["backend"]}, b["timeouts"]) for b in backends))  # fmt: skip
    if (record := service.record()) is not None:
        put("cotenant_requests_recorded_total", "counter", "Requests in the record.", [({}, record["recorded"])])
        put("cotenant_requests_not_recorded_total", "counter", "Requests missing from the record.",
            [({}, record["missing"])])  # fmt: skip
        put("cotenant_record_failing", "gauge", "1 while requests can't be recorded.",
            [({}, float(record["failing"] is not None))])  # fmt: skip
    put("cotenant_requests_in_flight", "gauge", "Unanswered requests.",
        [({}, service.in_flight)])  # fmt: skip
    put("cotenant_device_slowdown", "gauge", "Current ratio of device time to prediction.",
        [({}, service.slowdown)])  # fmt: skip
    put("cotenant_device_busy_seconds_total", "counter", "Total time of chunks.", [({}, service.busy_s)])
    page.histogram("cotenant_latency_seconds", "From arrival to answer of served requests.",
        ((each(n), m.latency_s) for n, m in rows.items()))  # fmt: skip
    put_triton(page, service, rows)
    put_vllm(page, service, rows)
    return page.text()


# Our figures under the names, types, labels and buckets of vLLM and Triton, for their dashboards.

_SAME_TRITON, _SAME_VLLM = "As in Triton.", "As in vLLM."
_REASONS = {BAD_INPUT: "OTHER", FAILED: "BACKEND", "cancelled": "CANCELED"}
"""Triton's reason of a failure; of all others: REJECTED."""
_SECONDS: Mapping[str, Callable[[GenerationMeasures], Histogram]] = {
    "time_to_first_token_seconds": lambda made: made.first_s,
    "inter_token_latency_seconds": lambda made: made.gap_s,
    "request_time_per_output_token_seconds": lambda made: made.per_token_s,
    "e2e_request_latency_seconds": lambda made: made.whole_s,
    "request_queue_time_seconds": lambda made: made.queue_s,
    "request_inference_time_seconds": lambda made: made.inference_s,
    "request_prefill_time_seconds": lambda made: made.prefill_s,
    "request_decode_time_seconds": lambda made: made.decode_s,
}
_TOKENS: Mapping[str, Callable[[GenerationMeasures], Histogram]] = {
    "request_prompt_tokens": lambda made: made.prompt_tokens,
    "request_generation_tokens": lambda made: made.made_tokens,
    "request_max_num_generation_tokens": lambda made: made.made_tokens,
    "request_params_max_tokens": lambda made: made.most_tokens,
    "request_prefill_kv_computed_tokens": lambda made: made.prompt_tokens,  # nothing is cached across requests
}


def put_triton(page: MetricsPage, service: Service, rows: Mapping[str, TenantMeasures]) -> None:
    """Triton's metrics, for all tenants."""

    def each(name: str, **more: str) -> dict[str, str]:
        return {"model": name, **more, "version": "1"}

    def put(name: str, figure: Callable[[TenantMeasures], float]) -> None:
        page.put(f"nv_inference_{name}", "counter", _SAME_TRITON, ((each(n), figure(m)) for n, m in rows.items()))

    put("request_success", lambda tenant: tenant.served)
    page.put("nv_inference_request_failure", "counter", _SAME_TRITON,
        ((each(n, reason=reason), count)
         for n, m in rows.items() for reason, count in _failures(m).items()))  # fmt: skip
    put("count", lambda tenant: tenant.served)
    put("request_duration_us", lambda tenant: tenant.latency_s.total * 1e6)
    put("queue_duration_us", lambda tenant: tenant.queue_s * 1e6)
    put("compute_infer_duration_us", lambda tenant: tenant.device_s * 1e6)
    waiting, _ = service.under_way()
    page.put("nv_inference_pending_request_count", "gauge", _SAME_TRITON,
        ((each(n), waiting.get(n, 0)) for n in rows))  # fmt: skip


def put_vllm(page: MetricsPage, service: Service, rows: Mapping[str, TenantMeasures]) -> None:
    """VLLM's metrics, for tenants that generate text."""
    decoders = {n: m.generation for n, m in rows.items() if service.tenants[n].signature.decodes}
    waiting, begun = service.under_way()

    def each(name: str, **more: str) -> dict[str, str]:
        return {"engine": "0", **more, "model_name": name}

    page.put("vllm:num_requests_running", "gauge", _SAME_VLLM, ((each(n), begun.get(n, 0)) for n in decoders))
    page.put("vllm:num_requests_waiting", "gauge", _SAME_VLLM, ((each(n), waiting.get(n, 0)) for n in decoders))
    used = {n: use for n in decoders if (use := service.conductor_of(n).scheduler.cache_use) is not None}
    if used:
        about = "As in vLLM: 1 is full. All decoders that share a device together."
        page.put("vllm:kv_cache_usage_perc", "gauge", about, ((each(n), use) for n, use in used.items()))
    page.put("vllm:prompt_tokens_total", "counter", _SAME_VLLM,
        ((each(n), m.prompt_tokens.total) for n, m in decoders.items()))  # fmt: skip
    page.put("vllm:generation_tokens_total", "counter", _SAME_VLLM, ((each(n), rows[n].tokens) for n in decoders))
    page.put("vllm:request_success_total", "counter", _SAME_VLLM,
        ((each(n, finished_reason=reason), count)
         for n in decoders for reason, count in _ends(rows[n]).items()))  # fmt: skip
    for name, figure in _SECONDS.items():
        page.histogram(f"vllm:{name}", _SAME_VLLM, ((each(n), figure(m)) for n, m in decoders.items()))
    longest = [service.tenants[n].signature.longest for n in decoders]
    most = None if None in longest else max((limit for limit in longest if limit is not None), default=None)
    for name, figure in _TOKENS.items():
        page.histogram(f"vllm:{name}", _SAME_VLLM, ((each(n), figure(m)) for n, m in decoders.items()), most=most)


def _ends(measures: TenantMeasures) -> dict[str, int]:
    reasons = measures.generation.reasons
    ended = {"stop": reasons["stop"], "length": reasons["length"]}
    return {**ended, "abort": measures.why["cancelled"], "error": measures.why[FAILED]}


def _failures(measures: TenantMeasures) -> dict[str, int]:
    counts = dict.fromkeys(("OTHER", "BACKEND", "CANCELED", "REJECTED"), 0)
    for why, count in measures.why.items():
        counts[_REASONS.get(why, "REJECTED")] += count
    return counts
