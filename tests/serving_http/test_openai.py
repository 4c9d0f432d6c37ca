"""OpenAI's interface: complete answers, streams, embeddings; unsupported options are refused."""

import base64
import json

import pytest

from tests.serving_http.front import run

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
    assert 'vllm:kv_cache_usage_perc{model_name="gpt"} 0' in metrics.body.decode()


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
    assert pieces[-2]["choices"][0]["finish_reason"] == "length"
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
    "no model": ({"messages": CHAT["messages"]}, 404, "no model 'None'"),
    "an encoder": ({**CHAT, "model": "bert"}, 400, "doesn't generate text"),
    "no messages": ({"model": "gpt"}, 400, "`messages` must be a list"),
    "odd role": ({**CHAT, "messages": [{"role": "tool", "content": "x"}]}, 400, "role is"),
    "a picture": ({**CHAT, "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "content is text"),
    "several answers": ({**CHAT, "n": 2}, 400, "`n` isn't supported"),
    "tools": ({**CHAT, "tools": [{"type": "function"}]}, 400, "`tools` isn't supported"),
    "too hot": ({**CHAT, "temperature": 3}, 400, "between 0 and 2"),
    "too long": ({**CHAT, "max_tokens": 500}, 400, "at most 128 tokens"),
    "no tokens": ({**CHAT, "max_tokens": 0}, 400, "an integer above 0"),
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
