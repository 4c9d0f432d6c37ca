"""Public traces of language models: arrival times and lengths."""

import numpy as np
import pytest

from cotenant.errors import CotenantError, WorkloadError
from cotenant.tenancy.load import Load, arrivals_ns, first_arrival
from cotenant.workloads.recorded_arrivals import BLOCK_TOKENS, read_trace
from cotenant.workloads.servers.prompts import PromptOptions, Prompts

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,Conversation log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 1100, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 700, "output_length": 20, "hash_ids": [0, 9]}
"""


@pytest.fixture
def trace(tmp_path):
    def write(text):
        path = tmp_path / "trace"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "seconds", "tokens_in", "tokens_out"),
    [
        (AZURE, [0, 4.314579, 4.541877], (374, 396, 879), (44, 109, 55)),
        (BURSTGPT, [0, 40, 113], (472, 1087, 417), (18, 1, 276)),
        (MOONCAKE, [0, 3], (1100, 700), (500, 20)),
        ("arrival_s,tokens_in,tokens_out\n1,5,6\n2,7,8\n", [0, 1], (5, 7), (6, 8)),
    ],
)
def test_each_form_is_read(trace, text, seconds, tokens_in, tokens_out):
    found = read_trace(trace(text))
    assert found.times_s - found.times_s[0] == pytest.approx(seconds, abs=1e-5)
    assert (found.tokens_in, found.tokens_out) == (tokens_in, tokens_out)


@pytest.mark.parametrize("text", [AZURE + "2023-11-16 18:16:00,x,1\n", AZURE + "soon,1,1\n", MOONCAKE + "{}\n"])
def test_a_row_without_its_values_is_refused_with_its_line(trace, text):
    with pytest.raises(CotenantError, match=rf"in line {len(text.splitlines())}\b"):
        read_trace(trace(text))


def test_lengths_follow_the_arrivals_wherever_a_window_starts(trace):
    path = trace(AZURE)
    load = Load(kind="trace", path=str(path), rate_rps=10)
    begin = first_arrival(load, seed=1)
    due = arrivals_ns(load, seed=1, horizon_s=0.25)
    gaps = np.diff(due) / np.diff(due)[0]
    prompts = Prompts(PromptOptions(trace=str(path), longest=500), seed=0)
    prompts.begin(begin)
    lengths = [len(prompts.next(number).split()) for number in range(3)]
    assert (begin, lengths) == (1, [396, 500, 374])  # cyclic, cut to the model's limit
    assert [prompts.answer_tokens(number) for number in range(3)] == [109, 55, 44]
    assert gaps[0] == 1


def test_prompts_share_prefixes_as_recorded(trace):
    prompts = Prompts(PromptOptions(trace=str(trace(MOONCAKE))), seed=0)
    first, second = (prompts.next(number).split() for number in range(2))
    assert first[:BLOCK_TOKENS] == second[:BLOCK_TOKENS]
    assert first[BLOCK_TOKENS:700] != second[BLOCK_TOKENS:]


def test_a_trace_of_times_alone_has_no_lengths(trace):
    with pytest.raises(WorkloadError, match="has only arrival times"):
        Prompts(PromptOptions(trace=str(trace("arrival_s\n1\n2\n"))), seed=0)
