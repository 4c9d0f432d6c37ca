"""`v2:http://host:port`, `v2:grpc://host:port`: servers with the Open Inference Protocol: Triton, KServe, ours."""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from cotenant.clients import protobuf
from cotenant.clients.address import Address, ask, ask_json
from cotenant.clients.http11 import AnswerTiming, refused
from cotenant.clients.openai_stream import AnswerTokens
from cotenant.errors import RequestFailed, WorkloadError
from cotenant.workloads.protocol import SENT, Built, Mark, Place, WorkloadSpec
from cotenant.workloads.servers.client import (
    HttpClient,
    ServerClient,
    ServerPlace,
    address_in,
    built,
    check_start,
    not_asked,
    stand,
)
from cotenant.workloads.servers.spec import V2, V2_GRPC
from cotenant.workloads.servers.v2_inputs import Input, V2Options, inputs_of
from cotenant.workloads.spec_options import Opaque, StatedOptions, read_options, refuse_unused

WHAT = "a server with the Open Inference Protocol"
BINARY = "binary_tensor_data"
"""The extension for binary tensor data."""


@dataclass(frozen=True, slots=True)
class V2Server(Opaque):
    """A model behind an address."""

    options: ClassVar[type[StatedOptions]] = V2Options
    about: str = "a server with the Open Inference Protocol (v2): Triton, KServe, MLServer"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse a server that is missing, of another kind, or without that model."""
        self.check_unexecuted(spec)
        check_start(spec)
        address = address_in(spec, self._prefix)
        if address is not None:
            options = read_options(spec, V2Options)
            inputs_of(self.name, self._described(address, options), spec, options)

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Refuse invalid requests; return what is unknown without the server."""
        refuse_unused(spec, used={"seq", "dtype", "server"})
        options = read_options(spec, V2Options)
        if options.model is None:
            raise WorkloadError(f"`{self.name}` needs a model", hint="add `params: {model: ...}` to the tenant")
        if self._grpc and spec.server is not None and not spec.server.has_grpc_port:
            raise WorkloadError(
                f"`{self.name}`: `start` of its server has no {{grpc_port}}",
                hint="for example `tritonserver ... --http-port {port} --grpc-port {grpc_port}`",
            )
        return not_asked(spec, self._prefix)

    @property
    def _grpc(self) -> bool:
        return self.name.startswith(V2_GRPC)

    @property
    def _prefix(self) -> str:
        return V2_GRPC if self.name == V2_GRPC else V2

    def _described(self, address: Address, options: V2Options) -> Mapping[str, Any]:
        return described(address, options) if self._grpc else metadata(address, options)

    def _client(
        self, standing: ServerPlace, spec: WorkloadSpec, options: V2Options, inputs: Sequence[Input]
    ) -> "V2Client | GrpcClient":
        if self._grpc:
            return GrpcClient(standing, spec, options, inputs)
        binary = options.binary
        if binary is None:
            binary = BINARY in (server_metadata(standing.address, options).get("extensions") or ())
        return V2Client(standing, spec, options, inputs, binary=binary)

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (a server has its own device)
        """Have the server ready, and make the model's inputs."""
        self.check_unexecuted(spec)
        options = read_options(spec, V2Options)
        standing = stand(spec, self._prefix, grpc=self._grpc)
        try:
            described = self._described(standing.address, options)
            inputs = inputs_of(self.name, described, spec, options)
            client = self._client(standing, spec, options, inputs)
        except BaseException:
            standing.stop()
            raise
        facts = {
            "model": options.model,
            "platform": described.get("platform"),
            "inputs": {tensor.name: [tensor.datatype, list(tensor.values.shape)] for tensor in inputs},
            "protocol": client.protocol,
            "request_bytes": len(client.body),
        }
        return built(spec, options, standing, client, facts)


