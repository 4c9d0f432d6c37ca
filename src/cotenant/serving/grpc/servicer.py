"""The methods of the protocol: the gRPC counterpart of HTTP."""

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from cotenant import __version__
from cotenant.errors import BackendTimeout, CotenantError, Refused
from cotenant.serving.grpc.forwarding import answered, forwarded
from cotenant.serving.grpc.parcels import filled, message, parameter, parameters_of, read_parcel, write_response
from cotenant.serving.http.access import check_admin, check_stranger, check_tenant, presented
from cotenant.serving.http.messages import Status, status_of
from cotenant.serving.http.passing import pass_tensors
from cotenant.serving.http.request_options import wishes_of
from cotenant.serving.http.v2 import VERSION, config_of, index_of, statistics_of
from cotenant.serving.http.v2_tensors import check_output, infer_tensors, token_parcel
from cotenant.serving.service import ServedModel, Service, Wishes
from cotenant.serving.tensors import Parcel, TensorSpec
from cotenant.serving.workers.work import ScoredToken

log = logging.getLogger(__name__)

EXTENSIONS = ("model_configuration", "model_repository", "schedule_policy", "statistics")
"""Extensions supported over gRPC; raw contents are part of the protocol here."""
IN_FLIGHT = 64
"""Requests of a stream that are served at the same time."""
FINAL = "triton_final_response"
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
Method = Callable[[Any, "Asking"], Awaitable[Any]]
Stream = Callable[[AsyncIterator[Any], "Asking"], AsyncIterator[Any]]


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
            "ModelConfig": self.config,
            "ModelStatistics": self.statistics,
            "RepositoryIndex": self.index,
            "RepositoryModelLoad": self.load,
            "RepositoryModelUnload": self.unload,
        }

    def streams(self) -> Mapping[str, Stream]:
        """Methods with a stream of requests and one of responses."""
        return {"ModelStreamInfer": self.stream_infer}

    async def live(self, request: Any, asking: Asking) -> Any:
        """The process answers."""
        del request, asking
        return message("ServerLiveResponse")(live=True)

    async def ready(self, request: Any, asking: Asking) -> Any:
        """Whether all tenants can be served."""
        del request, asking
        return message("ServerReadyResponse")(ready=self._service.all_ready())

    async def model_ready(self, request: Any, asking: Asking) -> Any:
        """Whether a model can be served now; one that isn't there can't."""
        try:
            served = self._model(request.name, request.version, asking)
        except Status as error:
            if error.status != 404:
                raise
            return message("ModelReadyResponse")(ready=False)
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

    async def config(self, request: Any, asking: Asking) -> Any:
        """A model's configuration."""
        config = config_of(self._model(request.name, request.version, asking))
        return filled("ModelConfigResponse", {"config": config})

    async def statistics(self, request: Any, asking: Asking) -> Any:
        """Counts and times of a model; without a name, of all."""
        if request.name:
            names = [self._model(request.name, request.version, asking).name]
        else:
            check_admin(self._service, asking.key)
            names = list(self._service.tenants)
        return filled(
            "ModelStatisticsResponse", {"model_stats": [statistics_of(self._service, model) for model in names]}
        )

    async def index(self, request: Any, asking: Asking) -> Any:
        """All models, loaded or not."""
        check_admin(self._service, asking.key)
        return filled("RepositoryIndexResponse", {"models": index_of(self._service, ready=request.ready)})

    async def load(self, request: Any, asking: Asking) -> Any:
        """Load an unloaded model of the file again."""
        self._service.load(self._listed(request.model_name, asking))
        return message("RepositoryModelLoadResponse")()

    async def unload(self, request: Any, asking: Asking) -> Any:
        """Finish accepted requests and refuse new ones."""
        self._service.unload(self._listed(request.model_name, asking))
        return message("RepositoryModelUnloadResponse")()

    async def infer(self, request: Any, asking: Asking) -> Any:
        """One request."""
        served = self._model(request.model_name, request.model_version, asking)
        if served.passing is not None:
            return await self._pass(served, request, asking)
        outputs = _requested_outputs(request, served)
        given = parameters_of(request.parameters)
        pending = infer_tensors(self._service, served, read_parcel(request), given, _wishes(request, asking))
        return _response(await pending, outputs, served, request)

    async def stream_infer(self, requests: AsyncIterator[Any], asking: Asking) -> AsyncIterator[Any]:
        """Requests of a stream, answered in order; with `stream`, a decoder's tokens one by one."""
        answers: asyncio.Queue[asyncio.Queue[Any] | None] = asyncio.Queue(IN_FLIGHT)
        tasks: set[asyncio.Task[None]] = set()

        async def read() -> None:
            try:
                async for request in requests:
                    answer: asyncio.Queue[Any] = asyncio.Queue()
                    task = asyncio.ensure_future(self._answer(request, asking, answer))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    await answers.put(answer)
            finally:
                await answers.put(None)

        reading = asyncio.ensure_future(read())
        try:
            while (answer := await answers.get()) is not None:
                while (response := await answer.get()) is not None:
                    yield response
            await reading  # raises if what was sent is no request
        finally:
            for task in (reading, *tasks):
                task.cancel()
            await asyncio.gather(reading, *tasks, return_exceptions=True)

    async def _answer(self, request: Any, asking: Asking, answer: "asyncio.Queue[Any]") -> None:
        """Put the responses to a request of a stream into a queue, and None at the end."""
        try:
            if parameter(request.parameters, "stream") is True:
                await self._tokens(request, asking, answer)
            else:
                answer.put_nowait(_streamed(await self.infer(request, asking), final=True))
        except Exception as error:
            if status_of(error) == 500:
                log.exception("a request of a stream failed")
            failed = message("ModelInferResponse")(model_name=request.model_name, id=request.id)
            response = _streamed(failed, final=True)
            response.error_message = code_of(error)[1]
            answer.put_nowait(response)
        finally:
            answer.put_nowait(None)

    async def _tokens(self, request: Any, asking: Asking, answer: "asyncio.Queue[Any]") -> None:
        served = self._model(request.model_name, request.model_version, asking)
        if served.passing is not None or not served.signature.decodes:
            raise Status(400, f"{served.name} doesn't generate tokens one by one.", hint="Leave `stream` out.")
        outputs = _requested_outputs(request, served)

        def take(tokens: list[int], scores: Sequence[ScoredToken]) -> None:
            del scores
            for token in tokens:
                response = _response(token_parcel([token]), outputs, served, request)
                answer.put_nowait(_streamed(response, final=False))

        given = parameters_of(request.parameters)
        wishes = _wishes(request, asking)
        await infer_tensors(self._service, served, read_parcel(request), given, wishes, sink=take)
        last = message("ModelInferResponse")(model_name=served.name, model_version=VERSION, id=request.id)
        answer.put_nowait(_streamed(last, final=True))

    async def _pass(self, served: ServedModel, request: Any, asking: Asking) -> Any:
        """Forward to a backend over HTTP, as bytes."""
        body, header = forwarded(request)
        reply = await pass_tensors(self._service, served, body, header, _wishes(request, asking))
        if reply.status != 200:
            raise Status(reply.status, _said(reply.body))
        return answered(reply.headers, reply.body, name=served.name, version=VERSION)

    def _listed(self, name: str, asking: Asking) -> str:
        """A model of the file, loaded or not, for an administrator."""
        check_admin(self._service, asking.key)
        if name not in self._service.tenants:
            raise Status(404, f"There is no model {name[:100]!r}.")
        return name

    def _model(self, name: str, version: str, asking: Asking) -> ServedModel:
        service = self._service
        check_stranger(service, asking.key)
        check_tenant(service, asking.key, name)
        model = service.tenants.get(name)
        if model is None or not model.loaded:
            raise Status(404, f"There is no model {name[:100]!r}.")
        if version not in ("", VERSION):
            raise Status(404, f"The model {model.name} has only version {VERSION}.")
        return model


