"""The protocol's messages, built from the compiled `.proto`.

protoc's Python code only runs with the protobuf package of its own major version and the next. A descriptor has no such
limit; in a separate pool it also doesn't clash with other clients in the same process.
"""

from functools import cache
from pathlib import Path
from typing import Any

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
    found = _pool().FindServiceByName(SERVICE)
    return {one.name: (message(one.input_type.name), message(one.output_type.name)) for one in found.methods}