class V2Client(HttpClient):
    """Sends the same tensors each time."""

    slots: tuple[str, ...] = ("answer",)

    def __init__(
        self, standing: ServerPlace, spec: WorkloadSpec, options: V2Options, inputs: Sequence[Input], *, binary: bool
    ) -> None:
        self.protocol = "HTTP, tensors as bytes" if binary else "HTTP, tensors as JSON"
        self.body, headers = body_of(inputs, binary=binary)
        super().__init__(standing, options, spec.server.warm if spec.server else 0, headers)
        self._path = f"{_model_path(standing.address, options)}/infer"

    async def request(self, number: int, mark: Mark) -> AnswerTokens:  # noqa: ARG002 (all are alike)
        """One inference."""
        timing = AnswerTiming()
        reply = await self.connections.send("POST", self._path, self.body, timing=timing)
        mark(SENT, timing.sent_ns)
        mark(0, timing.arrived_ns)
        if not reply.ok:
            raise refused(self.standing.address.name, reply)
        return AnswerTokens()


def server_metadata(address: Address, options: V2Options) -> Mapping[str, Any]:
    """The server's metadata.

    Raises:
        WorkloadError: It is not such a server.
    """
    path = f"{address.path.rstrip('/')}/v2"
    server = ask_json(address, path, options.headers, what=WHAT)
    if not isinstance(server, Mapping) or "name" not in server:
        raise WorkloadError(f"`{address.name}` is not {WHAT}: GET {path} does not say what it is")
    return server


def metadata(address: Address, options: V2Options) -> Mapping[str, Any]:
    """The model's metadata.

    Raises:
        WorkloadError: It is another kind of server, or lacks the model.
    """
    server_metadata(address, options)
    try:
        described = ask_json(address, _model_path(address, options), options.headers, what=WHAT)
    except WorkloadError:
        raise WorkloadError(f"`{address.name}` has no model `{options.model}`", hint=_has(address, options)) from None
    if not isinstance(described, Mapping) or not isinstance(described.get("inputs"), list):
        raise WorkloadError(f"`{address.name}` does not describe the inputs of `{options.model}`")
    return described


def body_of(inputs: Sequence[Input], *, binary: bool) -> tuple[bytes, dict[str, str]]:
    """A request with these inputs, and its headers."""
    if not binary:
        return json.dumps({"inputs": [tensor.as_json() for tensor in inputs]}).encode(), {
            "Content-Type": "application/json"
        }
    parts = [tensor.as_bytes() for tensor in inputs]
    document = {"inputs": [head for head, _ in parts], "parameters": {"binary_data_output": True}}
    head = json.dumps(document).encode()
    return head + b"".join(data for _, data in parts), {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }


def _has(address: Address, options: V2Options) -> str:
    """The models of its index, an extension of the protocol that not every server has."""
    path = f"{address.path.rstrip('/')}/v2/repository/index"
    try:
        listed = json.loads(ask(address, path, {**options.headers, "Content-Type": "application/json"}, post=b"{}")[1])
        names = [str(model["name"]) for model in listed]
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return "check the server's log for the models it has loaded"
    return f"it has {', '.join(names)}" if names else "it has none"


def _model_path(address: Address, options: V2Options) -> str:
    version = f"/versions/{options.version}" if options.version else ""
    return f"{address.path.rstrip('/')}/v2/models/{options.model}{version}"


# `v2:grpc://host:port`: the Open Inference Protocol over gRPC

LIMIT_S = 5.0
_SERVICE = "/inference.GRPCInferenceService/"
_UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def described(address: Address, options: V2Options) -> Mapping[str, Any]:
    """The model's metadata, in the form of the HTTP API.

    Raises:
        WorkloadError: Nothing answers, it is another kind of server, or lacks the model.
    """
    grpc = _library()
    asked = protobuf.written(1, options.model or "")
    if options.version:
        asked += protobuf.written(2, options.version)
    with closing(grpc.insecure_channel(address.authority, options=_UNLIMITED)) as channel:
        try:
            _call(channel, "ServerMetadata")(b"", timeout=LIMIT_S)
            answer = _call(channel, "ModelMetadata")(asked, timeout=LIMIT_S)
        except grpc.RpcError as error:
            raise _refusal(address, options, error) from None
    return _metadata(answer)


