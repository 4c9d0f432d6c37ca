"""A model built in place is the model transformers builds, with other weights."""

import importlib

import pytest
import torch

from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.inputs import make_inputs
from cotenant.workloads.models.skeleton import assemble, build_skeleton, materialise, parameters_on_meta
from cotenant.workloads.protocol import WorkloadSpec

MINIS = [e for e in model_entries() if e.mini_of is not None and e.architecture.module == "transformers"]


def first_tensor(result):
    return next(value for value in result.values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("entry", MINIS, ids=lambda entry: entry.name)
def test_with_the_weights_of_from_config_it_gives_the_output_of_from_config(entry):
    """Holds only if every buffer (rotary frequencies, position numbers) is right and every tie is kept."""
    library = importlib.import_module("transformers")
    config = getattr(library, entry.architecture.config)(**entry.config)
    theirs = getattr(library, entry.architecture.classes[entry.modes[0]])._from_config(config).eval()
    ours = materialise(build_skeleton(entry, entry.modes[0]), device="cpu", dtype=torch.float32, seed=0)
    assert {n for n, _ in ours.named_parameters()} == {n for n, _ in theirs.named_parameters()}
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            parameter.copy_(theirs.get_parameter(name))
    inputs = make_inputs(entry, WorkloadSpec(name=entry.name), dtype=torch.float32).ring[0]
    with torch.inference_mode():
        assert torch.equal(first_tensor(ours(**inputs)), first_tensor(theirs(**inputs)))


def test_tied_weights_stay_one_tensor():
    entry = next(e for e in MINIS if e.name == "gpt2-mini")
    model = materialise(build_skeleton(entry, "forward"), device="cpu", dtype=torch.float32, seed=0)
    assert model.lm_head.weight is model.transformer.wte.weight


def test_weights_are_neither_zero_nor_huge_and_scales_are_one():
    entry = next(e for e in MINIS if e.name == "llama-3.2-1b-mini")
    model = materialise(build_skeleton(entry, "forward"), device="cpu", dtype=torch.float32, seed=0)
    assert torch.all(model.model.norm.weight == 1)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert 0.001 < parameter.std() < 1, name


def test_modules_of_another_thread_keep_their_real_parameters():
    import threading

    made = []
    with parameters_on_meta():
        other = threading.Thread(target=lambda: made.append(torch.nn.Linear(2, 2)))
        other.start()
        other.join()
        made.append(torch.nn.Linear(2, 2))
    assert not made[0].weight.is_meta
    assert made[1].weight.is_meta
    assert not torch.nn.Linear(2, 2).weight.is_meta


def test_a_failing_constructor_leaves_nothing_behind():
    def fail(_):
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        assemble(fail, None)
    assert not torch.nn.Linear(2, 2).weight.is_meta
