"""The protocol's messages, built from the compiled `.proto`.

protoc's Python code only runs with the protobuf package of its own major version and the next. A descriptor has no such
limit; in a separate pool it also doesn't clash with other clients in the same process.
"""

import math
import struct
from functools import cache
from pathlib import Path
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.http.request_options import check_options
from cotenant.serving.http.v2_tensors import LARGEST_RANK, SHARED_MEMORY
from cotenant.serving.tensors import SIZES, Parcel, Tensor

COMPILED = Path(__file__).with_name("inference.binpb")
SERVICE = "inference.GRPCInferenceService"


@cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(COMPILED.read_bytes()).file:
        pool.Add(file)
    return pool


@cache
def message(name: str) -> Any:
    """The class of a message, e.g. `ModelInferRequest`."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"inference.{name}"))


def filled(name: str, data: dict[str, Any]) -> Any:
    """A message with this content; fields that ours lacks are left out."""
    from google.protobuf import json_format

    return json_format.ParseDict(data, message(name)(), ignore_unknown_fields=True)


def methods() -> dict[str, tuple[Any, Any]]:
    """Each method of the service: the classes of its request and its response."""
    service = _pool().FindServiceByName(SERVICE)
    return {
        method.name: (message(method.input_type.name), message(method.output_type.name)) for method in service.methods
    }


# Convert between the protocol's messages and parcels.

_CONTENTS = {
    "BOOL": ("bool_contents", "?"), "INT8": ("int_contents", "b"), "INT16": ("int_contents", "h"),
    "INT32": ("int_contents", "i"), "INT64": ("int64_contents", "q"), "UINT8": ("uint_contents", "B"),
    "UINT16": ("uint_contents", "H"), "UINT32": ("uint_contents", "I"), "UINT64": ("uint64_contents", "Q"),
    "FP32": ("fp32_contents", "f"), "FP64": ("fp64_contents", "d"),
}  # fmt: skip
"""Field of a type's numbers in a message, and their packing."""


def read_parcel(request: Any) -> Parcel:
    """The tensors of a request: raw, or as numbers. Raises BadInput."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadInput(f"There are {len(request.inputs)} inputs, but {len(raw)} raw contents.")
    if not request.inputs:
        raise BadInput("There are no inputs.")
    return Parcel(tuple(_tensor(tensor, raw[place] if raw else None) for place, tensor in enumerate(request.inputs)))


def write_response(parcel: Parcel, name: str, version: str, request_id: str) -> Any:
    """The response, with raw contents."""
    response = message("ModelInferResponse")(model_name=name, model_version=version, id=request_id)
    for tensor in parcel.tensors:
        response.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        response.raw_output_contents.append(bytes(tensor.data))
    return response


def parameters_of(parameters: Any) -> dict[str, Any]:
    """All parameters of a request, a tensor or an output."""
    return {name: parameter(parameters, name) for name in parameters}


def parameter(parameters: Any, name: str) -> Any:
    """A request parameter of any type; None if missing."""
    if name not in parameters:
        return None
    value = parameters[name]
    chosen = value.WhichOneof("parameter_choice")
    return None if chosen is None else getattr(value, chosen)


def _tensor(entry: Any, raw: bytes | None) -> Tensor:
    name, datatype, shape = entry.name[:200], entry.datatype, tuple(entry.shape)
    # KServe's client states the size here too, where nothing depends on it.
    check_options(parameters_of(entry.parameters), ("binary_data_size",), SHARED_MEMORY, where="an input")
    if datatype not in SIZES:
        raise BadInput(f"The input {name} has an unknown datatype; there are {', '.join(SIZES)}.")
    if len(shape) > LARGEST_RANK or not all(0 <= size < 2**31 for size in shape):
        raise BadInput(f"The shape of the input {name} must be a list of sizes.")
    expected = math.prod(shape) * SIZES[datatype]
    data = raw if raw is not None else packed_contents(name, datatype, math.prod(shape), entry.contents)
    if len(data) != expected:
        raise BadInput(f"The input {name} needs {expected} bytes, but {len(data)} were sent.")
    return Tensor(name, datatype, shape, data)


def packed_contents(name: str, datatype: str, count: int, contents: Any) -> bytes:
    """Numbers of a message as bytes. Raises BadInput."""
    if datatype not in _CONTENTS:
        raise BadInput(f"The input {name}: {datatype} can only be sent as raw contents.")
    field, form = _CONTENTS[datatype]
    numbers = getattr(contents, field)
    if len(numbers) != count:
        raise BadInput(f"The input {name} has {len(numbers)} numbers, but its shape has {count}.")
    try:
        return struct.pack(f"<{count}{form}", *numbers)
    except struct.error:
        raise BadInput(f"The data of the input {name} doesn't fit {datatype}.") from None
