"""What each kind of server publishes, as in their documentation."""

import pytest

from cotenant.clients.exposition import exposed
from cotenant.clients.published import KNOWN_SOFTWARE, named_histogram, read_published
from cotenant.errors import WatchError

VLLM = """
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="m/llama"} 40.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="m/llama"} 20
vllm:e2e_request_latency_seconds_bucket{engine="0",le="1.0",model_name="m/llama"} 5
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="m/llama"} 20
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m/llama"} 12.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m/llama"} 8.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m/llama"} 30.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m/llama"} 1000
vllm:time_per_output_token_seconds_sum{engine="0",model_name="m/llama"} 30.0
vllm:time_per_output_token_seconds_count{engine="0",model_name="m/llama"} 1000
vllm:prompt_tokens_total{engine="0",model_name="m/llama"} 5000
vllm:generation_tokens_total{engine="0",model_name="m/llama"} 1020
"""
TRITON = """
nv_inference_request_success{model="resnet",version="1"} 200
nv_inference_request_duration_us{model="resnet",version="1"} 4000000
nv_inference_compute_infer_duration_us{model="resnet",version="1"} 1000000
nv_inference_request_success{model="bert",version="1"} 10
nv_inference_request_duration_us{model="bert",version="1"} 500000
"""
LLAMA = """
llamacpp:prompt_tokens_total 400
llamacpp:tokens_predicted_total 1000
llamacpp:tokens_predicted_seconds_total 10
"""
TEI = """
te_request_success{method="batch"} 7
te_request_success{method="single"} 3
te_request_duration_sum 0.5
te_request_duration_count 10
te_request_duration_bucket{le="0.1"} 9
te_request_duration_bucket{le="+Inf"} 10
"""
COTENANT = """
cotenant_requests_served_total{tenant="a"} 3
cotenant_latency_seconds_sum{tenant="a"} 0.3
cotenant_latency_seconds_count{tenant="a"} 3
cotenant_device_seconds_total{tenant="a"} 0.2
cotenant_share{tenant="a"} 0.25
nv_inference_request_success{model="a",version="1"} 3
"""
OWN = """
http_request_duration_seconds_sum{handler="/embed"} 2.0
http_request_duration_seconds_count{handler="/embed"} 10
http_request_duration_seconds_sum{handler="/health"} 0.1
http_request_duration_seconds_count{handler="/health"} 1000
"""


def read(page, known=KNOWN_SOFTWARE):
    return read_published(exposed(page), known)


def test_vllm_counts_engines_and_reasons_together_and_each_time_once():
    [one] = read(VLLM)
    assert (one.software, one.tenant) == ("vLLM", "m/llama")
    assert one.totals["requests"] == 20
    assert one.totals["token_s"] == 30.0  # not twice, though published under two names
    assert one.totals["token_count"] == 1000
    assert one.buckets["latency"] == {1.0: 5.0, float("inf"): 20.0}


def test_sglang_took_over_the_names():
    [one] = read(VLLM.replace("vllm:", "sglang:").replace("request_success_total", "num_requests_total"))
    assert one.software == "SGLang"
    assert one.totals["latency_s"] == 40.0


def test_triton_has_a_tenant_for_each_model_in_microseconds():
    found = {one.tenant: one.totals for one in read(TRITON)}
    assert found["resnet"]["latency_s"] == pytest.approx(4.0)
    assert found["resnet"]["latency_count"] == 200
    assert found["resnet"]["device_s"] == pytest.approx(1.0)
    assert found["bert"]["requests"] == 10


def test_llama_cpp_has_times_of_tokens_only():
    [one] = read(LLAMA)
    assert one.totals["token_s"] / one.totals["token_count"] == pytest.approx(0.01)
    assert "latency_s" not in one.totals


def test_tei_counts_its_methods_together():
    [one] = read(TEI)
    assert (one.software, one.totals["requests"], one.totals["latency_s"]) == ("TEI", 10, 0.5)


def test_cotenant_is_not_taken_for_triton_whose_names_it_publishes_too():
    [one] = read(COTENANT)
    assert (one.software, one.share, one.totals["device_s"]) == ("cotenant", 0.25, 0.2)


def test_any_histogram_by_name_and_labels():
    assert read(OWN) == []
    [every] = read(OWN, [named_histogram("http_request_duration_seconds")])
    assert every.totals["requests"] == 1010
    [one] = read(OWN, [named_histogram('http_request_duration_seconds{handler="/embed"}')])
    assert (one.totals["requests"], one.totals["latency_s"]) == (10, 2.0)


def test_a_histogram_in_milliseconds_is_known_by_its_name():
    [one] = read("took_ms_sum 500\ntook_ms_count 10\n", [named_histogram("took_ms")])
    assert one.totals["latency_s"] == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["", "two words", "1st", "name{", "drop;table"])
def test_what_is_not_a_metric_is_refused(name):
    with pytest.raises(WatchError, match="not the name of a histogram"):
        named_histogram(name or " ")


def test_labels_may_contain_anything_and_values_may_be_missing():
    page = 'a{x="}\\" ,\\n"} 1\nb NaN\nc +Inf\nd nonsense\ne 2 1700000000\n'
    found = {one.metric: (dict(one.labels), one.value) for one in exposed(page)}
    assert found["a"] == ({"x": '}" ,\n'}, 1.0)
    assert found["e"] == ({}, 2.0)
    assert set(found) == {"a", "c", "e"}
