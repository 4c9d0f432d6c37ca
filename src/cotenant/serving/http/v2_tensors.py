"""Tensors of the Open Inference Protocol: JSON numbers, or raw bytes after a JSON header."""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.http.messages import read_json, to_json
from cotenant.serving.http.options import Off, check_options
from cotenant.serving.processes.parcel import SIZES, Parcel, Tensor

HEADER = "inference-header-content-length"
LARGEST_RANK = 8
_FORMATS = {
    "BOOL": "?", "UINT8": "B", "INT8": "b", "UINT16": "H", "INT16": "h", "UINT32": "I", "INT32": "i", "UINT64": "Q",
    "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d",
}  # fmt: skip
_FIELDS = ("id", "model_name", "model_version", "parameters", "inputs", "outputs")
_INPUT_FIELDS = ("name", "datatype", "shape", "data", "parameters")
SHARED_MEMORY: Off = dict.fromkeys(("shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"), ())


def read_inputs(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Any], Parcel]:
    """The request's JSON, and its tensors. Raises BadInput."""
    header, rest = split(headers, body)
    check_options(header, _FIELDS, {}, where="A request")
    listed = header.get("inputs")
    if not isinstance(listed, list) or not listed:
        raise BadInput("`inputs` must be a list of tensors.")
    tensors, at = [], 0
    for entry in listed:
        tensor, used = _tensor(entry, rest[at:])
        tensors.append(tensor)
        at += used
    if at != len(rest):
        raise BadInput(f"{len(rest) - at} bytes follow the last tensor.")
    return header, Parcel(tuple(tensors))


def split(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Any], memoryview]:
    """The JSON of a message, and the raw bytes that follow it. Raises BadInput."""
    view = memoryview(body)
    size = headers.get(HEADER)
    if size is None:
        return read_json(view), view[:0]
    if not size.isdecimal() or int(size) > len(body):
        raise BadInput(f"{HEADER} is {size[:20]!r}, but the body has {len(body)} bytes.")
    return read_json(view[: int(size)]), view[int(size) :]


def write_outputs(
    tensors: Iterable[Tensor], header: dict[str, Any], binary: Mapping[str, bool]
) -> tuple[bytes, int | None]:
    """The body of an answer and, if it has raw bytes, the length of its JSON header."""
    outputs, raw = [], []
    for one in tensors:
        entry: dict[str, Any] = {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
        if binary.get(one.name, False):
            entry["parameters"] = {"binary_data_size": len(one.data)}
            raw.append(one.data)
        else:
            entry["data"] = numbers_of(one)
        outputs.append(entry)
    text = to_json({**header, "outputs": outputs})
    return (b"".join((text, *raw)), len(text)) if raw else (text, None)


def _tensor(entry: Any, rest: memoryview) -> tuple[Tensor, int]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BadInput("Each input needs a `name`.")
    check_options(entry, _INPUT_FIELDS, {}, where="An input")
    name, datatype, shape = entry["name"][:200], entry.get("datatype"), entry.get("shape")
    if not isinstance(datatype, str) or datatype not in SIZES:
        raise BadInput(f"The input {name} has an unknown datatype; there are {', '.join(SIZES)}.")
    if (
        not isinstance(shape, list)
        or len(shape) > LARGEST_RANK
        or not all(type(size) is int and 0 <= size < 2**31 for size in shape)
    ):
        raise BadInput(f"The shape of the input {name} must be a list of sizes.")
    expected = math.prod(shape) * SIZES[datatype]
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput(f"The parameters of the input {name} must be an object.")
    check_options(parameters, ("binary_data_size",), SHARED_MEMORY, where="An input")
    size = parameters.get("binary_data_size")
    if size is not None:
        if type(size) is not int or size != expected or size > len(rest):
            raise BadInput(f"The input {name} needs {expected} bytes, but {size} were announced and {len(rest)} sent.")
        return Tensor(name, datatype, tuple(shape), rest[:size]), size
    if datatype not in _FORMATS:
        raise BadInput(f"The input {name}: {datatype} can only be sent as binary data.")
    return Tensor(name, datatype, tuple(shape), packed(name, datatype, shape, entry.get("data"))), 0


def check_output(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a requested output. Raises BadInput."""
    check_options(entry, ("name", "parameters"), {}, where="An output")
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput("The parameters of an output must be an object.")
    check_options(parameters, ("binary_data",), {**SHARED_MEMORY, "classification": (0,)}, where="An output")
    return parameters


def packed(name: str, datatype: str, shape: Sequence[int], data: Any) -> bytes:
    """Numbers of a tensor, nested or flat, as bytes. Raises BadInput."""
    if not isinstance(data, list):
        raise BadInput(f"The input {name} has no `data`.")
    count = math.prod(shape)
    numbers = data
    for _ in shape[1:]:  # nested lists are accepted like flat ones
        if numbers and isinstance(numbers[0], list):
            if not all(isinstance(part, list) for part in numbers):
                raise BadInput(f"The data of the input {name} isn't of one shape.")
            numbers = [one for part in numbers for one in part]
    if len(numbers) != count:
        raise BadInput(f"The input {name} has {len(numbers)} numbers, but its shape {list(shape)} has {count}.")
    try:
        return struct.pack(f"<{count}{_FORMATS[datatype]}", *numbers)
    except (struct.error, OverflowError, TypeError):
        raise BadInput(f"The data of the input {name} doesn't fit {datatype}.") from None


def numbers_of(tensor: Tensor) -> list[Any]:
    """The numbers of a tensor, row by row. Raises BadInput for a type without a JSON form."""
    if tensor.datatype not in _FORMATS:
        raise BadInput(f"The output {tensor.name} is {tensor.datatype}, which has no JSON form; request binary data.")
    values = struct.unpack(f"<{math.prod(tensor.shape)}{_FORMATS[tensor.datatype]}", tensor.data)
    return list(values)
