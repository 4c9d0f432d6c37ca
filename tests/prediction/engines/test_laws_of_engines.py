"""What holds of every engine: on GPUs, models and formats drawn from the catalogue."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.engines.continuous_batching import EngineSettings
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.language_model import language_model
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.step import StepShape, StepTimes
from cotenant.prediction.engines.tails import EngineQueue, engine_times
from cotenant.workloads import find

GPUS = (
    *("a100-sxm4-40gb", "a10g", "b200-sxm-180gb", "h100-sxm5-80gb", "l4", "mi300x", "rtx-4090", "t4"),
    "v100-sxm2-32gb",
)
DENSE = ("gpt2", "llama-3.2-3b", "llama-3.1-8b", "gemma-3-4b", "qwen3-32b", "phi-2")
MIXED = ("gpt-oss-20b", "deepseek-v2-lite")
LARGE = ("llama-3.1-8b", "qwen3-14b", "qwen3-32b", *MIXED)
FORMATS = (None, "fp8", "int8", "int4")
ROUGH = 1.05
"""Laws have a seam where another kernel becomes the faster."""


def drawn(seed, models=(*DENSE, *MIXED)):
    rng = np.random.default_rng(seed)
    gpu, name = find_gpu(str(rng.choice(GPUS))), str(rng.choice(models))
    part = EnginePart(gpu, quantised=FORMATS[rng.integers(4)], gpus=int(rng.choice([1, 2, 4])))
    return language_model(name, find(name).entry.config), part, rng


def times_of(model, part):
    return StepTimes(model, part, most_tokens=2048)


def shapes(rng):
    count, context = int(rng.integers(1, 256)), float(rng.integers(16, 4000))
    prompt = float(rng.integers(16, 1500))
    yield StepShape(count, count * context)
    yield StepShape(queries=(prompt,), contexts=(0.0,))
    yield StepShape(count, count * context, (prompt,), (0.0,))


@pytest.mark.parametrize("seed", range(12))
def test_a_better_gpu_or_part_is_never_slower_and_more_work_never_faster(seed):
    model, part, rng = drawn(seed)
    times = times_of(model, part)
    bandwidth = {"bandwidth_gb_s": 1.5 * part.gpu.bandwidth_gb_s}
    wider = times_of(model, replace(part, gpu=part.gpu.model_copy(update=bandwidth)))
    half = times_of(model, replace(part, sms=part.gpu.sms // 2))
    slower = times_of(model, replace(part, bandwidth_share=0.5))
    for step in shapes(rng):
        alone = times.device_ns(step)
        assert wider.device_ns(step) < ROUGH * alone
        assert half.device_ns(step) > alone / ROUGH
        assert slower.device_ns(step) > alone / ROUGH
        more = replace(
            step,
            decoding=2 * step.decoding,
            decoding_context=2 * step.decoding_context,
            queries=tuple(2 * query for query in step.queries),
        )
        assert alone / ROUGH < times.device_ns(more) < 4.5 * alone  # attention of prompts grows as their square


@pytest.mark.parametrize("seed", range(12))
def test_a_step_reads_its_weights_and_computes_its_products(seed):
    model, part, _ = drawn(seed, DENSE)
    times, weights = times_of(model, part), model.layer_weights / part.gpus
    assert times.device_ns(StepShape(1, 16.0)) > weights * part.weight_bytes / part.gpu.bandwidth_gb_s
    rate = part.gpu.tensor_rate("int8" if part.format == "fp8" else "float16")
    assert times.device_ns(StepShape(queries=(2048.0,), contexts=(0.0,))) > 1e9 * 2 * weights * 2048 / rate


@pytest.mark.parametrize("seed", range(12))
def test_splitting_a_model_and_smaller_weights_shorten_steps_that_read_much(seed):
    model, part, _ = drawn(seed, LARGE)
    single = replace(part, gpus=1, quantised=None)
    step = StepShape(8, 8 * 1024.0)
    alone = times_of(model, single).device_ns(step)
    assert times_of(model, replace(single, gpus=2)).device_ns(step) < alone
    for how in FORMATS[1:]:
        assert times_of(model, replace(single, quantised=how)).device_ns(step) < alone


@pytest.mark.parametrize("seed", range(4))
def test_more_sequences_at_once_never_serve_much_less(seed):
    model, part, _ = drawn(seed)
    table = times_of(model, part).tabulated(256, 640)
    served = []
    for most in (1, 4, 16, 64, 256):
        engine = EngineQueue(table, ENGINES["vllm"], EngineSettings(most, 2048), 512, 128)
        served.append(engine_times(engine, None, in_flight=most + 8, steps=8000).facts["tokens_per_s"])
    assert all(later > sooner / ROUGH for sooner, later in pairwise(served))
    assert served[2] > 3 * served[0]
