"""Solo times obey physical limits and agree with a few measurements."""

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu, gpu_names
from cotenant.prediction.kernels.cost import plain_roofline_ns, solo_costs
from cotenant.prediction.kernels.operators import Row, columns

A100 = find_gpu("a100-sxm4-80gb")


def product(m, n, k, dtype="float16"):
    width = {"float16": 2, "float32": 4}[dtype]
    return Row(
        "mm", "gemm", dtype, True, 2.0 * m * n * k, width * (m * k + k * n), width * k * n, width * m * n, m, n, k, 1
    )


def pass_over(elements, *, width=2):
    moved = float(width * elements)
    return Row("add", "elementwise", "float16", False, elements, moved, 0.0, moved, blocks=elements / 2048)


def copy_in(size):
    return Row("_to_copy", "transfer", "float32", False, 0.0, float(size), 0.0, float(size))


MIX = columns([product(4096, 4096, 4096), product(8, 4096, 11008), pass_over(1 << 26), pass_over(1 << 12)])


def test_large_products_get_most_of_the_tensor_cores():
    kernels = columns([product(8192, 8192, 8192)])
    rate = kernels.flops / solo_costs(kernels, A100).duration_ns * 1e-3
    assert 0.6 * 312 < rate < 0.85 * 312


def test_few_rows_are_bound_by_reading_the_weights():
    kernels = columns([product(8, 22016, 4096)])
    costs = solo_costs(kernels, A100)
    assert costs.memory_ns > costs.compute_ns
    # Measured on an A100 80GB: 111 us (microsoft/vidur).
    assert costs.duration_ns[0] / 1e3 == pytest.approx(111, rel=0.12)


@pytest.mark.parametrize("gpu", ["rtx-3090", "a10g", "t4", "p100-sxm2-16gb"])
def test_a_product_with_one_row_is_bound_by_its_weights_on_every_gpu(gpu):
    costs = solo_costs(columns([product(1, 22016, 4096)]), find_gpu(gpu))
    assert costs.duration_ns[0] < 1.3 * costs.memory_ns[0]


def test_an_sm_draws_a_limited_bandwidth():
    """More bandwidth per SM is used less: 0.9 of it on an RTX 3090, 0.8 on an A100-80GB."""
    kernels = columns([pass_over(1 << 28)])

    def fraction(gpu):
        costs = solo_costs(kernels, find_gpu(gpu))
        return costs.dram_bytes[0] / costs.memory_ns[0] / find_gpu(gpu).bandwidth_gb_s

    assert fraction("rtx-3090") == pytest.approx(0.91, abs=0.02)
    assert fraction("a100-sxm4-80gb") == pytest.approx(0.80, abs=0.02)


def test_the_context_of_a_single_token_is_read_row_by_row():
    def attention(tokens):
        moved = 2 * 32 * tokens * 128 * 2.0
        return Row("attention", "attention", "float16", True, 2 * moved, moved, 0.0, 8192.0, 1, tokens, 128, 32, 32)

    short, long, longer = solo_costs(columns([attention(64), attention(512), attention(4096)]), A100).duration_ns
    assert long - short > 30e3
    assert longer < 3 * long  # split over more thread blocks


def test_convolutions_in_tf32_are_reordered_and_those_without_tensor_cores_are_not():
    def conv(dtype):
        return Row("convolution", "conv", dtype, True, 2e9, 4e8, 0.0, 4e8, 1 << 20, 64, 64, 1)

    v100 = find_gpu("v100-sxm2-16gb")
    rounded, half = solo_costs(columns([conv("float32"), conv("float16")]), A100).dram_bytes
    assert rounded > 1.4 * half
    assert solo_costs(columns([conv("float32")]), v100).dram_bytes[0] < 1.01 * 8e8


def test_an_h100_is_predicted_without_any_constant_fitted_on_it():
    # Measured: 64 us at 8 tokens, 749 TFLOP/s at 4096 (microsoft/vidur).
    kernels = columns([product(8, 22016, 4096), product(4096, 22016, 4096)])
    costs = solo_costs(kernels, find_gpu("h100-sxm5-80gb"))
    assert costs.duration_ns[0] / 1e3 == pytest.approx(64, rel=0.15)
    assert kernels.flops[1] / costs.duration_ns[1] * 1e-3 == pytest.approx(749, rel=0.15)


