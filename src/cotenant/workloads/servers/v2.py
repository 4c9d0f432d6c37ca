"""`v2:http://host:port`: a server with the Open Inference Protocol: Triton, KServe, MLServer, and ours."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from cotenant.errors import WorkloadError
from cotenant.workloads.options import read_options, refuse_unused
from cotenant.workloads.protocol import Answer, Built, Place, Properties, WorkloadSpec
from cotenant.workloads.servers.address import Address
from cotenant.workloads.servers.asking import ask_json
from cotenant.workloads.servers.http11 import refused
from cotenant.workloads.servers.names import V2
from cotenant.workloads.servers.serving import HttpClient, ServerOptions, Standing, address_in, stand
from cotenant.workloads.yours.stated import FAMILY, UNKNOWN_DTYPE

WHAT = "a server with the Open Inference Protocol"
BINARY = "binary_tensor_data"
"""The extension with which tensors travel as bytes."""
DEFAULT_SIZE = 8
LARGEST_INPUT = 1 << 28
_TYPES: Mapping[str, Any] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
_TEXT = "BYTES"


class V2Options(ServerOptions):
    """Which model, and what its inputs look like where its metadata leaves that open."""

    model: str | None = None
    version: str | None = None
    shapes: dict[str, list[int]] = Field(default_factory=dict)
    """By input; default: the metadata's, with `batch` first and `seq` (else 8) where it says -1."""
    largest: int = Field(default=100, ge=1)
    """Integers are drawn from 0 up to this: tokens have to exist in the model's vocabulary."""
    binary: bool | None = None
    """Tensors as bytes instead of JSON; None: if the server says that it can."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input tensor, as it is sent every time."""

    name: str
    datatype: str
    values: np.ndarray

    def as_json(self) -> dict[str, Any]:
        """With its data in the document."""
        return {**self._head(), "data": self.values.ravel().tolist()}

    def as_bytes(self) -> tuple[dict[str, Any], bytes]:
        """Its place in the document, and its data after it."""
        if self.datatype == _TEXT:
            texts = [str(text).encode() for text in self.values.ravel()]
            data = b"".join(struct.pack("<I", len(text)) + text for text in texts)
        else:
            data = self.values.tobytes()
        return {**self._head(), "parameters": {"binary_data_size": len(data)}}, data

    def _head(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.values.shape)}


@dataclass(frozen=True, slots=True)
class V2Server:
    """A model behind an address."""

    name: str
    family: str = FAMILY
    dtype: None = None
    about: str = "a server with the Open Inference Protocol (v2): Triton, KServe, MLServer"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse a server that is not there, not of this kind, or without that model."""
        self.check_unexecuted(spec)
        address = address_in(spec, V2)
        if address is not None:
            options = read_options(spec, V2Options)
            inputs_of(self.name, metadata(address, options), spec, options)

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Refuse what can't be asked; gives what can't be known without the server."""
        refuse_unused(spec, used={"seq", "dtype", "server"})
        options = read_options(spec, V2Options)
        if options.model is None:
            raise WorkloadError(f"`{self.name}` names no model", hint="add `params: {model: ...}` to the tenant")
        address = address_in(spec, V2)
        where = "its server was not started" if address is None else f"{address.name} was not contacted"
        return f"{where}: whether it serves the model is not known"

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Only what the user states."""
        return read_options(spec, V2Options).stated.properties()

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (a server has its own device)
        """Have the server ready, and make the model's inputs."""
        self.check_unexecuted(spec)
        options = read_options(spec, V2Options)
        standing = stand(spec, V2)
        try:
            described = metadata(standing.address, options)
            inputs = inputs_of(self.name, described, spec, options)
            binary = options.binary
            if binary is None:
                binary = BINARY in (server_metadata(standing.address, options).get("extensions") or ())
            client = V2Client(standing, spec, options, inputs, binary=binary)
        except BaseException:
            standing.stop()
            raise
        return Built(
            stages=(),
            dtype=spec.dtype or UNKNOWN_DTYPE,
            weights=UNKNOWN_DTYPE,
            seq=spec.seq,
            facts={
                "address": standing.address.name,
                "model": options.model,
                "platform": described.get("platform"),
                "inputs": {one.name: [one.datatype, list(one.values.shape)] for one in inputs},
                "binary": binary,
                "request_bytes": len(client.body),
                **standing.facts(),
                "stated": options.stated.model_dump(exclude_none=True),
            },
            close=standing.stop,
            client=client,
        )


