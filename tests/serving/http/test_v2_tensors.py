"""Tensors of the Open Inference Protocol in JSON and in raw bytes: each rule of the form by itself."""

import json
import struct

import pytest

from cotenant.errors import BadInput
from cotenant.serving.http.request_options import check_options
from cotenant.serving.http.v2_tensors import (
    _OFF,
    HEADER,
    PARAMETERS,
    check_output,
    numbers_of,
    packed,
    read_inputs,
    split,
    token_parcel,
    write_outputs,
)
from cotenant.serving.tensors import Tensor


def refusal(call, *arguments, **options):
    """The sentence of a refusal; None if nothing was refused."""
    try:
        call(*arguments, **options)
    except BadInput as error:
        return error.message
    return None


def entry(size=None, **changes):
    announced = {} if size is None else {"parameters": {"binary_data_size": size}}
    return {"name": "a", "datatype": "INT16", "shape": [2], **announced, **changes}


def message(*entries, raw=b""):
    """Headers and body of a request."""
    text = json.dumps({"inputs": entries}).encode()
    return {HEADER: str(len(text))}, text + raw


def test_raw_bytes_belong_to_the_inputs_in_their_order():
    raw = struct.pack("<4h", 1, 2, 3, -4)
    header, parcel = read_inputs(*message(entry(4), entry(name="b", data=[7, 8]), entry(4, name="c"), raw=raw))
    assert [each["name"] for each in header["inputs"]] == ["a", "b", "c"]
    assert [numbers_of(tensor) for tensor in parcel.tensors] == [[1, 2], [7, 8], [3, -4]]
    assert refusal(read_inputs, *message(entry(4), raw=raw)) == "4 bytes follow the last tensor."
    assert "needs 4 bytes, but 4 were announced and 3 sent" in refusal(read_inputs, *message(entry(4), raw=raw[:3]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": [1] * 7 + [2], "data": [1, 2]}, None),
        ({"shape": [1] * 8 + [2], "data": [1, 2]}, "must be a list of sizes"),
        ({"shape": [0, 2**31 - 1], "data": []}, None),
        ({"shape": [0, 2**31], "data": []}, "must be a list of sizes"),
        ({"shape": [-1], "data": []}, "must be a list of sizes"),
        ({"shape": [True, 2], "data": [1, 2]}, "must be a list of sizes"),
        ({"shape": [], "data": [1]}, None),
        ({"datatype": "BF16", "data": [1, 2]}, "BF16 can only be sent as binary data"),
        ({"datatype": "INT128", "data": [1, 2]}, "unknown datatype; there are BOOL, "),
        ({"parameters": [1], "data": [1, 2]}, "parameters of the input a must be an object"),
        ({"parameters": {"shared_memory_region": "r"}}, "`shared_memory_region` isn't supported by an input"),
        ({"parameters": {"shared_memory_region": None}, "data": [1, 2]}, None),
        ({"parameters": {"binary_data_size": True}}, "needs 4 bytes"),
        ({"name": 3}, "needs a `name`"),
    ],
)
def test_the_form_of_an_input(changes, words):
    told = refusal(read_inputs, {}, json.dumps({"inputs": [entry(**changes)]}).encode())
    assert told is None if words is None else words in told


@pytest.mark.parametrize(
    ("shape", "data", "words"),
    [
        ((2, 2), [1, 2, 3, 4], None),
        ((2, 2), [[1, 2], [3, 4]], None),
        ((1, 2, 2), [[[1, 2], [3, 4]]], None),
        ((2, 2), [[1, 2], 3, 4], "isn't of one shape"),
        ((2, 2), [[1, 2], [3]], "has 3 numbers, but its shape [2, 2] has 4"),
        ((4,), [[1, 2, 3, 4]], "has 1 numbers"),
        ((1,), [[1]], "doesn't fit INT16"),
        ((1,), [2**15 - 1], None),
        ((1,), [2**15], "doesn't fit INT16"),
        ((1,), [1.5], "doesn't fit INT16"),
        ((1,), None, "has no `data`"),
    ],
)
def test_numbers_may_be_nested_as_their_shape_is(shape, data, words):
    told = refusal(packed, "a", "INT16", shape, data)
    assert told is None if words is None else words in told
    if words is None:
        assert len(packed("a", "INT16", shape, data)) == 2 * (4 if data != [2**15 - 1] else 1)


def test_a_header_may_be_all_of_a_body_and_no_more():
    body = b'{"a": 1}'
    assert split({}, body) == ({"a": 1}, b"")
    assert split({HEADER: str(len(body))}, body) == ({"a": 1}, b"")
    assert split({HEADER: str(len(body))}, body + b"rest") == ({"a": 1}, b"rest")
    for length in (len(body) + 1, -1, "²"):
        assert "but the body has 8 bytes" in refusal(split, {HEADER: str(length)}, body)


def test_outputs_in_bytes_follow_the_header_in_their_order():
    first, second, third = (Tensor(name, "INT16", (1,), struct.pack("<h", at)) for at, name in enumerate("abc", 1))
    body, length = write_outputs((first, second, third), {"model_name": "m"}, {"a": True, "b": False, "c": True})
    told = json.loads(body[:length])
    assert body[length:] == struct.pack("<2h", 1, 3)
    assert [each.get("data") for each in told["outputs"]] == [None, [2], None]
    assert [each.get("parameters") for each in told["outputs"]] == [
        {"binary_data_size": 2}, None, {"binary_data_size": 2},
    ]  # fmt: skip
    plain, length = write_outputs((first,), {}, {"b": True})
    assert (json.loads(plain)["outputs"][0]["data"], length) == ([1], None)
    half = Tensor("h", "BF16", (1,), b"\0\0")
    assert refusal(write_outputs, (half,), {}, {}) == (
        "The output h is BF16, which has no JSON form; request binary data."
    )


def test_what_may_be_asked_of_an_output():
    assert check_output({"name": "a"}) == {}
    assert check_output({"name": "a", "parameters": {"binary_data": True}}) == {"binary_data": True}
    assert refusal(check_output, {"name": "a", "parameters": {"classification": 0}}) is None
    for wrong in ({"classification": 1}, {"classification": False}, {"shared_memory_offset": 0}, {"binary": True}):
        assert refusal(check_output, {"name": "a", "parameters": wrong})
    assert refusal(check_output, {"name": "a", "parameters": [1]}) == "The parameters of an output must be an object."
    assert refusal(check_output, {"name": "a", "extra": 1})


@pytest.mark.parametrize(
    ("parameter", "harmless", "harmful"),
    [("sequence_id", 0, 1), ("sequence_id", "", "a"), ("sequence_start", False, True), ("sequence_end", False, True),
     ("triton_enable_empty_final_response", True, 1), ("timeout", 5, None)],
)  # fmt: skip
def test_parameters_of_sequences_may_only_be_off(parameter, harmless, harmful):
    assert refusal(check_options, {parameter: harmless}, PARAMETERS, _OFF, where="here") is None
    told = refusal(check_options, {parameter: harmful}, PARAMETERS, _OFF, where="here")
    assert (told is None) is (harmful is None)


def test_tokens_are_signed_numbers_of_eight_bytes():
    parcel = token_parcel([1, -1, 2**40])
    [tensor] = parcel.tensors
    assert (tensor.name, tensor.datatype, tensor.shape) == ("tokens", "INT64", (1, 3))
    assert numbers_of(tensor) == [1, -1, 2**40]
