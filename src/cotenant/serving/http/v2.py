"""The Open Inference Protocol v2 over HTTP, with only the listed extensions."""

from collections.abc import Awaitable, Mapping
from typing import Any

from cotenant import __version__
from cotenant.errors import BadInput
from cotenant.serving.http.messages import HttpRequest, Reply, Status, in_json
from cotenant.serving.http.passing import pass_v2
from cotenant.serving.http.request_options import wishes_of
from cotenant.serving.http.v2_tensors import HEADER, check_output, infer_tensors, read_inputs, write_outputs
from cotenant.serving.service import ServedModel, Service
from cotenant.serving.tensors import Parcel, TensorSpec

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "schedule_policy", "statistics")
VERSION = "1"


async def server(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Name, version, extensions."""
    del service, request, parts
    return in_json({"name": "cotenant", "version": __version__, "extensions": list(EXTENSIONS)})


async def live(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """The process answers."""
    del service, request, parts
    return in_json({"live": True})


async def ready(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Whether all tenants can be served."""
    del request, parts
    return _readiness({}, ready=service.all_ready())


async def model(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Inputs and outputs of a model."""
    del request
    served = _model(service, parts)
    return in_json(
        {
            "name": served.name,
            "versions": [VERSION],
            "platform": "cotenant" if served.passing is None else f"cotenant, {served.passing.entry.protocol} backend",
            "inputs": [_spec(tensor) for tensor in served.signature.inputs],
            "outputs": [_spec(tensor) for tensor in served.signature.outputs],
        }
    )


async def model_ready(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Whether a model can be served now."""
    del request
    served = _model(service, parts)
    return _readiness({"name": served.name}, ready=not service.draining and service.ready(served.name))


async def config(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """A model's configuration in Triton's form."""
    del request
    return in_json(config_of(_model(service, parts)))


def infer(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Awaitable[Reply]:
    """One request."""
    served = _model(service, parts)
    if served.passing is not None:
        return pass_v2(service, served, request)
    header, parcel = read_inputs(request.headers, request.body)
    parameters = header.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput("`parameters` must be an object.", param="parameters")
    number = header.get("id")
    if number is not None and not (isinstance(number, str) or type(number) is int):
        raise BadInput("`id` is a text or an integer.", param="id")
    wishes = wishes_of(request.headers, timeout_us=parameters.get("timeout"), priority=parameters.get("priority"))
    binary = _requested(header, parameters, served)

    def reply(answer: Parcel) -> Reply:
        head: dict[str, Any] = {"model_name": served.name, "model_version": VERSION}
        if number is not None:
            head["id"] = str(number)
        if service.basis != "measured":
            head["parameters"] = {"basis": service.basis}
        body, length = write_outputs([tensor for tensor in answer.tensors if tensor.name in binary], head, binary)
        if length is None:
            return Reply(200, body)
        return Reply(200, body, "application/octet-stream", {HEADER: str(length)})

    return infer_tensors(service, served, parcel, parameters, wishes).into(reply)


async def statistics(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Counts and times since the start, in nanoseconds."""
    del request
    names = [_model(service, parts).name] if "model" in parts else [model.name for model in service.tenants.values()]
    return in_json({"model_stats": [statistics_of(service, name) for name in names]})


async def index(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """All models, loaded or not; with `ready`, those that can be served."""
    del parts
    body = request.json() if request.body else {}
    return in_json(index_of(service, ready=body.get("ready") is True))


async def load(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Load an unloaded model of the file again."""
    del request
    service.load(_known(service, parts).name)
    return Reply(200)


async def unload(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Finish accepted requests and refuse new ones; the model stays in its worker's memory."""
    del request
    service.unload(_known(service, parts).name)
    return Reply(200)


def config_of(served: ServedModel) -> dict[str, Any]:
    """A model's configuration in Triton's form; that of a backend where it has one."""
    if served.passing is not None and served.passing.config is not None:
        return {**served.passing.config, "name": served.name}
    return {
        "name": served.name,
        "platform": "cotenant",
        "backend": "cotenant",
        "max_batch_size": 0,  # the first dimension is part of the shapes
        "input": [{**_configured(tensor), "optional": tensor.optional} for tensor in served.signature.inputs],
        "output": [_configured(tensor) for tensor in served.signature.outputs],
        "model_transaction_policy": {"decoupled": False},
    }


def index_of(service: Service, *, ready: bool) -> list[dict[str, Any]]:
    """All models, loaded or not; ``ready``: only those that can be served."""
    rows = [
        {
            "name": model.name,
            "version": VERSION,
            "state": "READY" if model.loaded and service.ready(model.name) else "UNAVAILABLE",
            "reason": "" if model.loaded else "unloaded",
        }
        for model in service.tenants.values()
    ]
    return [row for row in rows if not ready or row["state"] == "READY"]


def _readiness(about: dict[str, Any], *, ready: bool) -> Reply:
    return in_json({**about, "ready": ready}, 200 if ready else 503)


def _configured(spec: TensorSpec) -> dict[str, Any]:
    kind = "TYPE_STRING" if spec.datatype == "BYTES" else f"TYPE_{spec.datatype}"
    return {"name": spec.name, "data_type": kind, "dims": list(spec.shape)}


def _known(service: Service, parts: Mapping[str, str]) -> ServedModel:
    model = service.tenants.get(parts["model"])
    if model is None:
        raise Status(404, f"There is no model {parts['model'][:100]!r}.")
    return model


def _model(service: Service, parts: Mapping[str, str]) -> ServedModel:
    model = _known(service, parts)
    if not model.loaded:
        raise Status(404, f"The model {model.name} isn't loaded.")
    if parts.get("version", VERSION) != VERSION:
        raise Status(404, f"The model {model.name} has only version {VERSION}.")
    return model


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def _requested(header: Mapping[str, Any], parameters: Mapping[str, Any], served: ServedModel) -> dict[str, bool]:
    """Which outputs are requested, and which of them as raw bytes."""
    all_binary = parameters.get("binary_data_output") is True
    known = [output.name for output in served.signature.outputs]
    asked = header.get("outputs")
    if not asked:
        return dict.fromkeys(known, all_binary)
    if not isinstance(asked, list):
        raise BadInput("`outputs` must be a list.")
    outputs: dict[str, bool] = {}
    for entry in asked:
        name = entry.get("name") if isinstance(entry, dict) else None
        if name not in known:
            raise BadInput(f"There is no output {str(name)[:100]!r}; there are {', '.join(known)}.")
        outputs[str(name)] = check_output(entry).get("binary_data", all_binary) is True
    return outputs


def statistics_of(service: Service, name: str) -> dict[str, Any]:
    """Counts and times of a model in Triton's form; moving inputs and outputs is part of `compute_infer`."""
    counts = service.measures.of(name)
    failed = counts.asked - counts.served

    def pair(count: int, seconds: float) -> dict[str, int]:
        return {"count": count, "ns": round(seconds * 1e9)}

    return {
        "name": name,
        "version": VERSION,
        "inference_count": counts.served,
        "execution_count": counts.served,
        "inference_stats": {
            "success": pair(counts.served, counts.latency_s.total),
            "fail": pair(failed, 0.0),
            "queue": pair(counts.served, counts.queue_s),
            "compute_input": pair(counts.served, 0.0),
            "compute_infer": pair(counts.served, counts.device_s),
            "compute_output": pair(counts.served, 0.0),
        },
        "batch_stats": [],
    }