class V2Client(HttpClient):
    """Sends the same tensors each time."""

    slots: tuple[str, ...] = ("answer",)

    def __init__(
        self, standing: Standing, spec: WorkloadSpec, options: V2Options, inputs: Sequence[Input], *, binary: bool
    ) -> None:
        self.body, headers = body_of(inputs, binary=binary)
        super().__init__(standing, options, spec.server.warm if spec.server else 0, headers)
        self._path = f"{_model_path(standing.address, options)}/infer"

    async def request(self, number: int, mark: Callable[[int], None]) -> Answer:  # noqa: ARG002 (all are alike)
        """One inference."""
        reply = await self.connections.send("POST", self._path, self.body)
        mark(0)
        if not reply.ok:
            raise refused(self.standing.address.name, reply)
        return Answer()


def server_metadata(address: Address, options: V2Options) -> Mapping[str, Any]:
    """What the server says of itself.

    Raises:
        WorkloadError: It is not such a server.
    """
    path = f"{address.path.rstrip('/')}/v2"
    server = ask_json(address, path, options.headers, what=WHAT)
    if not isinstance(server, Mapping) or "name" not in server:
        raise WorkloadError(f"`{address.name}` is not {WHAT}: GET {path} does not say what it is")
    return server


def metadata(address: Address, options: V2Options) -> Mapping[str, Any]:
    """What the server says of the model.

    Raises:
        WorkloadError: It is not such a server, or has no such model.
    """
    server_metadata(address, options)
    try:
        found = ask_json(address, _model_path(address, options), options.headers, what=WHAT)
    except WorkloadError:
        raise WorkloadError(
            f"`{address.name}` has no model `{options.model}`",
            hint="look at the server's log for the models that it has loaded",
        ) from None
    if not isinstance(found, Mapping) or not isinstance(found.get("inputs"), list):
        raise WorkloadError(f"`{address.name}` does not describe the inputs of `{options.model}`")
    return found


def inputs_of(name: str, described: Mapping[str, Any], spec: WorkloadSpec, options: V2Options) -> tuple[Input, ...]:
    """Random tensors of the shapes that the metadata gives, from the seed.

    Raises:
        WorkloadError: A type is unknown, a shape does not fit, or an input is too large.
    """
    random = np.random.default_rng(spec.seed)
    inputs = []
    for one in described["inputs"]:
        datatype, label = str(one.get("datatype")), str(one.get("name"))
        if datatype not in _TYPES and datatype != _TEXT:
            raise WorkloadError(f"`{name}`: input `{label}` has the type {datatype}, which is not known here")
        shape = _shape(label, [int(size) for size in one.get("shape", ())], spec, options)
        if int(np.prod(shape)) > LARGEST_INPUT:
            raise WorkloadError(f"`{name}`: input `{label}` of shape {shape} is too large", hint="give `shapes`")
        inputs.append(Input(label, datatype, _values(random, datatype, shape, options.largest)))
    unknown = sorted(set(options.shapes) - {one.name for one in inputs})
    if unknown:
        raise WorkloadError(
            f"`{name}` has no input `{unknown[0]}`", hint=f"it has {', '.join(one.name for one in inputs)}"
        )
    return tuple(inputs)


def _shape(label: str, declared: list[int], spec: WorkloadSpec, options: V2Options) -> tuple[int, ...]:
    if label in options.shapes:
        return tuple(options.shapes[label])
    return tuple(
        size if size >= 0 else spec.batch if place == 0 else spec.seq or DEFAULT_SIZE
        for place, size in enumerate(declared)
    )


def _values(random: np.random.Generator, datatype: str, shape: tuple[int, ...], largest: int) -> np.ndarray:
    if datatype == _TEXT:
        return np.array([f"text {number}" for number in random.integers(0, largest, int(np.prod(shape)))]).reshape(
            shape
        )
    kind = np.dtype(_TYPES[datatype])
    if kind.kind == "f":
        return random.random(shape).astype(kind)
    return random.integers(0, 2 if kind.kind == "b" else min(largest, 127), shape).astype(kind)


def body_of(inputs: Sequence[Input], *, binary: bool) -> tuple[bytes, dict[str, str]]:
    """A request with these inputs, and the headers that go with it."""
    if not binary:
        return json.dumps({"inputs": [one.as_json() for one in inputs]}).encode(), {"Content-Type": "application/json"}
    parts = [one.as_bytes() for one in inputs]
    document = {"inputs": [head for head, _ in parts], "parameters": {"binary_data_output": True}}
    head = json.dumps(document).encode()
    return head + b"".join(data for _, data in parts), {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }


def _model_path(address: Address, options: V2Options) -> str:
    version = f"/versions/{options.version}" if options.version else ""
    return f"{address.path.rstrip('/')}/v2/models/{options.model}{version}"
