"""`v2:http://host:port`: a server with the Open Inference Protocol: Triton, KServe, MLServer, and ours."""

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cotenant.clients.address import Address
from cotenant.clients.asking import ask, ask_json
from cotenant.clients.http11 import Timing, refused
from cotenant.errors import WorkloadError
from cotenant.workloads.options import Opaque, StatedOptions, read_options, refuse_unused
from cotenant.workloads.protocol import SENT, Answer, Built, Mark, Place, WorkloadSpec
from cotenant.workloads.servers import v2_grpc
from cotenant.workloads.servers.names import V2, V2_GRPC
from cotenant.workloads.servers.serving import HttpClient, Standing, address_in, built, check_start, not_asked, stand
from cotenant.workloads.servers.v2_inputs import Input, V2Options, inputs_of

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
        return v2_grpc.described(address, options) if self._grpc else metadata(address, options)

    def _client(
        self, standing: Standing, spec: WorkloadSpec, options: V2Options, inputs: Sequence[Input]
    ) -> "V2Client | v2_grpc.GrpcClient":
        if self._grpc:
            return v2_grpc.GrpcClient(standing, spec, options, inputs)
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
            "inputs": {one.name: [one.datatype, list(one.values.shape)] for one in inputs},
            "protocol": client.protocol,
            "request_bytes": len(client.body),
        }
        return built(spec, options, standing, client, facts)


class V2Client(HttpClient):
    """Sends the same tensors each time."""

    slots: tuple[str, ...] = ("answer",)

    def __init__(
        self, standing: Standing, spec: WorkloadSpec, options: V2Options, inputs: Sequence[Input], *, binary: bool
    ) -> None:
        self.protocol = "HTTP, tensors as bytes" if binary else "HTTP, tensors as JSON"
        self.body, headers = body_of(inputs, binary=binary)
        super().__init__(standing, options, spec.server.warm if spec.server else 0, headers)
        self._path = f"{_model_path(standing.address, options)}/infer"

    async def request(self, number: int, mark: Mark) -> Answer:  # noqa: ARG002 (all are alike)
        """One inference."""
        timing = Timing()
        reply = await self.connections.send("POST", self._path, self.body, timing=timing)
        mark(SENT, timing.sent_ns)
        mark(0, timing.arrived_ns)
        if not reply.ok:
            raise refused(self.standing.address.name, reply)
        return Answer()


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
        found = ask_json(address, _model_path(address, options), options.headers, what=WHAT)
    except WorkloadError:
        raise WorkloadError(f"`{address.name}` has no model `{options.model}`", hint=_has(address, options)) from None
    if not isinstance(found, Mapping) or not isinstance(found.get("inputs"), list):
        raise WorkloadError(f"`{address.name}` does not describe the inputs of `{options.model}`")
    return found


def body_of(inputs: Sequence[Input], *, binary: bool) -> tuple[bytes, dict[str, str]]:
    """A request with these inputs, and its headers."""
    if not binary:
        return json.dumps({"inputs": [one.as_json() for one in inputs]}).encode(), {"Content-Type": "application/json"}
    parts = [one.as_bytes() for one in inputs]
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
        names = [str(one["name"]) for one in listed]
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return "check the server's log for the models it has loaded"
    return f"it has {', '.join(names)}" if names else "it has none"


def _model_path(address: Address, options: V2Options) -> str:
    version = f"/versions/{options.version}" if options.version else ""
    return f"{address.path.rstrip('/')}/v2/models/{options.model}{version}"
