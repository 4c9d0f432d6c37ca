"""Decode steps as graphs: replays give the bits of launched steps, and the tokens of a cache that grows."""

from types import SimpleNamespace

import pytest
import torch

from cotenant.errors import ServingError
from cotenant.serving.workers.decoder import DecoderEngine, Gang, layers_of
from cotenant.serving.workers.recorded import COLUMNS, RecordedSteps
from cotenant.serving.workers.servable import build_servable
from cotenant.serving.workers.work import Prompt
from cotenant.workloads.protocol import WorkloadSpec
from tests.serving.workers.test_recorded import TapeRecorder, counted

SAMPLE = Prompt(tuple(range(9, 17)), tokens=8)


@pytest.fixture(autouse=True)
def quiet():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module", params=["distilgpt2-mini", "llama-3.2-1b-mini"])
def model(request):
    spec = WorkloadSpec(name=request.param, seq=8, mode="generate", tokens=8)
    return build_servable(spec, device="cpu", dtype="float32").model


class Launching:
    """Instead of a graph, launches everything again."""

    device = "cpu"

    def pool(self):
        pass

    def record(self, run, pool):
        return SimpleNamespace(replay=run), run()


def cache_of(model, length):
    from transformers import DynamicCache

    cache = DynamicCache()
    ids = torch.randint(8, 400, (1, length), generator=torch.Generator().manual_seed(length))
    model(input_ids=ids, past_key_values=cache, use_cache=True)
    return layers_of(cache)


def scores_of(gang, model, steps=4):
    return [gang.step(model, [9 + step] * len(gang.lengths)).clone() for step in range(steps)]


def generated(engine, **prompts):
    """The tokens of requests that step together."""
    for name, prompt in prompts.items():
        engine.take(name, prompt)
        for stage in range(engine.stages):
            engine.run((name,), stage)
    found = {}
    while len(found) < len(prompts):
        found |= engine.step([name for name in prompts if name not in found], 1).results
    return found


def test_replayed_steps_give_the_bits_of_launched_ones(model):
    caches = [cache_of(model, 8), cache_of(model, 5)]
    replayed, launched = (
        RecordedSteps(model, SAMPLE, recorder, largest=2).gang(caches) for recorder in (TapeRecorder(), Launching())
    )
    for one, other in zip(scores_of(replayed, model), scores_of(launched, model), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(replayed.member(1), launched.member(1), strict=True):
        assert torch.equal(one[0], other[0])
        assert one[0].shape[2] == 5 + 4


def test_scores_are_those_of_a_growing_cache_up_to_rounding(model):
    caches = [cache_of(model, 8), cache_of(model, 5), cache_of(model, 3)]
    fixed = RecordedSteps(model, SAMPLE, TapeRecorder(), largest=4).gang(caches)
    for one, other in zip(scores_of(fixed, model), scores_of(Gang(caches), model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_requests_join_leave_and_outgrow_the_recording_without_changing_their_tokens(model):
    recorder = TapeRecorder()
    engine = DecoderEngine(model, steps=RecordedSteps(model, SAMPLE, recorder, largest=2))
    prompts = {"long": Prompt((9, 10, 11), tokens=COLUMNS + 6), "short": Prompt((12, 13), tokens=4)}
    with counted(recorder) as replays:
        found = generated(engine, **prompts)
    assert len(replays) == COLUMNS - 3, "as long as there was room"
    assert found == generated(DecoderEngine(model), **prompts)


def test_more_requests_than_recorded_step_as_usual(model):
    steps = RecordedSteps(model, SAMPLE, TapeRecorder())
    assert steps.gang([cache_of(model, 3)]) is not None
    assert steps.gang([cache_of(model, 3)] * 2) is None
    assert steps.gang([cache_of(model, COLUMNS)]) is None


def test_a_decoder_that_waits_for_the_device_is_refused_with_the_reason(model, monkeypatch):
    forward = type(model).forward

    def waits(self, *args, **kwargs):
        kwargs["input_ids"].sum().item()
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(model, "forward", waits.__get__(model))
    with pytest.raises(ServingError, match="decode steps can't be recorded as graphs: RuntimeError: operation not"):
        RecordedSteps(model, SAMPLE, TapeRecorder())
