"""What a workload takes of a GPU's memory, and the largest batch that fits."""

import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.memory import FRAGMENTATION, max_batch, need
from cotenant.errors import DoesNotFit
from cotenant.workloads.protocol import Properties, WorkloadSpec

GPU = find_gpu("t4")
SPEC = WorkloadSpec(name="model")


def linear(weights, per_item):
    def describe(spec):
        return Properties(0, weights, None, None, weights + per_item * spec.batch)

    return describe


def test_a_need_names_its_parts():
    parts = need(Properties(0, 100 << 20, None, None, 300 << 20), GPU)
    assert parts is not None
    assert (parts.weights >> 20, parts.activations >> 20, parts.context >> 20) == (100, 200, 380)
    assert parts.lost == int((300 << 20) * FRAGMENTATION)
    assert parts.total == parts.weights + parts.activations + parts.lost + parts.context


def test_the_largest_batch_fits_and_one_more_does_not():
    largest = max_batch(SPEC, GPU, linear(1 << 30, 10 << 20))
    fits, too_many = (
        need(linear(1 << 30, 10 << 20)(SPEC.model_copy(update={"batch": batch})), GPU)
        for batch in (largest.batch, largest.batch + 1)
    )
    assert fits is not None
    assert too_many is not None
    assert fits.total <= GPU.memory_bytes < too_many.total
    assert largest.power_of_two == 1024


def test_a_part_of_a_gpu_takes_a_smaller_batch():
    whole = max_batch(SPEC, GPU, linear(1 << 30, 10 << 20))
    part = max_batch(SPEC, GPU, linear(1 << 30, 10 << 20), memory_bytes=GPU.memory_bytes // 4)
    assert 0 < part.batch < whole.batch / 4


def test_weights_that_do_not_fit_leave_no_batch():
    assert max_batch(SPEC, GPU, linear(20 << 30, 1 << 20)).batch == 0


def test_memory_that_can_not_be_known_is_said():
    with pytest.raises(DoesNotFit, match="can't be known"):
        max_batch(SPEC, GPU, lambda spec: Properties(None, None, None, None, None))
