"""Observability: metrics under the names of other servers, a matching dashboard, traces."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from cotenant.serving.measures import Histogram
from cotenant.serving.tracing import trace
from tests.serving.http.front import run

IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}
DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana.json"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def _used(client):
    for _ in range(2):
        await client.post("/v2/models/bert/infer", IDS)
    await client.post("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 4})
    return (await client.get("/metrics")).body.decode()


def test_dashboards_for_other_servers_find_their_names():
    text = run(_used)
    assert 'nv_inference_count{model="bert",version="1"} 2' in text
    assert 'nv_inference_pending_request_count{model="bert",version="1"} 0' in text
    assert 'nv_inference_request_failure{model="bert",reason="REJECTED",version="1"} 0' in text
    for line in (
        'num_requests_running{engine="0",model_name="gpt"} 0',
        'prompt_tokens_total{engine="0",model_name="gpt"} 1',
        'generation_tokens_total{engine="0",model_name="gpt"} 4',
        'request_success_total{engine="0",finished_reason="length",model_name="gpt"} 1',
        'time_to_first_token_seconds_count{engine="0",model_name="gpt"} 1',
        'inter_token_latency_seconds_count{engine="0",model_name="gpt"} 3',
        'e2e_request_latency_seconds_bucket{engine="0",model_name="gpt",le="7680.0"} 1',
        'request_generation_tokens_bucket{engine="0",model_name="gpt",le="2.0"} 0',
        'request_generation_tokens_bucket{engine="0",model_name="gpt",le="5.0"} 1',
        'request_params_max_tokens_sum{engine="0",model_name="gpt"} 4',
    ):
        assert f"vllm:{line}" in text
    assert 'model_name="bert"' not in text
    assert 'model_name="gpt",le="200.0"' not in text.split("vllm:request_prompt_tokens ")[-1]  # it takes 128


def test_a_histogram_counts_values_up_to_each_edge():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    histogram.add(2.0, count=3)
    assert list(histogram.buckets()) == [(1.0, 2), (2.0, 6), (float("inf"), 7)]
    assert list(histogram.buckets(1)) == [(1.0, 2), (float("inf"), 7)]
    assert (histogram.count, histogram.total) == (7, 18.0)


def test_waiting_and_started_requests_are_distinguished():
    async def scenario(client):
        asking = [asyncio.ensure_future(client.post("/v2/models/bert/infer", IDS)) for _ in range(2)]
        while (under_way := client.service.under_way()) and sum(sum(counts.values()) for counts in under_way) < 2:
            await asyncio.sleep(0.001)
        waiting, begun = under_way
        await asyncio.gather(*asking)
        return dict(waiting), dict(begun)

    assert run(scenario, slow=("bert",)) == ({"bert": 1}, {"bert": 1})


def test_every_metric_of_the_dashboard_exists():
    known = set(re.findall(r"^# TYPE (\S+)", run(_used), re.MULTILINE))
    asked = set(re.findall(r"cotenant_[a-z_]+", json.dumps([one["targets"] for one in _panels()])))
    assert asked
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= known


def _panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def test_a_span_for_each_request_under_the_clients_own_trace():
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed: cotenant[traces]")
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    api.set_tracer_provider(provider)

    async def scenario(client):
        assert trace(client.service.measures)
        await client.post("/v2/models/bert/infer", IDS, headers={"traceparent": PARENT})
        late = {**IDS, "parameters": {"timeout": 1}}
        await client.post("/v2/models/bert/infer", late)

    run(scenario)
    served, refused = exporter.get_finished_spans()
    assert served.name == "serve bert"
    assert f"{served.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{served.parent.span_id:016x}" == PARENT.split("-")[2]
    assert [event.name for event in served.events] == ["began"]
    assert served.attributes["cotenant.why"] == "served"
    assert served.end_time > served.start_time
    assert refused.attributes["cotenant.why"] == "too large"
    assert refused.parent is None
    assert not refused.status.is_ok


@pytest.mark.parametrize("failing", [None, "no space left on device"])
def test_the_state_of_the_record_is_measured_too(failing):
    async def scenario(client):
        bare = (await client.get("/metrics")).body.decode()
        client.service.record = lambda: {"recorded": 7, "missing": 3, "failing": failing}
        return bare, (await client.get("/metrics")).body.decode()

    bare, text = run(scenario)
    assert "record" not in bare
    assert "cotenant_requests_recorded_total 7" in text
    assert "cotenant_requests_not_recorded_total 3" in text
    assert f"cotenant_record_failing {int(failing is not None)}" in text
