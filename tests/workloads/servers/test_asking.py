"""Requests to a server with the OpenAI API besides single chats, and what is recorded."""

import asyncio

import pytest

from cotenant.clients.exposition import read_metrics, read_sizes
from cotenant.clients.openai_stream import StreamedAnswer, counter
from cotenant.errors import HungUp, StudyError
from cotenant.study.files import study_from
from cotenant.study.workload_check import check_workloads
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers.prompts import Conversations
from cotenant.workloads.yours import recognise

FAST = ("--ttft", "0.001", "--itl", "0.001", "--sleep", "0.001")


def asked(server, count=1, tokens=None, batch=1, **params):
    """The answers to some requests, and the client that sent them."""
    name = f"openai:{server.address}"
    spec = WorkloadSpec(name=name, tokens=tokens, batch=batch, params=params)
    recognise(name).check(spec)
    client = recognise(name).build(spec, None).client

    async def several():
        try:
            return [await client.request(number, lambda *_: None) for number in range(count)]
        finally:
            await client.close()

    return asyncio.run(several())


def test_a_conversation_carries_what_was_said_and_ends_after_its_turns(scripted):
    answers = asked(scripted(*FAST), count=5, tokens=4, turns=3, prompts={"tokens": 10})
    sizes = [one.tokens_in for one in answers]
    assert sizes[0] < sizes[1] < sizes[2]  # each turn has all previous ones
    assert sizes[3] == sizes[0]  # then a new one starts
    assert sizes[4] == sizes[1]


def test_conversations_in_flight_belong_to_one_request_each():
    pool = Conversations(turns=2)
    first = pool.take()
    assert pool.take() is not first
    first.answered("yes")
    pool.give_back(first)
    assert pool.take() is first
    first.answered("no")
    pool.give_back(first)
    assert pool.take() is not first


def test_reasoning_is_counted_apart(scripted):
    [answer] = asked(scripted(*FAST, "--thinks", "3"), tokens=8)
    assert (answer.tokens_out, answer.tokens_reasoning) == (8, 3)


def test_a_tokenizer_counts_where_the_server_does_not(scripted, tmp_path):
    from cotenant.workloads.models.exporting import write_tokenizer

    write_tokenizer(tmp_path, 200, 64)
    server = scripted(*FAST, "--no-usage", "--thinks", "1")
    [answer] = asked(server, tokens=5, tokenizer=str(tmp_path), fixed_length=False)
    assert (answer.tokens_out, answer.tokens_reasoning) == (5, 1)
    assert counter(str(tmp_path))("time year people") == 3


def test_chunks_of_several_tokens_are_counted_by_the_tokenizer():
    generation = StreamedAnswer(lambda *_: None, count=lambda text: len(text.split()))
    generation.feed(b'data: {"choices": [{"delta": {"content": "one two three"}}]}\n\ndata: [DONE]\n\n')
    assert generation.answer().tokens_out == 3


def test_an_adapter_is_a_model_by_its_name(scripted):
    server = scripted(*FAST, "--adapter", "lora-a")
    [answer] = asked(server, tokens=2, model="lora-a")
    assert answer.tokens_out == 2


def test_documents_are_ranked(scripted):
    [answer] = asked(scripted(*FAST), batch=4, api="rerank")
    assert answer.tokens_out is None


def test_some_requests_are_cancelled_midway(scripted):
    with pytest.raises(HungUp, match="after 2 tokens"):
        asked(scripted(*FAST), tokens=8, cancel={"share": 1.0, "after": 2})


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"api": "rerank", "turns": 2}, "`rerank` generates nothing, so it has no turns"),
        ({"stream": False, "cancel": {"share": 0.5}}, "only a streamed answer can be cancelled"),
        ({"api": "completions", "turns": 2}, "only a streamed chat has `turns`"),
        ({"tokenizer": "/nowhere"}, "there is no tokenizer at /nowhere"),
        ({"prompts": {"trace": "a", "file": "b"}}, "give `file` or `trace`, not both"),
    ],
)
def test_incompatible_options_are_refused_in_one_sentence(params, sentence):
    from cotenant.errors import WorkloadError

    spec = WorkloadSpec(name="openai:http://127.0.0.1:1", params=params)
    with pytest.raises(WorkloadError) as refused:
        recognise(spec.name).check(spec)
    assert sentence in refused.value.message


PAGE = """# HELP vllm:num_requests_waiting Number of requests waiting.
vllm:num_requests_waiting{engine="0"} 3.0
vllm:num_requests_waiting{engine="1"} 4.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:cache_config_info{block_size="16",kv_cache_size_tokens="1024",x="None"} 1.0
te_queue_size NaN
python_gc_objects_collected_total{generation="0"} 512.0
"""


def test_metrics_of_several_engines_are_combined():
    found = {one.metric: (one.known.sensor, one.value) for one in read_metrics(PAGE)}
    assert found == {"vllm:num_requests_waiting": ("queue", 7.0), "vllm:kv_cache_usage_perc": ("kv_cache", 0.75)}
    assert read_sizes(PAGE) == {"kv_cache_size_tokens": 1024}


def test_a_value_published_under_two_names_is_one_sensor():
    page = "nv_inference_pending_request_count 2\nvllm:num_requests_waiting 2\ncotenant_backlog_seconds 0.5\n"
    found = [(one.known.sensor, one.metric) for one in read_metrics(page)]
    assert found == [("queue", "vllm:num_requests_waiting"), ("backlog", "cotenant_backlog_seconds")]


@pytest.mark.parametrize(
    "tenant",
    [
        {"workload": "http:/predict", "server": {"start": "python {port}"}},
        {"workload": "v2:", "server": {"start": "python {port}"}, "params": {"model": "m"}},
        {"workload": "openai:", "server": {"start": "python {port}"}, "params": {"api": "embeddings"}},
        {"workload": "openai:", "server": {"start": "python {port}"}, "params": {"stream": False}},
    ],
)
def test_an_objective_for_tokens_needs_answers_that_come_token_by_token(tenant):
    study = study_from({"tenants": {"a": {**tenant, "slo": {"ttft p95": "300ms"}}}})
    with pytest.raises(StudyError) as refused:
        check_workloads(study, execute=False)
    [problem] = refused.value.problems
    assert "has no tokens that are timed: give a latency instead" in problem


def test_a_streamed_chat_may_have_an_objective_for_tokens():
    chat = {"workload": "openai:", "server": {"start": "python {port}"}, "slo": {"ttft p95": "300ms"}}
    assert len(check_workloads(study_from({"tenants": {"a": chat}}), execute=False)) == 1
