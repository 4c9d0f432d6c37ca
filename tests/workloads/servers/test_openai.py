"""The OpenAI API: which chunks are tokens, what is sent, and what is refused before anything is measured."""

import asyncio
import json

import pytest

from cotenant.clients.openai_stream import AnswerTokens, Events, StreamedAnswer
from cotenant.errors import RequestFailed, WorkloadError
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers.prompts import PromptOptions, Prompts
from cotenant.workloads.yours import recognise


def event(document) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def delta(**fields) -> bytes:
    return event({"choices": [{"delta": fields}]})


DONE = b"data: [DONE]\n\n"


def read(*pieces: bytes) -> tuple[AnswerTokens, list[int]]:
    tokens: list[int] = []
    generation = StreamedAnswer(tokens.append)
    for piece in pieces:
        generation.feed(piece)
    return generation.answer(), tokens


def failure(call) -> RequestFailed:
    with pytest.raises(RequestFailed) as failed:
        call()
    return failed.value


def test_a_chunk_with_only_a_role_or_only_usage_is_not_a_token():
    usage = event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    answer, tokens = read(delta(role="assistant", content=""), delta(content="a"), delta(content="b"), usage, DONE)
    assert (answer, tokens) == (AnswerTokens(5, 2), [0, 1])


def test_reasoning_and_plain_completions_are_tokens():
    assert read(delta(reasoning_content="hm"), delta(content="yes"), DONE)[1] == [0, 1]
    assert read(event({"choices": [{"text": "a"}]}), event({"choices": [{"text": ""}]}), DONE)[1] == [0]


def test_the_servers_count_wins_over_the_chunks():
    usage = event({"choices": [], "usage": {"completion_tokens": 9}})
    assert read(delta(content="several at once"), usage, DONE)[0] == AnswerTokens(None, 9)
    assert read(delta(content="a"), delta(content="b"), DONE)[0] == AnswerTokens(None, 2)


def test_a_finish_reason_ends_a_stream_as_well_as_done_does():
    finish = event({"choices": [{"delta": {}, "finish_reason": "length"}]})
    assert read(delta(content="a"), finish) == (AnswerTokens(None, 1), [0])


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_come_in_any_pieces(size):
    whole = b": comment\r\ndata: a\r\n\r\nevent: x\ndata: b\ndata: c\n\n"
    events = Events()
    found = [data for at in range(0, len(whole), size) for data in events.feed(whole[at : at + size])]
    assert found == [b"a", b"b\nc"]


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        ((b"data: rubbish\n\n",), "bad stream"),
        ((b"<html>\n",), "bad stream"),
        ((b"data: [1]\n\n",), "bad stream"),
        ((event({"choices": ["a"]}),), "bad stream"),
        ((event({"error": {"message": "out of memory"}}),), "error in stream"),
        ((delta(content="a"),), "broken off"),
        ((delta(role="assistant"), DONE), "no tokens"),
    ],
)
def test_a_stream_that_is_not_an_answer_has_a_kind(stream, kind):
    assert failure(lambda: read(*stream)).kind == kind


def test_prompts_are_new_each_time_and_of_the_requested_length():
    prompts = Prompts(PromptOptions(tokens=20), seed=1)
    made = [prompts.next(0) for _ in range(10)]
    assert len(set(made)) == 10
    assert {len(text.split()) for text in made} == {20}
    assert Prompts(PromptOptions(tokens=20), seed=1).next(0) not in made  # nor does another run repeat them


def test_a_prompt_prepared_before_it_is_due_is_the_same_and_only_handed_over(monkeypatch):
    options = PromptOptions(tokens=20, cv=0.5, repeat=True)
    late, early = Prompts(options, seed=1), Prompts(options, seed=1)
    expected = [late.next(number) for number in range(3)]
    early.begin(0)
    for number, text in enumerate(expected):
        with monkeypatch.context() as patch:
            patch.setattr("cotenant.workloads.servers.prompts._words", None)
            assert early.next(number) == text
        early.prepare(number + 1)
    early.begin(0)
    assert early.next(0) == expected[0]


def test_prompts_share_a_prefix_if_requested():
    prompts = Prompts(PromptOptions(tokens=20, shared=0.5), seed=1)
    first, second = (prompts.next(0).split() for _ in range(2))
    assert first[:10] == second[:10]
    assert first[10:] != second[10:]


