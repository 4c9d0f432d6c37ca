"""What completions, chats and embeddings may ask for: each option by itself, as OpenAI and vLLM state it."""

from types import SimpleNamespace as Facts

import pytest

from cotenant.errors import BadInput
from cotenant.serving.codec import ByteCodec
from cotenant.serving.http.openai_input import (
    conversation_of,
    echoes_of,
    read_asked,
    refuse_unknown,
    texts_of,
)
from cotenant.serving.http.request_options import HIGHEST, check_options, read_sampling, switch, whole, wishes_of
from cotenant.serving.service import Wishes
from tests.serving.http.front import DECODER

COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"


def refused(call, *arguments, **options):
    """The parameter that a refusal names; None if nothing was refused."""
    try:
        call(*arguments, **options)
    except BadInput as error:
        return error.param or "refused"
    return None


def asked(path=COMPLETIONS, **body):
    return read_asked({"model": "gpt", **body}, Facts(signature=DECODER), path)


@pytest.mark.parametrize(
    ("path", "option", "harmless", "harmful"),
    [
        (COMPLETIONS, "store", False, True),
        (COMPLETIONS, "store", False, 0),
        (COMPLETIONS, "service_tier", "default", "flex"),
        (COMPLETIONS, "response_format", {"type": "text"}, {"type": "json_object"}),
        (COMPLETIONS, "bad_words", [], ["a"]),
        (COMPLETIONS, "guided_json", None, {}),
        (COMPLETIONS, "add_special_tokens", True, False),
        (COMPLETIONS, "skip_special_tokens", True, False),
        (COMPLETIONS, "spaces_between_special_tokens", True, False),
        (COMPLETIONS, "include_stop_str_in_output", False, True),
        (COMPLETIONS, "return_token_ids", False, True),
        (COMPLETIONS, "return_tokens_as_token_ids", False, True),
        (COMPLETIONS, "use_beam_search", False, True),
        (COMPLETIONS, "length_penalty", 1, 2.0),
        (COMPLETIONS, "suffix", "", "b"),
        (CHAT, "add_special_tokens", False, True),
        (CHAT, "tools", [], [{}]),
        (CHAT, "tool_choice", "none", "required"),
        (CHAT, "parallel_tool_calls", True, 1),
        (CHAT, "modalities", ["text"], ["audio"]),
        (CHAT, "audio", None, {}),
        (CHAT, "reasoning_effort", "none", "high"),
        (CHAT, "echo", False, True),
        (CHAT, "documents", [], ["a"]),
        (CHAT, "chat_template_kwargs", {}, {"a": 1}),
        (CHAT, "add_generation_prompt", True, False),
        (CHAT, "continue_final_message", False, True),
        (EMBEDDINGS, "add_special_tokens", True, False),
        (EMBEDDINGS, "truncate_prompt_tokens", None, 4),
    ],
)
def test_an_option_that_is_not_supported_may_only_be_off(path, option, harmless, harmful):
    assert refused(refuse_unknown, {option: harmless}, path) is None
    assert refused(refuse_unknown, {option: None}, path) is None
    assert refused(refuse_unknown, {option: harmful}, path) == option


def test_an_option_that_nobody_knows_is_refused_by_the_beginning_of_its_name():
    assert refused(check_options, {"x" * 300: None}, (), {}, where="here") == "x" * 100
    with pytest.raises(BadInput, match="Here has no option `temprature`") as error:
        check_options({"temprature": 1}, ("temperature",), {}, where="here")
    assert "temperature" in error.value.hint


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"best_of": 1}, None),
        ({"best_of": 2}, "best_of"),
        ({"n": 2, "best_of": 2}, None),
        ({"n": 2, "best_of": 1}, "best_of"),
        ({"n": 2, "temperature": 0}, "n"),
        ({"n": 1, "temperature": 0}, None),
        ({"n": 2, "temperature": 0.1}, None),
        ({"min_tokens": 4, "max_tokens": 4}, None),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"stream_options": []}, None),
        ({"stream_options": [1]}, "stream_options"),
        ({"stream_options": {"include_obfuscation": True}}, "include_obfuscation"),
    ],
)
def test_options_that_contradict_each_other(body, param):
    assert refused(asked, **body) == param


def test_usage_comes_at_the_end_if_it_is_asked_for_or_with_every_event():
    found = [asked(stream=True, stream_options=options) for options in (
        None, {"include_usage": True}, {"continuous_usage_stats": True}, {"continuous_usage_stats": False},
    )]  # fmt: skip
    assert [(each.usage, each.usage_each) for each in found] == [
        (False, False), (True, False), (True, True), (False, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "options", "found"),
    [
        (COMPLETIONS, {}, None), (COMPLETIONS, {"logprobs": False}, None), (COMPLETIONS, {"logprobs": 0}, 0),
        (COMPLETIONS, {"logprobs": 20}, 20), (CHAT, {"top_logprobs": 0}, None), (CHAT, {"logprobs": True}, 0),
        (CHAT, {"logprobs": True, "top_logprobs": 3}, 3), (CHAT, {"logprobs": False, "top_logprobs": 0}, None),
    ],
)  # fmt: skip
def test_log_probabilities_of_completions_and_chats(path, options, found):
    assert asked(path, **({"messages": []} if path == CHAT else {}), **options).logprobs == found


