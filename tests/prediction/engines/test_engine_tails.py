"""Tails of an engine's times: the compiled loop against the simulation step by step, and tables by load."""

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.errors import DoesNotFit, WorkloadError
from cotenant.prediction.contention.layout import whole_of
from cotenant.prediction.engines.alone import serve, step_ns
from cotenant.prediction.engines.continuous_batching import Batching
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.tails import EngineLoads, engine_times
from cotenant.prediction.request_costs import request_costs
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec

GPU = open_simulated("sim:a100-sxm4-40gb")
SPEC = WorkloadSpec(name="llama-3.2-1b", mode="generate", software="vllm", seq=256, tokens=64)


def due_s(rate_rps, seed, horizon_s):
    return np.asarray(arrivals_ns(Load(kind="poisson", rate_rps=rate_rps), seed=seed, horizon_s=horizon_s)) / 1e9


def queue_of(**changes):
    return GPU.engine_queue(SPEC.model_copy(update=changes), whole_of(GPU.gpu))


def test_the_compiled_loop_gives_the_times_of_the_steps_one_by_one():
    rate, engine = 20.0, queue_of()
    found = engine_times(engine, lambda seed, horizon: due_s(rate, seed, horizon), rate_rps=rate)
    part = whole_of(GPU.gpu)
    times = GPU._engines._steps(GPU.spec(SPEC), part, GPU.gpu.clocks_mhz.on_share(part.loaded), ENGINES["vllm"])
    record = serve(
        Batching(engine.settings),
        lambda step: step_ns(ENGINES["vllm"], times, step),
        lambda _: (256, 64),
        until_ns=60e9,
        arrivals_ns=due_s(rate, 1, 60.0) * 1e9,
    )
    tokens = record.tokens()
    first, last, count = tokens.bounds()
    done = count == 64
    ttft, tpot = (first - tokens.intended)[done] / 1e9, ((last - first) / 63)[done] / 1e9
    for level in (0.5, 0.95):
        assert found.ttft.quantile(level)[1] == pytest.approx(np.quantile(ttft, level), rel=0.06)
        assert found.tpot.quantile(level)[1] == pytest.approx(np.quantile(tpot, level), rel=0.04)


def test_tables_by_load_interpolate_the_simulation_and_end_where_it_cannot_keep_up():
    engine = queue_of()
    loads = EngineLoads(engine, due_s)
    rate = 0.45 * loads.capacity_rps
    exact = engine_times(engine, lambda seed, horizon: due_s(rate, seed, horizon), rate_rps=rate, together=20.0)
    assert float(loads.quantile("tpot", 0.95, np.array(rate), np.array(1.0))) == pytest.approx(
        exact.tpot.quantile(0.95)[1], rel=0.05
    )
    assert np.isinf(loads.quantile("ttft", 0.95, np.array(1.1 * loads.capacity_rps), np.array(1.0)))


def test_slower_steps_at_a_lower_rate_are_the_same_load_with_longer_times():
    engine = queue_of()
    rate = 15.0
    alone = engine_times(engine, lambda seed, horizon: due_s(rate, seed, horizon), rate_rps=rate)
    slowed = engine_times(
        engine, lambda seed, horizon: 2 * due_s(rate, seed, horizon / 2), rate_rps=rate / 2, stretch=np.array([2.0])
    )
    assert slowed.ttft.quantile(0.95)[1] == pytest.approx(2 * alone.ttft.quantile(0.95)[1], rel=1e-6)


def test_fewer_sequences_at_once_bound_the_time_per_token_and_lengthen_the_wait():
    rate = 40.0
    few, many = (
        engine_times(queue_of(at_once=most), lambda seed, horizon: due_s(rate, seed, horizon), rate_rps=rate)
        for most in (8, 256)
    )
    assert few.facts["most_sequences"] == 8
    assert few.tpot.quantile(0.95)[1] < many.tpot.quantile(0.95)[1]
    assert few.ttft.quantile(0.95)[1] > many.ttft.quantile(0.95)[1]


def test_a_prompt_longer_than_the_context_is_refused_in_a_sentence():
    with pytest.raises(DoesNotFit, match=r"is longer than the context of llama-3\.2-1b, 131072 tokens"):
        queue_of(seq=131_050)


@pytest.mark.parametrize(
    ("gpu", "changes", "sentence"),
    [
        ("p100-pcie-16gb", {}, r"vllm doesn't run on .*P100.*: it needs compute capability 7.0, and this has 6.0"),
        ("t4", {"dtype": "bfloat16"}, r"in bfloat16 on NVIDIA T4: it needs compute capability 8.0, and this has 7.5"),
        ("a30", {"dtype": "float32"}, r"simulated in half precision .* not with dtype float32 \(llama-3.2-1b\)"),
    ],
)
def test_what_an_engine_does_not_run_is_refused_in_a_sentence(gpu, changes, sentence):
    device = open_simulated(f"sim:{gpu}")
    with pytest.raises(DoesNotFit, match=sentence):
        device.memory_bytes(SPEC.model_copy(update=changes))


def test_hits_in_the_prefix_cache_shorten_the_first_token_and_serve_more():
    cold, warm = (queue_of(seq=2048, prefix_hits=hits) for hits in (0.0, 0.75))
    first = [engine_times(engine, None, in_flight=1, steps=2000).ttft.quantile(0.5)[1] for engine in (cold, warm)]
    assert 0.2 < first[1] / first[0] < 0.6
    rates = [EngineLoads(engine, due_s).capacity_rps for engine in (cold, warm)]
    assert rates[1] > 1.3 * rates[0]
    costs = [
        request_costs(GPU, SPEC.model_copy(update={"seq": 2048, "prefix_hits": hits}), 1, clock_of=lambda _: None)
        for hits in (0.0, 0.75)
    ]
    assert 0.2 < costs[1].chunks[0].p50_s / costs[0].chunks[0].p50_s < 0.6


def test_hits_in_a_prefix_cache_are_an_engines_alone():
    with pytest.raises(WorkloadError, match="`prefix_hits` is for engines"):
        find("llama-3.2-1b").check(SPEC.model_copy(update={"software": "compile", "prefix_hits": 0.5}))