def request_of(inputs: Sequence[Input], options: V2Options) -> bytes:
    """A ModelInferRequest with the tensors' bytes."""
    message = protobuf.written(1, options.model or "")
    if options.version:
        message += protobuf.written(2, options.version)
    for value in inputs:
        tensor = protobuf.written(1, value.name) + protobuf.written(2, value.datatype)
        message += protobuf.written(5, tensor + protobuf.packed(3, value.values.shape))
    return message + b"".join(protobuf.written(7, value.data()) for value in inputs)


class GrpcClient(ServerClient):
    """Sends the same tensors each time, several requests over a connection."""

    protocol = "gRPC"

    def __init__(self, standing: ServerPlace, spec: WorkloadSpec, options: V2Options, inputs: Sequence[Input]) -> None:
        super().__init__(standing, options, spec.server.warm if spec.server else 0)
        self._timeout_s = options.timeout_s
        self._grpc = _library()
        self._channel: Any = None
        self.body = request_of(inputs, options)
        self._metadata = tuple((name.lower(), value) for name, value in options.headers.items())

    async def request(self, number: int, mark: Mark) -> AnswerTokens:  # noqa: ARG002 (all are alike)
        """One inference."""
        if self._channel is None:  # it belongs to the loop it is created in
            authority = self.standing.address.authority
            self._channel = self._grpc.aio.insecure_channel(authority, options=_UNLIMITED)
            self._infer = _call(self._channel, "ModelInfer")
        try:
            await self._infer(self.body, timeout=self._timeout_s, metadata=self._metadata)
        except self._grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        mark(0, time.monotonic_ns())
        return AnswerTokens()

    async def close(self) -> None:
        """Drop the connection."""
        if self._channel is not None:
            await self._channel.close(grace=None)

    def _failed(self, error: Any) -> RequestFailed:
        code, name = error.code(), self.standing.address.name
        if code is self._grpc.StatusCode.DEADLINE_EXCEEDED:
            return RequestFailed("timeout", f"`{name}` sent no answer within {self._timeout_s:g} s")
        kind = "connection" if code is self._grpc.StatusCode.UNAVAILABLE else f"grpc {_said(code)}"
        return RequestFailed(kind, f"`{name}` answered {_said(code)}: {' '.join(str(error.details()).split())[:200]}")


def _call(channel: Any, method: str) -> Any:
    return channel.unary_unary(_SERVICE + method)  # without serialisers: bytes in, bytes out


def _metadata(answer: bytes) -> Mapping[str, Any]:
    platform, inputs = None, []
    for field, value in protobuf.fields(answer):
        if field == 3 and isinstance(value, bytes):
            platform = value.decode()
        elif field == 4 and isinstance(value, bytes):
            inputs.append(_tensor(value))
    return {"platform": platform, "inputs": inputs}


def _tensor(message: bytes) -> dict[str, Any]:
    tensor: dict[str, Any] = {"name": "", "datatype": "", "shape": []}
    for field, value in protobuf.fields(message):
        if field == 3:
            tensor["shape"] += protobuf.numbers(value)
        elif isinstance(value, bytes) and field in {1, 2}:
            tensor["name" if field == 1 else "datatype"] = value.decode()
    return tensor


def _refusal(address: Address, options: V2Options, error: Any) -> WorkloadError:
    code, details = _said(error.code()), " ".join(str(error.details()).split())[:160]
    if code in {"unavailable", "deadline exceeded"}:
        return WorkloadError(
            f"nothing answers in gRPC at `{address.name}`: {details}",
            hint="check the port: servers have one for HTTP and one for gRPC",
        )
    if code in {"not found", "invalid argument", "internal"}:
        return WorkloadError(f"`{address.name}` has no model `{options.model}`: {details}")
    return WorkloadError(
        f"`{address.name}` is not a server with the Open Inference Protocol: it answers {code}: {details}",
        hint="check the port: servers have one for HTTP and one for gRPC",
    )


def _said(code: Any) -> str:
    return str(code.value[1])


def _library() -> Any:
    try:
        import grpc
        import grpc.aio
    except ImportError:
        raise WorkloadError("`v2:grpc:` needs grpcio", hint='pip install "cotenant[grpc]"') from None
    return grpc