def test_the_more_probable_tokens_of_a_chat_need_its_log_probabilities():
    assert refused(asked, CHAT, messages=[], top_logprobs=1) == "top_logprobs"
    assert refused(asked, CHAT, messages=[], logprobs=True, top_logprobs=21) == "top_logprobs"


def test_what_sampling_options_mean():
    def read(**options):
        return read_sampling(options, DECODER)

    assert read(max_tokens=3, max_completion_tokens=5).prompt.tokens == 5
    assert read(max_tokens=3).prompt.tokens == 3
    assert read().prompt.tokens == 0, "left to the model"
    assert (read(top_k=-1).prompt.top_k, read(top_k=7).prompt.top_k) == (0, 7)
    assert (read(seed=-5).prompt.seed, read(seed=0).prompt.seed) == (5, 0)
    assert [read(seed=5).seed(number) for number in (0, 2)] == [5, 7], "several answers differ"
    assert read().prompt.seed != read().prompt.seed
    assert (read(stop="ab").stop, read(stop=["a", "b"]).stop, read().stop) == (("ab",), ("a", "b"), ())
    assert (read().ignores_end, read(ignore_eos=True).ignores_end) == (False, True)
    plain = read().prompt
    assert (plain.temperature, plain.top_p, plain.min_p, plain.repetition_penalty) == (1.0, 1.0, 0.0, 1.0)
    assert (plain.presence_penalty, plain.frequency_penalty, plain.min_tokens) == (0.0, 0.0, 0)


@pytest.mark.parametrize("value", [True, 1.0, "1", [1]])
def test_a_whole_number_is_neither_true_nor_a_fraction(value):
    assert refused(whole, {"n": value}, "n", None) == "n"
    assert (whole({"n": None}, "n", 4), whole({}, "n", None), whole({"n": 0}, "n", 4)) == (4, None, 0)


def test_a_switch_is_true_or_false_and_nothing_like_it():
    assert [refused(switch, {"a": value}, "a") for value in (0, 1, "true", [])] == ["a"] * 4
    assert (switch({"a": False}, "a", default=True), switch({"a": None}, "a", default=True)) == (False, True)


@pytest.mark.parametrize(
    ("headers", "body", "found"),
    [
        ({"x-cotenant-deadline-ms": "20", "x-slo-ttft-ms": "300"}, {}, Wishes(0.02)),
        ({"x-llm-d-slo-ttft-ms": "30", "x-slo-ttft-ms": "300"}, {}, Wishes(0.03)),
        ({"x-llm-d-slo-tpot-ms": "4", "x-slo-tpot-ms": "8"}, {}, Wishes(None, 0.004)),
        ({"x-slo-ttft-ms": "300"}, {"timeout_us": 20_000}, Wishes(0.02)),
        ({"x-slo-ttft-ms": "300"}, {"timeout_us": 0}, Wishes(0.3)),
        ({"x-cotenant-priority": "2"}, {"priority": 3}, Wishes(priority=2)),
        ({"x-cotenant-priority": "2"}, {"vllm_priority": 3}, Wishes(priority=-3)),
        ({}, {"priority": 0}, Wishes()),
        ({}, {"priority": HIGHEST}, Wishes(priority=1_000_000)),
        ({}, {"vllm_priority": HIGHEST}, Wishes(priority=-1_000_000)),
    ],
)
def test_which_of_several_wishes_counts(headers, body, found):
    assert wishes_of(headers, **body) == found


@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "soon"])
def test_a_deadline_is_a_time_above_nothing(value):
    assert refused(wishes_of, {"x-cotenant-deadline-ms": value}) == "refused"


@pytest.mark.parametrize("value", [HIGHEST + 1, -HIGHEST - 1, "a", float("inf")])
def test_a_priority_lies_between_its_limits(value):
    assert refused(wishes_of, {}, priority=value) == "refused"
    assert refused(wishes_of, {}, vllm_priority=value) == "refused"


def test_texts_are_one_or_several_and_token_ids_are_echoed_as_text():
    codec = ByteCodec()
    assert echoes_of([73, 74], [(73, 74)], codec) == ["AB"], "a list of ids is one text"
    assert texts_of([73, 74], codec, name="input", most=1) == [(73, 74)]
    assert texts_of(["A", "B"], codec, name="input", most=2) == [(73,), (74,)]
    assert refused(texts_of, ["A", "B"], codec, name="input", most=1) == "input"
    assert refused(texts_of, "A", None, name="input", most=1) == "input"
    assert [refused(texts_of, value, codec, name="input", most=9) for value in ([], "", [""], [True], [["a"]])] == [
        "input"
    ] * 5


def test_messages_keep_their_calls_and_only_an_assistant_may_say_nothing():
    said = [
        {"role": "assistant", "tool_calls": [{"id": 1}], "name": None, "extra": 1},
        {"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "text"}]},
    ]
    assert conversation_of(said) == [
        {"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}, {"role": "tool", "content": "ab"},
    ]  # fmt: skip
    wrong = [{"role": "user"}, {"role": "user", "content": [{"type": "image"}]}, {"role": "boss", "content": "a"},
             {"role": "assistant", "tool_calls": [1]}]  # fmt: skip
    assert [refused(conversation_of, [said[0], message]) for message in wrong] == [
        "messages[1].content", "messages[1].content", "messages[1].role", "messages[1].tool_calls",
    ]  # fmt: skip