def test_one_tile_too_many_costs_another_wave():
    full = columns([product(128 * 12, 128 * 9, 8192)])
    more = columns([product(128 * 12 + 1, 128 * 9, 8192)])
    by_wave = solo_costs(more, A100).duration_ns / solo_costs(full, A100).duration_ns
    assert by_wave > 1.05


@pytest.mark.parametrize("name", gpu_names())
def test_nothing_beats_the_roofline_without_caching(name):
    gpu = find_gpu(name)
    kernels = columns([product(4096, 4096, 4096), product(8, 22016, 4096), pass_over(1 << 29)])
    # Winograd and L2 can beat a plain roofline; these three have neither.
    assert np.all(solo_costs(kernels, gpu).duration_ns > 0.99 * plain_roofline_ns(kernels, gpu))


@pytest.mark.parametrize("sms", [1, 14, 42, 98, 107])
def test_fewer_sms_are_never_faster(sms):
    assert np.all(solo_costs(MIX, A100, sms=sms).duration_ns >= solo_costs(MIX, A100).duration_ns * (1 - 1e-9))


@pytest.mark.parametrize("share", [0.125, 0.5, 0.9])
def test_less_bandwidth_is_never_faster(share):
    assert np.all(solo_costs(MIX, A100, bandwidth_share=share).duration_ns >= solo_costs(MIX, A100).duration_ns * 0.999)


def test_a_lower_clock_slows_arithmetic_and_not_memory():
    kernels = columns([product(8192, 8192, 8192), pass_over(1 << 29)])
    fast, slow = (solo_costs(kernels, A100, clock_mhz=clock).duration_ns for clock in (1410, 705))
    assert slow[0] / fast[0] == pytest.approx(2, rel=0.02)
    assert slow[1] / fast[1] == pytest.approx(1, abs=0.05)


def test_a_seventh_of_the_gpu_takes_about_seven_times_as_long_for_a_kernel_that_fills_it():
    kernels = columns([product(8192, 8192, 8192)])
    part = solo_costs(kernels, A100, sms=14, bandwidth_share=1 / 8, l2_share=1 / 8).duration_ns
    assert part / solo_costs(kernels, A100).duration_ns == pytest.approx(108 / 14, rel=0.05)


def test_a_small_kernel_needs_few_sms_and_loses_little_without_the_others():
    kernels = columns([pass_over(1 << 12)])
    costs = solo_costs(kernels, A100)
    assert costs.sms[0] <= 2
    assert solo_costs(kernels, A100, sms=14).duration_ns == pytest.approx(costs.duration_ns)


def test_a_few_small_thread_blocks_leave_room_for_others_and_tiles_of_a_product_do_not():
    costs = solo_costs(columns([pass_over(64 * 2048), pass_over(1 << 26), product(4096, 4096, 4096)]), A100)
    assert costs.sms[0] == 64
    assert costs.filled[0] == 8, "an SM has room for eight of them"
    assert costs.filled[1:] == pytest.approx(costs.sms[1:])


def test_what_fits_into_l2_never_reaches_dram():
    small, large = columns([pass_over(1 << 18)]), columns([pass_over(1 << 28)])
    assert solo_costs(small, A100).dram_bytes[0] == 0
    assert solo_costs(large, A100).dram_bytes[0] > 0.95 * (large.read + large.written)[0]


def test_a_format_without_tensor_cores_runs_without_them():
    kernels = columns([product(4096, 4096, 4096, "float32")])
    assert not solo_costs(kernels, find_gpu("v100-sxm2-16gb")).tensor[0]
    assert solo_costs(kernels, A100).tensor[0]


def test_transfers_use_the_link_and_no_sm():
    costs = solo_costs(columns([copy_in(250_000_000)]), A100)
    assert costs.sms[0] == 0
    assert costs.duration_ns[0] == pytest.approx(10e6, rel=0.01)
