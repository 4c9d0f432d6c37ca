"""Forward passes in chunks: bit-identical to the uncut run, several in flight at once, no leftovers."""

import pytest
import torch
from torch import nn

from cotenant.serving.workers.chunking import Cuts, find_cuts, spread
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.building import stand
from cotenant.workloads.protocol import WorkloadSpec

MINIS = [entry for entry in model_entries() if entry.mini_of is not None]


def test_a_stack_of_layers_is_cut_between_them():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    assert len(find_cuts(nn.ModuleDict({"layers": model}))) == 6
    assert spread(find_cuts(nn.ModuleDict({"layers": model})), 3) == (model[2], model[4])


def test_stages_of_blocks_are_cut_at_the_blocks():
    stages = nn.ModuleList(nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3))
    assert len(find_cuts(nn.ModuleDict({"stages": stages}))) == 6


def test_stages_that_are_modules_of_their_own_are_cut_inside_too():
    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

    stages = nn.ModuleList([Stage(), Stage()])
    assert find_cuts(nn.ModuleDict({"stages": stages})) == (
        stages[0], *stages[0].layers, stages[1], *stages[1].layers,
    )  # fmt: skip


@pytest.mark.parametrize("entry", MINIS, ids=lambda entry: entry.name)
def test_chunks_give_the_same_bits_as_the_uncut_run(entry):
    model, inputs = stand(entry, WorkloadSpec(name=entry.name), device="cpu", dtype=torch.float32)
    batch = inputs.ring[0]
    with torch.inference_mode():
        whole = first_tensor(model(**batch))
        with Cuts(spread(find_cuts(model), 5)) as cuts:
            running = cuts.start(lambda: model(**batch))
            chunks = 1
            while not running.advance():
                chunks += 1
    assert torch.equal(first_tensor(running.result), whole)
    assert chunks == cuts.chunks


def test_two_calls_of_one_model_take_turns():
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
    one, two = torch.ones(1, 8), torch.full((1, 8), 2.0)
    with torch.inference_mode(), Cuts(tuple(model)[1:]) as cuts:
        first, second = cuts.start(lambda: model(one)), cuts.start(lambda: model(two))
        ended = [False, False]
        while not all(ended):
            ended = [running.done or running.advance() for running in (first, second)]
        assert torch.equal(first.result, model(one))
        assert torch.equal(second.result, model(two))


def test_an_error_in_a_chunk_is_raised_where_the_chunk_runs():
    class Broken(nn.Module):
        def forward(self, _):
            raise ValueError("no such shape")

    model = nn.Sequential(nn.Identity(), Broken())
    with Cuts((model[1],)) as cuts:
        running = cuts.start(lambda: model(torch.ones(1)))
        assert not running.advance()
        with pytest.raises(ValueError, match="no such shape"):
            running.advance()
        assert running.done


def test_an_abandoned_call_frees_its_tensors():
    import gc
    import weakref

    class Keeps(nn.Module):
        def forward(self, value):
            self.seen = weakref.ref(value)
            return value

    model = nn.Sequential(nn.Linear(2, 2), Keeps(), nn.Identity())
    with torch.inference_mode(), Cuts((model[2],)) as cuts:
        running = cuts.start(lambda: model(torch.ones(1, 2)))
        running.advance()
        assert model[1].seen() is not None
        running.abandon()
        gc.collect()
        assert model[1].seen() is None


def test_a_plain_call_runs_through_the_cuts():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with Cuts((model[1],)):
        assert model(torch.ones(1, 2)).shape == (1, 2)


def first_tensor(output):
    if isinstance(output, torch.Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    return next(value for value in output.values() if isinstance(value, torch.Tensor))
