"""A slice is the last blocks of a model, found by watching it run."""

import pytest
import torch

from cotenant.errors import WorkloadError
from cotenant.workloads import find
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.building import stand
from cotenant.workloads.models.entry import block_count, kept
from cotenant.workloads.models.watching import Watch
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.slices import find_blocks
from tests.support.architectures import one_of_each

pytestmark = pytest.mark.slow

DETECTOR = "yolos-small"
MINIS = one_of_each(
    entry for entry in model_entries() if entry.mini_of not in (None, DETECTOR) and block_count(entry) is not None
)


@pytest.mark.parametrize("entry", MINIS, ids=lambda entry: entry.name)
def test_the_last_n_blocks_are_kept_and_run(entry):
    whole, inputs = stand(entry, WorkloadSpec(name=entry.name), device="meta", dtype=torch.float32)
    with Watch():
        blocks = find_blocks(whole, inputs.ring[0])
    assert len(blocks.names) == block_count(entry)
    kind = type(whole.get_submodule(blocks.names[-1]))
    for count in (1, len(blocks.names) - 1):
        spec = WorkloadSpec(name=entry.name, layers=f"last {count}")
        tail, hidden = stand(entry, spec, device="cpu", dtype=torch.float32)
        ran = []
        for module in tail.modules():
            if type(module) is kind:
                module.register_forward_hook(lambda module, args, out, ran=ran: ran.append(module))
        with torch.inference_mode():
            tail(**hidden.ring[0])
        assert len(ran) == count
        assert tuple(hidden.ring[0]["hidden"].shape) == blocks.shapes[-count]


@pytest.mark.parametrize("name", ["bert-base-mini", "gpt2-mini", "resnet50-mini", "vit-b-16-mini"])
def test_a_slice_fed_with_the_real_hidden_state_gives_the_full_models_answer(name):
    entry = find(name).entry
    whole, inputs = stand(entry, WorkloadSpec(name=name), device="cpu", dtype=torch.float32)
    spec = WorkloadSpec(name=name, layers="last 2")
    tail, _ = stand(entry, spec, device="cpu", dtype=torch.float32)
    with torch.inference_mode():
        blocks = find_blocks(whole, inputs.ring[0])
        for parameter_name, parameter in tail.model.named_parameters():
            parameter.copy_(whole.get_parameter(parameter_name))
        seen = []
        first = whole.get_submodule(blocks.names[-2])
        first.register_forward_pre_hook(lambda _, args, kwargs: seen.append(args[0]), with_kwargs=True)
        expected = whole(**inputs.ring[0])
        answer = tail(hidden=seen[0])
    assert torch.equal(answer[0], expected[0])


def test_half_of_a_model_has_half_of_its_blocks_cost():
    spec = WorkloadSpec(name="vit-b-16-mini")
    workload = find(spec.name)
    whole = workload.properties(spec)
    half = workload.properties(spec.model_copy(update={"layers": "last 50%"}))
    assert half.flops == pytest.approx(whole.flops / 2, rel=0.03)
    assert half.weight_bytes < 0.55 * whole.weight_bytes


@pytest.mark.parametrize(
    ("layers", "blocks", "count"), [("full", 12, 12), ("last 50%", 12, 6), ("last 3", 12, 3), ("last 1%", 12, 1)]
)
def test_notations_of_layers(layers, blocks, count):
    assert kept(layers, blocks) == count


@pytest.mark.parametrize("layers", ["first 3", "last 0", "last 13", "last 0%", "last 101%", "last 2.5", "half"])
def test_invalid_layers_are_refused(layers):
    with pytest.raises(WorkloadError):
        kept(layers, 12)
