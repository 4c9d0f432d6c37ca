"""Requests over gRPC to a backend that speaks HTTP, of every type of the protocol, strings included."""

import math
import struct
from collections.abc import Mapping
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.grpc.parcels import message, packed_contents, parameters_of
from cotenant.serving.http.messages import to_json
from cotenant.serving.http.v2_tensors import LARGEST_RANK, packed, split
from cotenant.serving.tensors import SIZES

_LENGTH = struct.Struct("<I")


def forwarded(request: Any) -> tuple[bytes, int]:
    """The same request over HTTP: its body, and the length of the JSON in front of the raw tensors.

    Raises:
        BadInput: It isn't a request of the protocol.
    """
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise BadInput(f"There are {len(request.inputs)} inputs, but {len(raw)} raw contents.")
    data = raw or [_contents(tensor) for tensor in request.inputs]
    header: dict[str, Any] = {
        "parameters": {**parameters_of(request.parameters), "binary_data_output": True},
        "inputs": [
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.shape),
                "parameters": {**parameters_of(tensor.parameters), "binary_data_size": len(bytes_)},
            }
            for tensor, bytes_ in zip(request.inputs, data, strict=True)
        ],
    }
    if request.id:
        header["id"] = request.id
    if request.outputs:
        header["outputs"] = [
            {"name": output.name, "parameters": {"binary_data": True, **parameters_of(output.parameters)}}
            for output in request.outputs
        ]
    text = to_json(header)
    return b"".join((text, *data)), len(text)


def answered(headers: Mapping[str, str], body: bytes, *, name: str, version: str) -> Any:
    """A backend's answer over HTTP as a message. Raises BadInput."""
    header, rest = split(headers, body)
    response = message("ModelInferResponse")(model_name=name, model_version=version, id=str(header.get("id", "")))
    _put_parameters(response.parameters, header.get("parameters"))
    at = 0
    for output in header.get("outputs") or ():
        shape, kind = [int(size) for size in output["shape"]], output["datatype"]
        size = (output.get("parameters") or {}).get("binary_data_size")
        if size is None:
            data = _strings(output["data"]) if kind == "BYTES" else packed(output["name"], kind, shape, output["data"])
        else:
            data, at = bytes(rest[at : at + size]), at + size
        response.outputs.add(name=output["name"], datatype=kind, shape=shape)
        response.raw_output_contents.append(data)
    return response


def _contents(tensor: Any) -> bytes:
    """Contents that were sent as numbers or strings."""
    name, shape = tensor.name[:200], tuple(tensor.shape)
    if len(shape) > LARGEST_RANK or not all(0 <= size < 2**31 for size in shape):
        raise BadInput(f"The shape of the input {name} must be a list of sizes.")
    if tensor.datatype == "BYTES":
        return _strings(tensor.contents.bytes_contents)
    if tensor.datatype not in SIZES:
        raise BadInput(f"The input {name} has an unknown datatype; there are {', '.join(SIZES)} and BYTES.")
    return packed_contents(name, tensor.datatype, math.prod(shape), tensor.contents)


def _strings(strings: Any) -> bytes:
    """Strings, each after its length."""
    encoded = [string.encode() if isinstance(string, str) else bytes(string) for string in strings]
    return b"".join(part for string in encoded for part in (_LENGTH.pack(len(string)), string))


def _put_parameters(fields: Any, parameters: Any) -> None:
    for name, value in (parameters if isinstance(parameters, dict) else {}).items():
        if isinstance(value, bool):
            fields[name].bool_param = value
        elif isinstance(value, int):
            fields[name].int64_param = value
        elif isinstance(value, float):
            fields[name].double_param = value
        else:
            fields[name].string_param = str(value)