def code_of(error: Exception) -> tuple[str, str, list[tuple[str, str]]]:
    """The gRPC status, a sentence, and metadata of a refusal."""
    sentence = error.message if isinstance(error, CotenantError) else "Internal server error; see the server's log."
    if isinstance(error, CotenantError) and error.hint:
        sentence = f"{sentence} {error.hint}"
    trailing = []
    if isinstance(error, Refused):
        trailing.append(("x-cotenant-why", error.why.replace(" ", "-")))
        trailing.append(("x-cotenant-predicted-wait-ms", f"{error.predicted_wait_s * 1e3:.1f}"))
    if isinstance(error, Refused | BackendTimeout) and error.retry_after_s is not None:
        wait_ms = str(max(1, math.ceil(error.retry_after_s * 1e3)))
        trailing += [("retry-after-ms", wait_ms), ("grpc-retry-pushback-ms", wait_ms)]
    return _CODES.get(status_of(error), "INTERNAL"), sentence, trailing


def _requested_outputs(request: Any, served: ServedModel) -> set[str]:
    """Requested outputs; none: all."""
    known = [output.name for output in served.signature.outputs]
    outputs = set()
    for output in request.outputs:
        if output.name not in known:
            raise Status(400, f"There is no output {output.name[:100]!r}; there are {', '.join(known)}.")
        check_output({"name": output.name, "parameters": parameters_of(output.parameters)})
        outputs.add(output.name)
    return outputs


def _response(answer: Parcel, outputs: set[str], served: ServedModel, request: Any) -> Any:
    kept = Parcel(tuple(tensor for tensor in answer.tensors if not outputs or tensor.name in outputs))
    return write_response(kept, served.name, VERSION, request.id)


def _streamed(response: Any, *, final: bool) -> Any:
    response.parameters[FINAL].bool_param = final
    return message("ModelStreamInferResponse")(infer_response=response)


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
        sentence = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        sentence = body[:200].decode(errors="replace")
    return f"The backend refused: {sentence}"
