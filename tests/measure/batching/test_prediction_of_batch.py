"""The largest batch, predicted: it fits, one more doesn't, and the limiting cause is named."""

import pytest

from cotenant import workloads
from cotenant.devices import find_device
from cotenant.errors import DoesNotFit
from cotenant.prediction.batch_limit import INDEX_LIMIT, Growth, Room, growth_of, predict
from cotenant.workloads.protocol import Operator, Properties, WorkloadSpec

SPEC = WorkloadSpec(name="model")
GB = 10**9


def described(weights, per_item, elements=1000, inputs=0):
    def describe(spec):
        tensor = Operator("op", "float32", (), ((spec.batch, elements),), 0.0, 0.0, 0.0)
        peak = weights + per_item * spec.batch
        return Properties(0, weights, None, None, peak, input_bytes=inputs * spec.batch, operators=(tensor,))

    return describe


def test_growth_is_found_from_two_dry_runs():
    growth = growth_of(SPEC, described(GB, 10_000_000, elements=123, inputs=500))
    assert growth == Growth(GB, GB, 10_000_000, 500, 0, 123)


@pytest.mark.parametrize("room", [Room(8 * GB), Room(8 * GB, 0.05, GB), Room(8 * GB, holds_inputs=True)])
def test_the_largest_batch_fits_and_one_more_does_not(room):
    predicted = predict(growth_of(SPEC, described(GB, 10_000_000, inputs=200_000)), room)
    assert predicted.bytes_at(predicted.batch) <= room.available_bytes < predicted.bytes_at(predicted.batch + 1)
    assert predicted.limit == "memory"
    assert predicted.power_of_two <= predicted.batch < 2 * predicted.power_of_two


def test_tensors_beyond_32_bit_indices_limit_the_batch_where_kernels_use_them():
    growth = growth_of(SPEC, described(GB, 1_000_000, elements=1_204_224))
    on_a_gpu = predict(growth, Room(24 * GB, indexed_32_bit=True))
    assert (on_a_gpu.limit, on_a_gpu.batch) == ("32-bit index", INDEX_LIMIT // 1_204_224)
    assert predict(growth, Room(24 * GB)).limit == "memory"


def test_weights_that_do_not_fit_leave_no_batch():
    predicted = predict(growth_of(SPEC, described(20 * GB, 1)), Room(16 * GB))
    assert (predicted.batch, predicted.power_of_two) == (0, 0)


def test_unknown_memory_is_reported():
    with pytest.raises(DoesNotFit, match="is unknown before it runs"):
        growth_of(SPEC, lambda spec: Properties(None, None, None, None, None))


PHYSICAL = {  # in the order of the published search
    "resnet152": 1024,
    "resnet101": 1024,
    "resnet50": 1024,
    "resnet34": 2048,
    "resnet18": 2048,
    "mobilenet-v2": 1024,
    "efficientnet-v2-s": 2048,
    "efficientnet-v2-l": 2048,
    "vit-b-16": 2048,
    "vit-l-16": 2048,
    "vit-b-32": 8192,
    "vit-l-32": 4096,
}
PUBLISHED = {**PHYSICAL, "resnet34": 1024, "efficientnet-v2-s": 1024, "vit-b-32": 2048}


def a_search_that_removes_while_it_iterates(fits):
    """Doubles the size for all models; one that fails leaves the list, which skips the next one."""
    models, largest, size = list(fits), {}, 32
    while models:
        for model in models:
            if size <= fits[model]:
                largest[model] = size
            else:
                models.remove(model)
        size *= 2
    return largest


def test_twelve_vision_models_on_a_24_gb_card_match_the_physics():
    room = find_device("sim:rtx-a5000").room()
    predicted = {
        name: predict(
            growth_of(WorkloadSpec(name=name, dtype="float32", params={"image": 224}), workloads.find(name).properties),
            room,
        ).power_of_two
        for name in PHYSICAL
    }
    assert predicted == PHYSICAL


def test_a_faulty_search_over_these_sizes_reproduces_the_published_table():
    assert a_search_that_removes_while_it_iterates(PHYSICAL) == PUBLISHED


def test_the_copy_of_the_inputs_on_the_device_is_alive_in_the_dry_run():
    import torch

    from cotenant.workloads.models.building import stages_of, stand
    from cotenant.workloads.models.watching import Watch

    entry = workloads.find("resnet18-mini").entry
    spec = WorkloadSpec(name="resnet18-mini", batch=4, dtype="float32", params={"image": 64})
    model, inputs = stand(entry, spec, device="meta", dtype=torch.float32)
    with Watch() as watch:
        to_device, *_ = stages_of(model, entry, spec, inputs, "meta")
        held = to_device.run(None)
        assert watch.live_bytes == 4 * 3 * 64 * 64 * 4 == sum(tensor.nbytes for tensor in held.values())
