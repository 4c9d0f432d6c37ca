"""Random headers and bodies: every answer is a client error or a result, and the server continues."""

import asyncio
import json
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.http.front import front
from tests.support import pace

PIXELS = {"name": "pixels", "datatype": "FP32", "shape": [1, 3, 2, 2], "parameters": {"binary_data_size": 48}}
GOOD = {"inputs": [PIXELS]}
RAW = struct.pack("<12f", *range(12))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
lengths = st.integers(-5, 200).map(str) | st.sampled_from(["", "1e3", "٣", "0x10", "9" * 30, " 7", "7 ", "nan"])
tensors = st.fixed_dictionaries(
    {"name": st.sampled_from(["pixels", "x", ""]) | values},
    optional={
        "datatype": st.sampled_from(["FP32", "INT64", "BYTES", "fp32"]) | values,
        "shape": st.lists(st.integers(-2, 2**33), max_size=10) | values,
        "data": st.lists(values, max_size=13) | values,
        "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": st.integers(-1, 60) | values}) | values,
    },
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "inputs": st.lists(tensors | values, max_size=3) | values,
        "outputs": st.lists(st.fixed_dictionaries({"name": values}) | values, max_size=2) | values,
        "parameters": st.dictionaries(st.sampled_from(["timeout", "priority", "binary_data_output"]), values) | values,
        "id": values,
    },
)


def ask(path, body, headers):
    async def main():
        async with front() as client:
            first = await client.post(path, body, headers=headers)
            good = json.dumps(GOOD).encode()
            sent = {"inference-header-content-length": str(len(good))}
            return first, await client.post("/v2/models/conv/infer", good + RAW, headers=sent)

    first, after = asyncio.run(asyncio.wait_for(main(), pace.seconds(60)))
    assert after.status == 200
    assert first.status in {200, 400, 413}
    if first.status != 200:
        error = first.json()["error"]
        said = error["message"] if isinstance(error, dict) else error
        assert len(said) < 500
    return first


@settings(max_examples=50, deadline=None)
@given(length=lengths, body=st.binary(max_size=200))
def test_any_bytes_under_any_announced_length(length, body):
    ask("/v2/models/conv/infer", body, {"inference-header-content-length": length})


@settings(max_examples=80, deadline=None)
@given(document=documents, raw=st.binary(max_size=60), wrong=st.integers(-3, 3))
def test_any_document_in_front_of_any_bytes(document, raw, wrong):
    text = json.dumps(document).encode()
    ask("/v2/models/conv/infer", text + raw, {"inference-header-content-length": str(max(0, len(text) + wrong))})


@settings(max_examples=50, deadline=None)
@given(
    path=st.sampled_from(["/v1/completions", "/v1/chat/completions", "/v1/embeddings"]),
    body=st.dictionaries(
        st.sampled_from(
            [
                "prompt",
                "messages",
                "input",
                "max_tokens",
                "stop",
                "temperature",
                "stream",
                "seed",
                "stream_options",
                "n",
            ]
        ),
        values,
    ),
    headers=st.dictionaries(
        st.sampled_from(["x-cotenant-deadline-ms", "x-cotenant-priority", "x-llm-d-slo-tpot-ms"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12),
    ),
)
def test_any_options_of_openais(path, body, headers):
    model = "bert" if path.endswith("embeddings") else "gpt"
    ask(path, json.dumps({"model": model, **body}).encode(), headers)
