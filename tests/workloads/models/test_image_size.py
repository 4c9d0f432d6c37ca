"""The image size of a vision model can be chosen, and is part of the key of its description."""

import numpy as np
import pytest

from cotenant.errors import WorkloadError
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec


def spec(name, **params):
    return WorkloadSpec(name=name, batch=2, params=params)


@pytest.mark.parametrize("name", ["resnet18-mini", "vit-b-16-mini", "efficientnet-v2-s-mini", "mobilenet-v2-mini"])
def test_larger_images_cost_more(name):
    workload = find(name)
    usual, larger = workload.properties(spec(name)), workload.properties(spec(name, image=96))
    assert larger.flops > 1.5 * usual.flops
    assert larger.peak_memory_bytes > usual.peak_memory_bytes


def test_a_model_with_positions_is_built_for_the_size():
    class Here:
        torch_device, default_dtype = "cpu", "float32"

    built = find("vit-b-16-mini").build(spec("vit-b-16-mini", image=96), Here())
    value = None
    for stage in built.stages:
        value = stage.run(value)
    assert value.shape[0] == spec("vit-b-16-mini").batch
    assert np.isfinite(np.asarray(value, dtype=float)).all()


@pytest.mark.parametrize("side", [0, 16, 4096, True, "big"])
def test_impossible_sizes_are_refused_in_one_sentence(side):
    with pytest.raises(WorkloadError, match="`image` is a side length of 32 to 2048 pixels"):
        find("resnet18-mini").check(spec("resnet18-mini", image=side))
