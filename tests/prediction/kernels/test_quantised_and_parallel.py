"""Quantised weights and layers split over several GPUs: invariants that hold for any constants."""

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.simulated_gpu import request_of
from cotenant.prediction.kernels.columns import ALL_REDUCE
from cotenant.prediction.kernels.cost import solo_costs
from cotenant.prediction.kernels.request import parallel, quantised
from cotenant.workloads.protocol import WorkloadSpec


def request(**options):
    return request_of(WorkloadSpec(**{"name": "llama-3.2-1b", "dtype": "bfloat16", "software": "vllm", **options}))


def time_ms(asked, gpu):
    return solo_costs(asked.kernels, find_gpu(gpu)).total_ns / 1e6


DECODE = {"mode": "decode", "seq": 256}


def test_a_decode_step_reads_about_a_quarter_with_four_bits():
    whole, small = request(**DECODE), quantised(request(**DECODE), "int4", find_gpu("a100-sxm4-40gb"))
    layers = whole.kernels.weights.sum() - whole.kernels.weights.max()  # the language-model head is not quantised
    assert whole.kernels.weights.sum() - small.kernels.weights.sum() == pytest.approx(layers * (1 - 4.5 / 16), rel=0.02)
    assert time_ms(small, "a100-sxm4-40gb") < 0.85 * time_ms(whole, "a100-sxm4-40gb")


def test_memory_shrinks_by_the_bytes_the_layers_save():
    whole = request().properties
    small = quantised(request(), "fp8", find_gpu("h100-sxm5-80gb")).properties
    table = 128256 * 2048
    assert whole.weight_bytes - small.weight_bytes == pytest.approx(whole.params - table, rel=0.01)
    assert whole.peak_memory_bytes - small.peak_memory_bytes == whole.weight_bytes - small.weight_bytes


def test_eight_bit_products_are_faster_only_with_tensor_core_support():
    prefill = {"mode": "prefill", "seq": 2048, "batch": 4}
    whole = request(**prefill)
    on_hopper = quantised(whole, "fp8", find_gpu("h100-sxm5-80gb"))
    on_ampere = quantised(whole, "fp8", find_gpu("a100-sxm4-40gb"))
    assert time_ms(on_hopper, "h100-sxm5-80gb") < 0.75 * time_ms(whole, "h100-sxm5-80gb")
    assert time_ms(on_ampere, "a100-sxm4-40gb") == pytest.approx(time_ms(whole, "a100-sxm4-40gb"), rel=0.1)


def test_two_gpus_split_the_work_and_reduce_twice_per_layer():
    whole, half = request(mode="prefill", seq=1024), parallel(request(mode="prefill", seq=1024), 2)
    assert np.count_nonzero(half.kernels.kind == ALL_REDUCE) == 2 * 16
    head_and_norms = 0.02
    assert half.kernels.weights.sum() == pytest.approx(whole.kernels.weights.sum() / 2, rel=head_and_norms)
    assert half.kernels.flops.sum() == pytest.approx(whole.kernels.flops.sum() / 2, rel=0.05)
    assert half.properties.weight_bytes == whole.properties.weight_bytes // 2
    assert half.slot.size == len(half.kernels)


@pytest.mark.parametrize("ways", [2, 4, 8])
def test_more_gpus_are_faster_but_never_in_proportion(ways):
    alone = time_ms(request(mode="prefill", seq=2048), "a100-sxm4-80gb")
    together = time_ms(parallel(request(mode="prefill", seq=2048), ways), "a100-sxm4-80gb")
    assert alone / ways < together < alone


def test_slow_links_cost_more_than_fast_ones():
    cut = parallel(request(mode="prefill", seq=2048, batch=4), 2)
    sums = cut.kernels.kind == ALL_REDUCE
    fast, slow = (
        solo_costs(cut.kernels, find_gpu(gpu)).duration_ns[sums].sum() for gpu in ("a100-sxm4-80gb", "a100-pcie-80gb")
    )
    assert slow > 5 * fast


def test_generation_keeps_its_stages():
    whole = request(mode="generate", seq=64, tokens=4)
    half = parallel(whole, 2)
    assert half.stages == whole.stages
    assert np.all(np.diff(half.slot) >= 0)
    assert half.slot[half.first_output] == whole.slot[whole.first_output]
