"""Kernels of language-model engines: attention, experts, 8 bits and sums over GPUs obey what physics and tables say."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.prediction.kernels.attention import AttentionPart, Heads, decoding, prompts, prompts_launched
from cotenant.prediction.kernels.cost import solo_costs
from cotenant.prediction.kernels.families import family_of
from cotenant.prediction.kernels.layers import expert_matrices, matrix
from cotenant.prediction.kernels.operators import columns

H100 = find_gpu("h100-sxm5-80gb")
A100 = find_gpu("a100-sxm4-80gb")
HOPPER, AMPERE = family_of("hopper"), family_of("ampere")
LLAMA = Heads(32.0, 8.0, 128.0)


def part_of(gpu, **changed):
    whole = AttentionPart(float(gpu.sms), gpu.tensor_rate("bfloat16") / gpu.sms * 1e-9, gpu.bandwidth_gb_s)
    return replace(whole, **changed)


def prompt_ns(family, part, tokens, *, before=0.0, count=1.0):
    law = family.prompts
    work = prompts(law, LLAMA, part, queries=np.array([tokens]), contexts=np.array([before]), count=np.array([count]))
    return float(prompts_launched(law, part, work).duration_ns[0])


def decode_ns(family, part, sequences, context, heads=LLAMA):
    return float(decoding(family.decoding, heads, part, np.array([sequences]), np.array([context])).duration_ns[0])


def product_ns(gpu, family, size, *, form="half"):
    rounded = form != "half"
    kernels = columns([matrix("product", (*size, 1.0), weight_bytes=1.0 if rounded else 2.0, rounded=rounded)])
    return float(solo_costs(kernels, gpu, efficiency=family.products[form]).duration_ns[0])


@pytest.mark.parametrize(("gpu", "family"), [(A100, AMPERE), (H100, HOPPER)])
def test_a_causal_prompt_does_half_the_work_of_a_chunk_that_sees_as_much(gpu, family):
    causal = prompt_ns(family, part_of(gpu), 8192.0)
    full = prompt_ns(family, part_of(gpu), 4096.0, before=8192.0) + prompt_ns(
        family, part_of(gpu), 4096.0, before=12288.0
    )
    assert 2.0 < full / causal < 3.5  # 4096 x (10240 + 14336) scores against 8192 x 4096


def test_chunks_of_a_prompt_take_about_as_long_as_all_of_it():
    part = part_of(H100)
    whole = prompt_ns(HOPPER, part, 8192.0)
    chunks = sum(prompt_ns(HOPPER, part, 2048.0, before=2048.0 * index) for index in range(4))
    assert chunks == pytest.approx(whole, rel=0.25)


@pytest.mark.parametrize(("gpu", "family", "floor_us"), [(A100, AMPERE, (10, 20)), (H100, HOPPER, (8, 14))])
def test_decoding_has_a_floor_and_then_reads_its_cache_at_the_bandwidth(gpu, family, floor_us):
    low, high = floor_us
    assert low * 1e3 < decode_ns(family, part_of(gpu), 1.0, 64.0) < high * 1e3
    long = decode_ns(family, part_of(gpu), 64.0, 8192.0)
    moved = 64 * 8192 * 2 * 8 * 128 * 2
    assert 0.6 * gpu.bandwidth_gb_s < moved / long < gpu.bandwidth_gb_s


def test_a_cache_of_8_bits_halves_the_time_of_long_contexts():
    part = part_of(H100)
    half = decode_ns(HOPPER, part, 64.0, 8192.0)
    assert decode_ns(HOPPER, part, 64.0, 8192.0, replace(LLAMA, bytes_per_value=1.0)) == pytest.approx(
        half / 2, rel=0.1
    )


def test_fewer_sms_and_less_bandwidth_slow_attention_down():
    whole, slice_of_it = part_of(H100), part_of(H100, sms=16.0, bandwidth=H100.bandwidth_gb_s / 8)
    assert prompt_ns(HOPPER, slice_of_it, 4096.0) > 6 * prompt_ns(HOPPER, whole, 4096.0)
    assert decode_ns(HOPPER, slice_of_it, 64.0, 4096.0) > 6 * decode_ns(HOPPER, whole, 64.0, 4096.0)


def test_eight_bits_gain_less_than_twofold_and_lose_on_small_products():
    def gain(size):
        return product_ns(H100, HOPPER, size) / product_ns(H100, HOPPER, size, form="fp8")

    assert 1.2 < gain((8192.0, 8192.0, 8192.0)) < 2.0
    assert gain((64.0, 512.0, 512.0)) < 0.8


def test_experts_cost_by_the_number_of_distinct_experts():
    law = HOPPER.experts["half"].products

    def time(touched, tokens):
        rows = expert_matrices(2048.0, 768.0, touched=touched, tokens=tokens)
        return float(solo_costs(columns(rows), H100, efficiency=law).duration_ns.sum())

    assert time(128.0, 1.0) > 8 * time(8.0, 1.0)
    assert time(128.0, 8.0) < 1.2 * time(128.0, 1.0)  # bound by their weights


@pytest.mark.parametrize(("family", "gpus", "measured_us"), [(AMPERE, 2, 25.2), (HOPPER, 4, 30.4)])
def test_sums_over_gpus_are_those_of_the_tables(family, gpus, measured_us):
    moved = np.array([2.0 * 2**20])
    assert family.sums.ns(moved, gpus)[0] / 1e3 == pytest.approx(measured_us, rel=0.2)
    assert family.sums.ns(np.array([128.0]), gpus, graphs=False)[0] > 3 * family.sums.ns(np.array([128.0]), gpus)[0]
