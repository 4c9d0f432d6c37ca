"""Our figures under the names, types, labels and buckets of vLLM and Triton, for their dashboards.

Only what has the same meaning here is exported. Missing of vLLM's: prefix caches, preemptions, tokens of an engine
step, `n`; of Triton's: executions, which are chunks here, times of input and output, which are part of the
computation, and the host.
"""

from collections.abc import Callable, Mapping

from cotenant.serving.conduct.tickets import BAD_INPUT, FAILED
from cotenant.serving.histograms import Histogram
from cotenant.serving.http.metrics_page import MetricsPage
from cotenant.serving.measures import GenerationMeasures, TenantMeasures
from cotenant.serving.service import Service

_SAME_TRITON, _SAME_VLLM = "As in Triton.", "As in vLLM."
_REASONS = {BAD_INPUT: "OTHER", FAILED: "BACKEND", "cancelled": "CANCELED"}
"""Triton's reason of a failure; of all others: REJECTED."""
_SECONDS: Mapping[str, Callable[[GenerationMeasures], Histogram]] = {
    "time_to_first_token_seconds": lambda one: one.first_s,
    "inter_token_latency_seconds": lambda one: one.gap_s,
    "request_time_per_output_token_seconds": lambda one: one.per_token_s,
    "e2e_request_latency_seconds": lambda one: one.whole_s,
    "request_queue_time_seconds": lambda one: one.queue_s,
    "request_inference_time_seconds": lambda one: one.inference_s,
    "request_prefill_time_seconds": lambda one: one.prefill_s,
    "request_decode_time_seconds": lambda one: one.decode_s,
}
_TOKENS: Mapping[str, Callable[[GenerationMeasures], Histogram]] = {
    "request_prompt_tokens": lambda one: one.prompt_tokens,
    "request_generation_tokens": lambda one: one.made_tokens,
    "request_max_num_generation_tokens": lambda one: one.made_tokens,
    "request_params_max_tokens": lambda one: one.most_tokens,
    "request_prefill_kv_computed_tokens": lambda one: one.prompt_tokens,  # nothing is cached across requests
}


def put_triton(page: MetricsPage, service: Service, rows: Mapping[str, TenantMeasures]) -> None:
    """Triton's metrics, for all tenants."""

    def each(name: str, **more: str) -> dict[str, str]:
        return {"model": name, **more, "version": "1"}

    def put(name: str, figure: Callable[[TenantMeasures], float]) -> None:
        page.put(f"nv_inference_{name}", "counter", _SAME_TRITON, ((each(n), figure(m)) for n, m in rows.items()))

    put("request_success", lambda one: one.served)
    page.put("nv_inference_request_failure", "counter", _SAME_TRITON,
        ((each(n, reason=reason), count)
         for n, m in rows.items() for reason, count in _failures(m).items()))  # fmt: skip
    put("count", lambda one: one.served)
    put("request_duration_us", lambda one: one.latency_s.total * 1e6)
    put("queue_duration_us", lambda one: one.queue_s * 1e6)
    put("compute_infer_duration_us", lambda one: one.device_s * 1e6)
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
    most = None if None in longest else max((one for one in longest if one is not None), default=None)
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
