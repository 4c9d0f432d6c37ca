"""OpenAI's interface: complete answers, streams, embeddings; unsupported options are refused."""

import base64
import json
import time
from types import SimpleNamespace as Facts

import pytest

from cotenant.serving.http.openai_input import echoes_of
from tests.serving.http.front import run

CHAT = {"model": "gpt", "messages": [{"role": "user", "content": "hi"}]}


def ask(path, body, **options):
    async def scenario(client):
        return await client.post(path, body)

    return run(scenario, **options)


def test_a_request_larger_than_the_memory_for_caches_is_refused_with_both_sizes():
    async def scenario(client):
        body = {"model": "gpt", "prompt": "a", "max_tokens": 8}
        small = await client.post("/v1/completions", body)
        large = await client.post("/v1/completions", {**body, "max_tokens": 100})
        return small, large, await client.get("/metrics")

    small, large, metrics = run(scenario, cache_memory=600)
    assert small.status == 200
    assert large.status == 400
    assert "A prompt of 1 and 100 new tokens need 1,010 B of cache; there are 600 B." in large.body.decode()
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="gpt"} 0' in metrics.body.decode()


def test_a_chat_gets_a_message_and_its_usage():
    answer = ask("/v1/chat/completions", {**CHAT, "max_tokens": 5}).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "@@@@@"}
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 5


