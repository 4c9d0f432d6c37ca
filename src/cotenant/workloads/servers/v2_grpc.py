"""`v2:grpc://host:port`: the Open Inference Protocol over gRPC."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from cotenant.clients import protobuf
from cotenant.clients.address import Address
from cotenant.errors import RequestFailed, WorkloadError
from cotenant.workloads.protocol import Answer, Mark, WorkloadSpec
from cotenant.workloads.servers.serving import Standing
from cotenant.workloads.servers.v2_inputs import Input, V2Options

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
    for one in inputs:
        tensor = protobuf.written(1, one.name) + protobuf.written(2, one.datatype)
        message += protobuf.written(5, tensor + protobuf.packed(3, one.values.shape))
    return message + b"".join(protobuf.written(7, one.data()) for one in inputs)


class GrpcClient:
    """Sends the same tensors each time, several requests over one connection."""

    slots: tuple[str, ...] = ("answer",)
    first_output: int | None = None
    protocol = "gRPC"

    def __init__(self, standing: Standing, spec: WorkloadSpec, options: V2Options, inputs: Sequence[Input]) -> None:
        self._standing, self._timeout_s = standing, options.timeout_s
        self._grpc = _library()
        self._channel: Any = None
        self.body = request_of(inputs, options)
        self.warm = spec.server.warm if spec.server else 0
        self.ramp_s = options.ramp_s
        self._metadata = tuple((name.lower(), value) for name, value in options.headers.items())

    def begin(self, first_arrival: int) -> None:
        """A no-op: requests do not depend on their window."""

    def rest(self) -> None:
        """A no-op: a server without requests is idle by itself."""

    async def request(self, number: int, mark: Mark) -> Answer:  # noqa: ARG002 (all are alike)
        """One inference."""
        if self._channel is None:  # it belongs to the loop it is created in
            authority = self._standing.address.authority
            self._channel = self._grpc.aio.insecure_channel(authority, options=_UNLIMITED)
            self._infer = _call(self._channel, "ModelInfer")
        try:
            await self._infer(self.body, timeout=self._timeout_s, metadata=self._metadata)
        except self._grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        mark(0, time.monotonic_ns())
        return Answer()

    async def close(self) -> None:
        """Drop the connection."""
        if self._channel is not None:
            await self._channel.close(grace=None)

    def pids(self) -> tuple[int, ...]:
        """The processes that serve."""
        return self._standing.pids()

    def gone(self) -> str | None:
        """How the server ended, if it is ours and has."""
        return self._standing.gone()

    def _failed(self, error: Any) -> RequestFailed:
        code, name = error.code(), self._standing.address.name
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
    found: dict[str, Any] = {"name": "", "datatype": "", "shape": []}
    for field, value in protobuf.fields(message):
        if field == 3:
            found["shape"] += protobuf.numbers(value)
        elif isinstance(value, bytes) and field in {1, 2}:
            found["name" if field == 1 else "datatype"] = value.decode()
    return found


def _refusal(address: Address, options: V2Options, error: Any) -> WorkloadError:
    code, said = _said(error.code()), " ".join(str(error.details()).split())[:160]
    if code in {"unavailable", "deadline exceeded"}:
        return WorkloadError(
            f"nothing answers in gRPC at `{address.name}`: {said}",
            hint="check the port: servers have one for HTTP and one for gRPC",
        )
    if code in {"not found", "invalid argument", "internal"}:
        return WorkloadError(f"`{address.name}` has no model `{options.model}`: {said}")
    return WorkloadError(
        f"`{address.name}` is not a server with the Open Inference Protocol: it answers {code}: {said}",
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