def test_lengths_spread_around_their_mean_by_the_seed():
    def lengths():
        prompts = Prompts(PromptOptions(tokens=200, cv=0.5), seed=3)
        return [len(prompts.next(0).split()) for _ in range(400)]

    found = lengths()
    assert found == lengths()
    assert 180 < sum(found) / len(found) < 220
    assert len(set(found)) > 100


def test_prompts_come_from_a_file_in_turn(tmp_path):
    shared = '{"conversations": [{"from": "human", "value": "two"}]}'
    parts = '[{"type": "text", "text": "3"}, {"type": "image_url", "image_url": {}}]'
    rules = '{"role": "system", "content": "be brief"}'
    lines = ['{"prompt": "one"}', shared, f'{{"messages": [{rules}, {{"role": "user", "content": {parts}}}]}}']
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    prompts = Prompts(PromptOptions(file=str(tmp_path / "p.jsonl")), seed=0)
    assert [prompts.next(0) for _ in range(3)] == ["one", "two", "3"]
    assert prompts.next(0).endswith("one")
    (tmp_path / "p.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(WorkloadError, match=r"p.jsonl:1 has no prompt"):
        Prompts(PromptOptions(file=str(tmp_path / "p.jsonl")), seed=0)


def refused_at_check(name, **fields) -> WorkloadError:
    with pytest.raises(WorkloadError) as refused:
        recognise(name).check(WorkloadSpec(name=name, **fields))
    return refused.value


def test_a_model_the_server_lacks_is_refused_with_those_it_has(scripted):
    server = scripted()
    error = refused_at_check(f"openai:{server.address}", params={"model": "gpt"})
    assert (error.message, error.hint) == (f"`{server.address}` has no model `gpt`", "it has scripted")
    error = refused_at_check(f"v2:{server.address}", params={"model": "resnet"})
    assert (error.message, error.hint) == (f"`{server.address}` has no model `resnet`", "it has scripted")
    recognise("openai:x").check(WorkloadSpec(name=f"openai:{server.address}", params={"model": "scripted"}))
    recognise("v2:x").check(WorkloadSpec(name=f"v2:{server.address}", params={"model": "scripted"}))


def test_an_endpoint_of_another_kind_is_refused(scripted):
    server = scripted()
    message = refused_at_check(f"openai:{server.address}/elsewhere").message
    assert "is not a server with the OpenAI API: GET /elsewhere/v1/models returns status 404" in message


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("openai:", {}, "`openai:` has no address"),
        ("openai:ftp://a", {}, "`ftp://a` is not an address"),
        ("openai:http://a", {"batch": 2}, "`openai:http://a`: a request of `chat` has one prompt, not a batch of 2"),
        ("openai:http://a", {"train": True}, "`openai:http://a` has no train"),
        ("openai:http://a", {"params": {"api": "images"}}, "`openai:http://a`: param `api` is 'images'"),
        ("openai:http://a", {"params": {"prompts": {"file": "/no.jsonl"}}}, "the prompts in /no.jsonl can't be read"),
        ("v2:http://a", {}, "`v2:http://a` needs a model"),
        (
            "openai:http://a",
            {"server": {"start": "x {port}"}},
            "`openai:http://a` names an address, but `server` starts one on a port that cotenant chooses",
        ),
    ],
)
def test_invalid_requests_are_refused_in_one_sentence(name, fields, message):
    assert refused_at_check(name, **fields).message.startswith(message)


def ask(spec: WorkloadSpec) -> AnswerTokens:
    """One request to a running server."""
    client = recognise(spec.name).build(spec, None).client

    async def once():
        try:
            return await client.request(0, lambda *_: None)
        finally:
            await client.close()

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("fault", "kind"), [("500", "http 500"), ("rubbish", "bad stream"), ("break", "broken off"), ("die", "connection")]
)
def test_each_fault_of_a_server_has_a_kind_and_no_latency(scripted, fault, kind):
    server = scripted("--fault", fault, "--ttft", "0.001", "--itl", "0.001")
    name = f"openai:{server.address}"
    assert failure(lambda: ask(WorkloadSpec(name=name, tokens=4))).kind == kind


def test_an_answer_of_the_wrong_length_is_an_error(scripted):
    server = scripted("--ttft", "0.001", "--itl", "0.001")
    name = f"openai:{server.address}"
    spec = WorkloadSpec(name=name, tokens=4, params={"extra": {"max_tokens": 3}})
    assert failure(lambda: ask(spec)).kind == "wrong length"