def test_a_stream_gives_the_same_text_in_pieces():
    body = {**CHAT, "max_tokens": 5, "stream": True, "stream_options": {"include_usage": True}}
    *events, last = ask("/v1/chat/completions", body).events()
    pieces = [json.loads(event) for event in events]
    assert last == "[DONE]"
    assert pieces[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(choice["delta"].get("content", "") for one in pieces for choice in one["choices"]) == "@@@@@"
    assert [one["choices"][0]["finish_reason"] for one in pieces[:-1]] == [None] * 4 + ["length"]
    assert pieces[-1]["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("prompt", ["ab", [70, 71], ["a", "b"], [[70], [71]]])
def test_prompts_are_text_or_ids_one_or_several(prompt):
    answer = ask("/v1/completions", {"model": "gpt", "prompt": prompt, "max_tokens": 2}).json()
    several = isinstance(prompt[0], list) or prompt == ["a", "b"]
    assert [choice["text"] for choice in answer["choices"]] == ["@@"] * (2 if several else 1)


def test_a_stop_text_cuts_the_answer_and_is_not_part_of_it():
    answer = ask("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 50, "stop": "@@@"}).json()
    assert answer["choices"][0]["text"] == ""
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_an_answer_ended_by_a_stop_text_counts_as_served_and_is_freed():
    async def scenario(client):
        await client.post("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 100, "stop": "@@@"})
        await client.service.conductor.drained()
        one = client.service.measures.of("gpt")
        return one.served, dict(one.why), client.service.conductor.scheduler.unanswered

    assert run(scenario) == (1, {}, 0)


def test_embeddings_as_numbers_or_base64():
    numbers = ask("/v1/embeddings", {"model": "bert", "input": ["a", "bc"]}).json()
    assert [one["embedding"] for one in numbers["data"]] == [[0.0] * 4] * 2
    assert numbers["usage"]["prompt_tokens"] == 3
    packed = ask("/v1/embeddings", {"model": "bert", "input": [7, 8], "encoding_format": "base64"}).json()
    assert base64.b64decode(packed["data"][0]["embedding"]) == bytes(16)


def test_models_are_listed():
    async def scenario(client):
        return (await client.get("/v1/models")).json(), (await client.get("/v1/models/bert")).json()

    listed, bert = run(scenario)
    assert [one["id"] for one in listed["data"]] == ["bert", "conv", "gpt"]
    assert bert["object"] == "model"


WRONG = {
    "unknown model": ({**CHAT, "model": "gpt-5"}, 404, "no model 'gpt-5'"),
    "no model": ({"messages": CHAT["messages"]}, 400, "`model` is missing"),
    "an encoder": ({**CHAT, "model": "bert"}, 400, "doesn't generate text"),
    "no messages": ({"model": "gpt"}, 400, "`messages` must be a list"),
    "odd role": ({**CHAT, "messages": [{"role": "critic", "content": "x"}]}, 400, "role is"),
    "a picture": ({**CHAT, "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "content is text"),
    "several equal answers": ({**CHAT, "n": 2, "temperature": 0}, 400, "would be the same"),
    "too many answers": ({**CHAT, "n": 65}, 400, "`n` is an integer from 1 to 64"),
    "json": ({**CHAT, "response_format": {"type": "json_object"}}, 400, "`response_format` isn't supported"),
    "guided": ({**CHAT, "guided_json": {"type": "object"}}, 400, "`guided_json` isn't supported"),
    "misspelt": ({**CHAT, "temprature": 0}, 400, "`temprature`. Did you mean temperature?"),
    "top without logprobs": ({**CHAT, "top_logprobs": 2}, 400, "needs `logprobs: true`"),
    "a count of a chat's": ({**CHAT, "logprobs": 2}, 400, "`logprobs` is true or false"),
    "biased unknown token": ({**CHAT, "logit_bias": {"1000": 1}}, 400, "between 0 and 999"),
    "unknown stop token": ({**CHAT, "stop_token_ids": [-1]}, 400, "between 0 and 999"),
    "longer least than most": ({**CHAT, "min_tokens": 9, "max_tokens": 8}, 400, "above `max_tokens`"),
    "tools": ({**CHAT, "tools": [{"type": "function"}]}, 400, "`tools` isn't supported"),
    "too hot": ({**CHAT, "temperature": 3}, 400, "between 0 and 2"),
    "too long": ({**CHAT, "max_tokens": 500}, 400, "at most 128 tokens"),
    "no tokens": ({**CHAT, "max_tokens": 0}, 400, "an integer from 1 on"),
    "odd seed": ({**CHAT, "seed": "x"}, 400, "`seed` is an integer"),
    "odd priority": ({**CHAT, "priority": "x"}, 400, "priority must be an integer"),
}


@pytest.mark.parametrize(("body", "status", "sentence"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_errors_are_openais_error_objects(body, status, sentence, stream):
    answer = ask("/v1/chat/completions", {**body, "stream": stream})
    assert answer.status == status
    assert sentence in answer.json()["error"]["message"]
    assert answer.json()["error"]["type"] in {"invalid_request_error", "not_found_error"}


PARAMS = {
    "unknown model": ("/v1/chat/completions", {**CHAT, "model": "gpt-5"}, "model", "model_not_found"),
    "misspelt": ("/v1/chat/completions", {**CHAT, "top_kk": 3}, "top_kk", None),
    "tools": ("/v1/chat/completions", {**CHAT, "tools": [{"type": "function"}]}, "tools", None),
    "too long": ("/v1/chat/completions", {**CHAT, "max_tokens": 500}, None, "context_length_exceeded"),
    "unknown tokens": ("/v1/embeddings", {"model": "bert", "input": [7, 1000]}, "input", None),
    "unknown tokens of a prompt": ("/v1/completions", {"model": "gpt", "prompt": [[7], [7, 1000]]}, "prompt", None),
    "other size": ("/v1/embeddings", {"model": "bert", "input": "a", "dimensions": 3}, "dimensions", None),
    "long text": ("/v1/embeddings", {"model": "bert", "input": "a" * 65}, None, "context_length_exceeded"),
    "best of": ("/v1/completions", {"model": "gpt", "prompt": "a", "best_of": 2}, "best_of", None),
    "responses": ("/v1/responses", {"model": "gpt", "input": "a"}, "model", None),
}


def test_the_best_of_as_many_as_are_asked_for_are_all():
    body = {"model": "gpt", "prompt": "a", "n": 2, "best_of": 2, "max_tokens": 1}
    assert len(ask("/v1/completions", body).json()["choices"]) == 2


@pytest.mark.parametrize(("path", "body", "param", "code"), PARAMS.values(), ids=PARAMS)
def test_errors_name_the_parameter_and_have_openais_codes(path, body, param, code):
    error = ask(path, body).json()["error"]
    assert (error["param"], error["code"]) == (param, code)


def test_null_is_the_default_of_every_option():
    body = {**CHAT, "max_tokens": 3, "max_completion_tokens": None, "stop": None, "n": None, "logprobs": None}
    more = {"tools": None, "response_format": None, "logit_bias": None, "top_k": None, "stream_options": None}
    assert ask("/v1/chat/completions", {**body, **more}).json()["usage"]["completion_tokens"] == 3


def test_several_answers_are_counted_with_one_prompt():
    answer = ask("/v1/completions", {"model": "gpt", "prompt": ["a", "b"], "n": 2, "max_tokens": 3}).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 12, "total_tokens": 14}


def test_every_token_is_an_event():
    body = {"model": "gpt", "prompt": ["a", "b"], "max_tokens": 9, "stream": True}
    *events, last = ask("/v1/completions", body).events()
    assert last == "[DONE]"
    choices = [json.loads(event)["choices"][0] for event in events]
    for place in (0, 1):
        assert [one["text"] for one in choices if one["index"] == place] == ["@"] * 9


def test_a_history_with_tools_is_accepted():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    assert ask("/v1/chat/completions", {"model": "gpt", "messages": history, "max_tokens": 2}).status == 200


def test_logprobs_of_a_completion_and_its_echoed_prompt():
    body = {"model": "gpt", "prompt": "ab", "max_tokens": 2, "logprobs": 1, "echo": True}
    choice = ask("/v1/completions", body).json()["choices"][0]
    assert choice["text"] == "ab@@"
    assert choice["logprobs"] == {
        "tokens": ["a", "b", "@", "@"],
        "token_logprobs": [None, 0.0, 0.0, 0.0],
        "top_logprobs": [None, {"@": 0.0, "b": 0.0}, {"@": 0.0}, {"@": 0.0}],
        "text_offset": [0, 1, 2, 3],
    }
    choice = ask("/v1/completions", {**body, "echo": False, "logprobs": 0}).json()["choices"][0]
    assert (choice["text"], choice["logprobs"]["tokens"]) == ("@@", ["@", "@"])


def test_an_echo_is_the_text_as_it_was_sent_and_token_ids_as_text():
    codec = Facts(decode=lambda ids: f"<{len(ids)} tokens>")
    assert echoes_of("As  sent", [(1, 2)], codec) == ["As  sent"]
    assert echoes_of(["As  sent", [7, 8, 9]], [(1, 2), (7, 8, 9)], codec) == ["As  sent", "<3 tokens>"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_logprobs_of_a_chat(stream):
    body = {**CHAT, "max_tokens": 2, "logprobs": True, "top_logprobs": 1, "stream": stream}
    answer = ask("/v1/chat/completions", body)
    answers = [json.loads(event) for event in answer.events()[:-1]] if stream else [answer.json()]
    content = [one for each in answers for one in each["choices"][0]["logprobs"]["content"]]
    chance = {"token": "@", "logprob": 0.0, "bytes": [64]}
    assert content == [{**chance, "top_logprobs": [chance]}] * 2


def test_a_stop_token_ends_an_answer_and_is_said():
    body = {"model": "gpt", "prompt": "a", "max_tokens": 9, "min_tokens": 3, "stop_token_ids": [72]}
    answer = ask("/v1/completions", body).json()
    assert answer["choices"][0] == {
        "index": 0, "text": "@@@", "logprobs": None, "finish_reason": "stop", "stop_reason": 72,
    }  # fmt: skip
    assert answer["usage"]["completion_tokens"] == 4


def test_usage_comes_with_every_event_if_requested():
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = ask("/v1/chat/completions", {**CHAT, "max_tokens": 2, "stream": True, "stream_options": options}).events()
    assert [json.loads(event)["usage"]["completion_tokens"] for event in events[:-1]] == [1, 2, 2]


def test_embeddings_of_2048_texts():
    answer = ask("/v1/embeddings", {"model": "bert", "input": ["a"] * 2048, "dimensions": 4}).json()
    assert [one["index"] for one in answer["data"]] == list(range(2048))
    refused = ask("/v1/embeddings", {"model": "bert", "input": ["a"] * 2049})
    assert "at most 2048 texts, not 2049" in refused.json()["error"]["message"]


def test_a_long_list_waits_where_a_single_text_is_refused():
    body = {"model": "bert", "input": ["abcd"] * 17}
    assert ask("/v1/embeddings", body, slow=("bert",)).status == 200
    assert ask("/v1/embeddings", {**body, "input": ["a" * 40]}, slow=("bert",)).status in (413, 429)


def test_models_state_when_they_were_created_and_what_they_take():
    async def scenario(client):
        return (await client.get("/v1/models")).json()["data"]

    bert, conv, gpt = run(scenario)
    assert (bert["max_model_len"], gpt["max_model_len"], "max_model_len" in conv) == (64, 128, False)
    assert abs(bert["created"] - time.time()) < 60
