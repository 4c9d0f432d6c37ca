"""Steps of engines on GPUs: models from configurations, time by tokens and context, memory, and whole loads."""

import time

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DoesNotFit, WorkloadError
from cotenant.prediction.engines.alone import serve, step_ns
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.language_model import language_model
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.on_gpu import cache_blocks, weight_bytes
from cotenant.prediction.engines.step import StepShape, StepTimes
from cotenant.workloads import find

H100 = find_gpu("h100-sxm5-80gb")
VLLM = ENGINES["vllm"]


def model_named(name):
    return language_model(name, find(name).entry.config)


def times_of(name, **part):
    return StepTimes(model_named(name), EnginePart(part.pop("gpu", H100), **part), most_tokens=8192)


@pytest.fixture(scope="module")
def llama():
    return times_of("llama-3.1-8b")


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "qwen3-32b", "gpt2", "phi-2", "phi-4", "gemma-3-4b", "gpt-oss-20b", "deepseek-v2-lite"]
)
def test_parameters_of_a_configuration_are_those_of_the_model(name):
    entry, model = find(name).entry, model_named(name)
    assert model.layer_weights + model.table_weights == pytest.approx(entry.params, rel=0.03)


def test_a_configuration_without_dimensions_is_refused_in_a_sentence():
    with pytest.raises(WorkloadError, match=r"its configuration has no num_attention_heads"):
        language_model("mine", {"hidden_size": 8, "num_hidden_layers": 1})


def test_a_small_step_reads_the_weights_once(llama):
    ideal_ns = weight_bytes(llama.model, llama.part) / H100.bandwidth_gb_s
    one, eight = (llama.device_ns(StepShape(count, count * 512.0)) for count in (1, 8))
    assert 1.0 < one / ideal_ns < 1.4
    assert eight < 1.1 * one


def test_a_step_takes_longer_with_more_tokens_and_longer_contexts(llama):
    assert llama.device_ns(StepShape(256, 256 * 512.0)) > 1.3 * llama.device_ns(StepShape(8, 8 * 512.0))
    assert llama.device_ns(StepShape(64, 64 * 8192.0)) > 1.3 * llama.device_ns(StepShape(64, 64 * 256.0))
    assert llama.device_ns(StepShape(queries=(4096.0,), contexts=(0.0,))) > 3 * llama.device_ns(StepShape(1, 512.0))


def test_steps_with_graphs_are_padded_to_captured_sizes_and_others_are_not(llama):
    eager = times_of("llama-3.1-8b", graphs=False)
    assert llama.row(65, graphs=True) == llama.row(72, graphs=True)
    assert eager.row(65, graphs=True) != eager.row(72, graphs=True)


def test_without_graphs_a_step_lasts_at_least_as_long_as_its_launches():
    eager = times_of("qwen3-0.6b", graphs=False)
    total, device = step_ns(VLLM, eager, StepShape(1, 100.0))
    assert device == pytest.approx(eager.kernels * VLLM.eager_us * 1e3)
    assert total > 1.5 * step_ns(VLLM, times_of("qwen3-0.6b"), StepShape(1, 100.0))[0]


@pytest.mark.parametrize(("how", "least", "most"), [("fp8", 0.5, 0.8), ("int4", 0.3, 0.6)])
def test_quantised_weights_shorten_small_steps(llama, how, least, most):
    step = StepShape(8, 8 * 512.0)
    ratio = times_of("llama-3.1-8b", quantised=how).device_ns(step) / llama.device_ns(step)
    assert least < ratio < most


def test_several_gpus_share_the_work_and_pay_for_sums(llama):
    step = StepShape(8, 8 * 512.0)
    two = times_of("llama-3.1-8b", gpus=2).device_ns(step)
    assert 0.5 < two / llama.device_ns(step) < 0.9


def test_a_mixture_reads_only_the_experts_that_its_tokens_need():
    oss = times_of("gpt-oss-20b")
    one, few, many = (oss.device_ns(StepShape(count, count * 100.0)) for count in (1, 8, 256))
    assert few > 1.5 * one
    assert many < 3 * few


def test_less_of_the_gpu_makes_steps_slower(llama):
    step = StepShape(64, 64 * 1024.0)
    part = times_of("llama-3.1-8b", sms=60, bandwidth_share=0.5)
    assert 1.7 < part.device_ns(step) / llama.device_ns(step) < 2.5


def test_the_cache_gets_what_weights_and_activations_leave():
    model = model_named("llama-3.1-8b")
    blocks = cache_blocks(model, EnginePart(H100), VLLM, most_tokens=8192)
    assert 0.3e6 < blocks * 16 < 0.5e6  # vLLM reports about 400,000 tokens on an H100
    assert cache_blocks(model, EnginePart(H100, cached_bytes=1.0), VLLM, most_tokens=8192) == pytest.approx(
        2 * blocks, rel=0.01
    )
    with pytest.raises(DoesNotFit, match=r"vllm needs .* GiB besides its cache"):
        cache_blocks(model_named("llama-3.1-70b"), EnginePart(H100), VLLM, most_tokens=8192)


def served(times, *, in_flight, seconds, prompt=128, output=128, **settings):
    batching = Batching(EngineSettings(**settings))
    return serve(
        batching, lambda step: step_ns(VLLM, times, step), lambda _: (prompt, output), until_ns=seconds * 1e9,
        in_flight=in_flight,
    )  # fmt: skip


def test_more_requests_in_flight_give_more_tokens_per_second_and_longer_gaps(llama):
    few, many = served(llama, in_flight=8, seconds=5), served(llama, in_flight=128, seconds=5)
    made = [sum(tokens.size for tokens in record.sampled) for record in (few, many)]
    gaps = [float(np.median(record.tokens().between())) for record in (few, many)]
    assert made[1] > 4 * made[0]
    assert gaps[1] > 1.3 * gaps[0]


def test_an_open_load_waits_for_arrivals_and_keeps_their_due_times(llama):
    arrivals = np.array([0.0, 1e9, 1.0001e9])
    batching = Batching(EngineSettings())
    record = serve(
        batching, lambda step: step_ns(VLLM, llama, step), lambda _: (64, 8), until_ns=5e9, arrivals_ns=arrivals
    )
    first, last, count = record.tokens().bounds()
    assert record.intended == arrivals.tolist()
    assert count.tolist() == [8, 8, 8]
    assert (first > arrivals).all()
    assert last[0] < 1e9


def test_512_sequences_are_simulated_a_hundred_times_faster_than_they_would_run(llama):
    served(llama, in_flight=16, seconds=0.2)
    begin = time.process_time()
    record = served(llama, in_flight=512, seconds=20, max_sequences=512, blocks=25_000)
    spent = time.process_time() - begin
    assert record.step_end[-1] / 1e9 / spent > 50  # half of what is claimed: CPU time on a busy machine
    assert max(record.step_sequences) == 512


@pytest.mark.parametrize("name", ["t4", "v100-sxm2-32gb", "rtx-2080-ti", "jetson-xavier-agx"])
def test_tensor_cores_without_bfloat16_compute_prompts_in_float16(name):
    gpu = find_gpu(name)
    times = times_of("llama-3.2-3b", gpu=gpu)
    flops = 2.0 * times.model.layer_weights * 2048
    least_ns = 1e9 * flops / gpu.tensor_rate("float16")
    assert least_ns < times.device_ns(StepShape(queries=(2048.0,), contexts=(0.0,))) < 3 * least_ns
