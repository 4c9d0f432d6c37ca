"""Metrics for Prometheus: our own names, and those known to dashboards of other servers."""

from collections.abc import Mapping

from cotenant.serving.http.messages import Reply, Request
from cotenant.serving.http.metrics_of_others import put_triton, put_vllm
from cotenant.serving.http.metrics_page import MetricsPage
from cotenant.serving.service import Service

KIND = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
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
        (({"tenants": "+".join(one["tenants"])}, one["restarts"]) for one in service.workers()))  # fmt: skip
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
