"""The methods of the protocol: the gRPC counterpart of HTTP."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cotenant import __version__
from cotenant.errors import CotenantError, Refused
from cotenant.serving.grpc.messages import message
from cotenant.serving.grpc.tensors import parameter, read_parcel, write_response
from cotenant.serving.http.access import check_stranger, check_tenant
from cotenant.serving.http.asked import wishes_of
from cotenant.serving.http.keys import presented
from cotenant.serving.http.passing import pass_tensors
from cotenant.serving.http.problems import Status, status_of
from cotenant.serving.http.v2 import VERSION
from cotenant.serving.http.v2_tensors import read_outputs, write_inputs
from cotenant.serving.models.signature import TensorSpec
from cotenant.serving.processes.parcel import Parcel
from cotenant.serving.service import Served, Service, Wishes

EXTENSIONS = ("schedule_policy",)
"""Extensions supported over gRPC; raw contents are part of the protocol here."""
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
}
Method = Callable[[Any, "Asking"], Awaitable[Any]]


class Asking:
    """Context of a call: headers, and the client's timeout."""

    def __init__(self, metadata: Mapping[str, str], remaining_s: float | None) -> None:
        self.metadata = metadata
        self.remaining_s = remaining_s

    @property
    def key(self) -> str | None:
        """The API key, if sent."""
        return presented(self.metadata)


class Servicer:
    """Answers from a `Service`. Every method maps a request to a response, or raises the same errors as HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def methods(self) -> Mapping[str, Method]:
        """Methods by their protocol name."""
        return {
            "ServerLive": self.live,
            "ServerReady": self.ready,
            "ModelReady": self.model_ready,
            "ServerMetadata": self.server,
            "ModelMetadata": self.model,
            "ModelInfer": self.infer,
        }

    async def live(self, request: Any, asking: Asking) -> Any:
        """The process answers."""
        del request, asking
        return message("ServerLiveResponse")(live=True)

    async def ready(self, request: Any, asking: Asking) -> Any:
        """Whether all tenants can be served."""
        del request, asking
        return message("ServerReadyResponse")(ready=self._service.all_ready())

    async def model_ready(self, request: Any, asking: Asking) -> Any:
        """Whether a model can be served now."""
        served = self._model(request.name, request.version, asking)
        ready = not self._service.draining and self._service.ready(served.name)
        return message("ModelReadyResponse")(ready=ready)

    async def server(self, request: Any, asking: Asking) -> Any:
        """Name, version, extensions."""
        del request, asking
        return message("ServerMetadataResponse")(name="cotenant", version=__version__, extensions=EXTENSIONS)

    async def model(self, request: Any, asking: Asking) -> Any:
        """Inputs and outputs of a model."""
        served = self._model(request.name, request.version, asking)
        response = message("ModelMetadataResponse")(name=served.name, versions=[VERSION], platform="cotenant")
        _describe(response.inputs, served.signature.inputs)
        _describe(response.outputs, served.signature.outputs)
        return response

    async def infer(self, request: Any, asking: Asking) -> Any:
        """One request."""
        served = self._model(request.model_name, request.model_version, asking)
        parcel, wishes = read_parcel(request), _wishes(request, asking)
        if served.passing is not None:
            answer = await self._pass(served, parcel, wishes)
        else:
            answer = await self._service.infer(served.name, parcel, wishes)
        wanted = {one.name for one in request.outputs}
        known = {one.name for one in answer.tensors}
        if not wanted <= known:
            raise Status(400, f"There is no output {min(wanted - known)[:100]!r}; there are {', '.join(known)}.")
        kept = Parcel(tuple(one for one in answer.tensors if not wanted or one.name in wanted))
        return write_response(kept, served.name, VERSION, request.id)

    async def _pass(self, served: Served, parcel: Parcel, wishes: Wishes) -> Parcel:
        """Forward to a backend over HTTP, as bytes."""
        body, header = write_inputs(parcel, {"parameters": {"binary_data_output": True}})
        reply = await pass_tensors(self._service, served, body, header, wishes)
        if reply.status != 200:
            raise Status(reply.status, _said(reply.body))
        return read_outputs(reply.headers, reply.body)

    def _model(self, name: str, version: str, asking: Asking) -> Served:
        service = self._service
        check_stranger(service, asking.key)
        check_tenant(service, asking.key, name)
        found = service.tenants.get(name)
        if found is None or not found.loaded:
            raise Status(404, f"There is no model {name[:100]!r}.")
        if version not in ("", VERSION):
            raise Status(404, f"The model {found.name} has only version {VERSION}.")
        return found


def code_of(error: Exception) -> tuple[str, str, list[tuple[str, str]]]:
    """The gRPC status, a sentence, and metadata of a refusal."""
    sentence = error.message if isinstance(error, CotenantError) else "Internal server error; see the server's log."
    if isinstance(error, CotenantError) and error.hint:
        sentence = f"{sentence} {error.hint}"
    trailing = []
    if isinstance(error, Refused):
        trailing.append(("x-cotenant-why", error.why.replace(" ", "-")))
        trailing.append(("x-cotenant-predicted-wait-ms", f"{error.predicted_wait_s * 1e3:.1f}"))
        if error.retry_after_s is not None:
            wait_ms = str(max(1, math.ceil(error.retry_after_s * 1e3)))
            trailing += [("retry-after-ms", wait_ms), ("grpc-retry-pushback-ms", wait_ms)]
    return _CODES.get(status_of(error), "INTERNAL"), sentence, trailing


def _wishes(request: Any, asking: Asking) -> Wishes:
    wishes = wishes_of(
        asking.metadata,
        timeout_us=parameter(request.parameters, "timeout"),
        priority=parameter(request.parameters, "priority"),
    )
    left = asking.remaining_s
    if left is None or (wishes.deadline_s is not None and wishes.deadline_s <= left):
        return wishes
    return wishes._replace(deadline_s=max(left, 1e-6))


def _describe(fields: Any, specs: tuple[TensorSpec, ...]) -> None:
    for spec in specs:
        fields.add(name=spec.name, datatype=spec.datatype, shape=spec.shape)


def _said(body: bytes) -> str:
    try:
        said = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        said = body[:200].decode(errors="replace")
    return f"The backend refused: {said}"
