"""The Open Inference Protocol v2 over HTTP, with only the listed extensions."""

from collections.abc import Awaitable, Mapping
from typing import Any

from cotenant import __version__
from cotenant.errors import BadInput
from cotenant.serving.http.asked import wishes_of
from cotenant.serving.http.messages import Reply, Request, in_json
from cotenant.serving.http.passing import pass_v2
from cotenant.serving.http.problems import Status
from cotenant.serving.http.v2_tensors import HEADER, read_inputs, write_outputs
from cotenant.serving.models.signature import TensorSpec
from cotenant.serving.processes.parcel import Parcel
from cotenant.serving.service import Served, Service

EXTENSIONS = ("binary_tensor_data", "model_repository", "schedule_policy", "statistics")
VERSION = "1"


async def server(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Name, version, extensions."""
    del service, request, parts
    return in_json({"name": "cotenant", "version": __version__, "extensions": list(EXTENSIONS)})


async def live(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """The process answers."""
    del service, request, parts
    return Reply(200)


async def ready(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Whether all tenants can be served."""
    del request, parts
    return Reply(200 if service.all_ready() else 503)


async def model(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Inputs and outputs of a model."""
    del request
    served = _model(service, parts)
    return in_json(
        {
            "name": served.name,
            "versions": [VERSION],
            "platform": "cotenant" if served.passing is None else f"cotenant, {served.passing.entry.protocol} backend",
            "inputs": [_spec(one) for one in served.signature.inputs],
            "outputs": [_spec(one) for one in served.signature.outputs],
        }
    )


async def model_ready(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Whether a model can be served now."""
    del request
    served = _model(service, parts)
    return Reply(200 if not service.draining and service.ready(served.name) else 503)


def infer(service: Service, request: Request, parts: Mapping[str, str]) -> Awaitable[Reply]:
    """One request."""
    served = _model(service, parts)
    if served.passing is not None:
        return pass_v2(service, served, request)
    header, parcel = read_inputs(request.headers, request.body)
    parameters = header.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput("`parameters` must be an object.")
    wishes = wishes_of(request.headers, timeout_us=parameters.get("timeout"), priority=parameters.get("priority"))
    binary = _wanted(header, parameters, served)

    def reply(answer: Parcel) -> Reply:
        head: dict[str, Any] = {"model_name": served.name, "model_version": VERSION}
        if isinstance(header.get("id"), str):
            head["id"] = header["id"]
        if service.basis != "measured":
            head["parameters"] = {"basis": service.basis}
        body, length = write_outputs([one for one in answer.tensors if one.name in binary], head, binary)
        if length is None:
            return Reply(200, body)
        return Reply(200, body, "application/octet-stream", {HEADER: str(length)})

    return service.infer(served.name, parcel, wishes).into(reply)


async def statistics(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Counts and times since the start, in nanoseconds."""
    del request
    names = [_model(service, parts).name] if "model" in parts else [one.name for one in service.tenants.values()]
    return in_json({"model_stats": [_statistics(service, name) for name in names]})


async def index(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """All models, loaded or not."""
    del request, parts
    return in_json(
        [
            {
                "name": one.name,
                "version": VERSION,
                "state": "READY" if one.loaded and service.ready(one.name) else "UNAVAILABLE",
                "reason": "" if one.loaded else "unloaded",
            }
            for one in service.tenants.values()
        ]
    )


async def load(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Load an unloaded model of the file again."""
    del request
    service.load(_known(service, parts).name)
    return Reply(200)


async def unload(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Finish accepted requests and refuse new ones; the model stays in its worker's memory."""
    del request
    service.unload(_known(service, parts).name)
    return Reply(200)


def _known(service: Service, parts: Mapping[str, str]) -> Served:
    found = service.tenants.get(parts["model"])
    if found is None:
        raise Status(404, f"There is no model {parts['model'][:100]!r}.")
    return found


def _model(service: Service, parts: Mapping[str, str]) -> Served:
    found = _known(service, parts)
    if not found.loaded:
        raise Status(404, f"The model {found.name} isn't loaded.")
    if parts.get("version", VERSION) != VERSION:
        raise Status(404, f"The model {found.name} has only version {VERSION}.")
    return found


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def _wanted(header: Mapping[str, Any], parameters: Mapping[str, Any], served: Served) -> dict[str, bool]:
    """Requested outputs, and which of them as raw bytes."""
    all_binary = parameters.get("binary_data_output") is True
    known = [one.name for one in served.signature.outputs]
    asked = header.get("outputs")
    if asked is None:
        return dict.fromkeys(known, all_binary)
    if not isinstance(asked, list):
        raise BadInput("`outputs` must be a list.")
    wanted: dict[str, bool] = {}
    for entry in asked:
        name = entry.get("name") if isinstance(entry, dict) else None
        if name not in known:
            raise BadInput(f"There is no output {str(name)[:100]!r}; there are {', '.join(known)}.")
        own = entry.get("parameters") or {}
        raw = own.get("binary_data", all_binary) if isinstance(own, dict) else all_binary
        wanted[str(name)] = raw is True
    return wanted


def _statistics(service: Service, name: str) -> dict[str, Any]:
    one = service.measures.of(name)
    failed = one.asked - one.served

    def pair(count: int, seconds: float) -> dict[str, int]:
        return {"count": count, "ns": round(seconds * 1e9)}

    return {
        "name": name,
        "version": VERSION,
        "inference_count": one.served,
        "execution_count": one.served,
        "inference_stats": {
            "success": pair(one.served, one.latency_s),
            "fail": pair(failed, 0.0),
            "queue": pair(one.served, one.queue_s),
            "compute_infer": pair(one.served, one.device_s),
        },
    }
