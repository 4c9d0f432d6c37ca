"""Tokens are chosen as transformers' `generate` chooses them, and scored as the model scores them."""

import pytest
import torch

from cotenant.serving.workers.decoder import Chooser, DecoderEngine
from cotenant.serving.workers.work import Prompt
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.building import stand
from cotenant.workloads.protocol import WorkloadSpec

IDS = (9, 10, 11, 12, 13)


@pytest.fixture(scope="module")
def gpt():
    entry = next(one for one in model_entries() if one.name == "gpt2-mini")
    return stand(entry, WorkloadSpec(name=entry.name), device="cpu", dtype=torch.float32)[0]


@pytest.fixture(autouse=True)
def quiet():
    with torch.inference_mode():
        yield


def generated(model, told=None, **options):
    """Tokens and scores of a request to an engine."""
    engine = DecoderEngine(model)
    engine.take(1, Prompt(IDS, **{"tokens": 8, **options}))
    first = engine.run((1,), 0)
    tokens, scores = list(first.tokens[1]), list(first.scores.get(1, ()))
    if 1 not in first.results:
        rest = engine.step((1,), options.get("tokens", 8) - 1, told)
        tokens += rest.tokens.get(1, [])
        scores += rest.scores.get(1, [])
    return tokens, scores


def generate(model, **options):
    """The same by transformers."""
    ids = torch.tensor([IDS])
    made = model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None, **options)
    return made[0, len(IDS) :].tolist()


@pytest.mark.parametrize("penalty", [1.0, 1.3, 5.0])
def test_repeated_tokens_are_penalised_as_in_transformers(gpt, penalty):
    assert generated(gpt, repetition_penalty=penalty)[0] == generate(gpt, repetition_penalty=penalty)


def test_a_bias_of_100_forces_a_token_and_one_of_minus_100_bans_it(gpt):
    (likely, *_), _ = generated(gpt)
    assert set(generated(gpt, logit_bias=((77, 100.0),))[0]) == {77}
    assert likely not in generated(gpt, logit_bias=((likely, -100.0),))[0]


def test_a_stop_token_comes_only_after_the_least_number(gpt):
    plain, _ = generated(gpt)
    short, _ = generated(gpt, stop=(plain[0],))
    assert short == plain[:1]
    longer, _ = generated(gpt, stop=(plain[0],), min_tokens=3)
    assert len(longer) > 3
    assert plain[0] not in longer[:3]


def test_scores_are_the_models_log_probabilities_of_prompt_and_answer(gpt):
    tokens, scores = generated(gpt, tokens=3, logprobs=2, prompt_logprobs=True)
    whole = torch.tensor([[*IDS, *tokens]])
    expected = gpt(whole).logits[0].log_softmax(-1)
    assert len(scores) == len(IDS) - 1 + 3
    for place, score in enumerate(scores):
        own = expected[place, whole[0, place + 1]].item()
        top = expected[place].topk(2)
        assert score.logprob == pytest.approx(own, abs=1e-4)
        assert [token for token, _ in score.top] == top.indices.tolist()


def test_scores_are_those_before_penalties(gpt):
    (_, plain), (_, biased) = (
        generated(gpt, tokens=1, logprobs=1),
        generated(gpt, tokens=1, logprobs=1, logit_bias=((77, 100.0),)),
    )
    assert biased[0].top == plain[0].top
    assert biased[0].logprob < plain[0].logprob


def chosen(count=600, **options):
    scores = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0])
    return {Chooser(Prompt((0,), 1, temperature=1.0, seed=seed, **options)).choose(scores) for seed in range(count)}


def test_sampling_keeps_to_the_most_likely_tokens_requested():
    assert chosen() == {0, 1, 2, 3, 4}
    assert chosen(top_k=2) == {0, 1}
    assert chosen(min_p=0.1) == {0, 1, 2}  # exp(-2) is 0.14 of the most likely, exp(-3) 0.05
    assert chosen(top_p=0.0) == {0}


def test_presence_and_frequency_are_penalised_in_the_answer_only():
    def made(**options):
        chooser = Chooser(Prompt((0,), 3, **options))
        return [chooser.choose(torch.tensor([4.0, 3.5, 0.0])) for _ in range(5)]

    assert made() == [0] * 5
    assert made(presence_penalty=1.0) == [0, 1, 0, 0, 0]
    assert made(frequency_penalty=1.0) == [0, 1, 0, 1, 0]


def test_tokens_that_stream_are_told_before_the_chunk_ends(gpt):
    told = []
    tokens, _ = generated(gpt, told.append, streams=True)
    assert [progress.tokens for progress in told] == [{1: [token]} for token in generated(gpt)[0][1:-1]]
    assert tokens == [generated(gpt)[0][0], generated(gpt)[0][-1]]
    told.clear()
    generated(gpt, told.append)
    assert told == []
