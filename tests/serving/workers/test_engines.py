"""Engines: chunks and batches equal plain calls; gangs generate the same tokens as each request alone."""

import pytest
import torch
from torch import nn

from cotenant.serving.workers.chunking import Cuts, balanced_cuts, group
from cotenant.serving.workers.decoder import DecoderEngine
from cotenant.serving.workers.forward import ForwardEngine
from cotenant.serving.workers.work import Call, Prompt
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.building import stand
from cotenant.workloads.protocol import WorkloadSpec

DECODERS = [entry for entry in model_entries() if entry.mini_of is not None and entry.family == "decoder"]


@pytest.fixture(autouse=True)
def quiet():
    with torch.inference_mode():
        yield


def stack(layers=4, width=8):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))


def through(engine, requests):
    """Run all stages of a batch; returns its results."""
    results, failures = {}, {}
    for stage in range(engine.stages):
        progress = engine.run(requests, stage)
        results |= progress.results
        failures |= progress.failures
    return results, failures


def test_a_batch_gives_each_request_its_own_rows():
    model = stack()
    engine = ForwardEngine(model, Cuts(tuple(model)[1:]), batches=True)
    inputs = {"a": torch.randn(1, 8), "b": torch.randn(3, 8), "c": torch.randn(2, 8)}
    for name, value in inputs.items():
        engine.take(name, Call((value,)))
    results, failures = through(engine, tuple(inputs))
    assert not failures
    for name, value in inputs.items():
        torch.testing.assert_close(results[name], model(value))


def test_requests_of_other_shapes_run_beside_each_other():
    engine = ForwardEngine(lambda value: value * 2, batches=True)
    engine.take(1, Call((torch.ones(1, 3),)))
    engine.take(2, Call((torch.ones(1, 5),)))
    results, _ = through(engine, (1, 2))
    assert [results[1].shape, results[2].shape] == [(1, 3), (1, 5)]


def test_one_bad_request_does_not_fail_the_others_of_its_batch():
    def picky(value):
        if (value < 0).any():
            raise ValueError("negative")
        return value

    engine = ForwardEngine(picky, batches=True)
    engine.take("good", Call((torch.ones(1, 2),)))
    engine.take("bad", Call((-torch.ones(1, 2),)))
    results, failures = through(engine, ("good", "bad"))
    assert set(results) == {"good"}
    assert str(failures["bad"]) == "negative"


def test_a_freed_member_of_a_batch_gets_no_result_and_the_others_do():
    model = stack()
    engine = ForwardEngine(model, Cuts((model[2],)), batches=True)
    for name in "ab":
        engine.take(name, Call((torch.ones(1, 8),)))
    engine.run("ab", 0)
    engine.free("a")
    assert set(engine.run("ab", 1).results) == {"b"}


def test_a_module_without_layers_is_one_chunk():
    engine = ForwardEngine(lambda text: text.upper())
    engine.take(1, Call(("hello",)))
    assert engine.run((1,), 0).results == {1: "HELLO"}


@pytest.mark.parametrize("entry", DECODERS, ids=lambda entry: entry.name)
def test_a_gang_generates_the_same_tokens_as_each_request_alone(entry):
    model, _ = stand(entry, WorkloadSpec(name=entry.name), device="cpu", dtype=torch.float32)
    torch.manual_seed(1)
    prompts = {
        name: tuple(torch.randint(8, 400, (length,)).tolist()) for name, length in (("a", 5), ("b", 17), ("c", 9))
    }
    alone = {name: greedy(model, ids, 12) for name, ids in prompts.items()}
    engine = DecoderEngine(
        model, Cuts(balanced_cuts(model, lambda: model(torch.ones(1, 4, dtype=torch.long)), chunk_s=0))
    )
    assert engine.stages > 1
    for name, ids in prompts.items():
        engine.take(name, Prompt(ids, tokens=12))
    made = {name: [] for name in prompts}
    note(through_prefill(engine, "a"), made)
    note(engine.step(("a",), 2), made)  # alone at first
    note(through_prefill(engine, "b"), made)
    note(engine.step(("a", "b"), 3), made)  # then two of different lengths
    note(through_prefill(engine, "c"), made)
    note(engine.step(("c", "b", "a"), 3), made)
    note(engine.step(("b",), 2), made)  # one continues alone
    note(engine.step(("a", "b", "c"), 11), made)
    assert made == alone


def through_prefill(engine, name):
    for stage in range(engine.stages):
        progress = engine.run((name,), stage)
    return progress


def note(progress, made):
    assert not progress.failures
    for name, tokens in progress.tokens.items():
        made[name] += tokens


def greedy(model, ids, tokens):
    ids = list(ids)
    start = len(ids)
    for _ in range(tokens):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[start:]


@pytest.fixture(scope="module")
def gpt():
    entry = next(entry for entry in DECODERS if entry.name == "gpt2-mini")
    return stand(entry, WorkloadSpec(name=entry.name), device="cpu", dtype=torch.float32)[0]


def generate(model, **options):
    engine = DecoderEngine(model)
    engine.take(1, Prompt((9, 10, 11), **options))
    result = engine.run((1,), 0).results.get(1)
    while result is None:
        result = engine.step((1,), 4).results.get(1)
    return result


def test_sampling_is_reproducible_and_stays_within_top_p(gpt):
    warm = generate(gpt, tokens=12, temperature=1.5, seed=3)
    assert warm == generate(gpt, tokens=12, temperature=1.5, seed=3)
    assert warm != generate(gpt, tokens=12, temperature=1.5, seed=4)
    assert generate(gpt, tokens=8, temperature=1.5, top_p=1e-9) == generate(gpt, tokens=8)


def test_a_stop_token_ends_a_request_early(gpt):
    free = generate(gpt, tokens=8)
    assert generate(gpt, tokens=8, stop=(free[3],)) == free[: free.index(free[3]) + 1]


def test_layers_are_grouped_until_they_are_worth_a_chunk():
    assert group([1.0] * 6, 2.0) == [0, 2, 4]
    assert group([10.0, 1.0, 1.0, 1.0], 3.0) == [0, 1]
    assert group([1.0, 1.0], 50.0) == [0]


def test_a_layer_that_runs_twice_is_not_a_cut():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

        def forward(self, value):
            return self.layers[2](self.layers[1](self.layers[1](self.layers[0](value))))

    model = Twice()
    assert model.layers[1] not in balanced_cuts(model, lambda: model(torch.ones(1, 2)), chunk_s=0)
