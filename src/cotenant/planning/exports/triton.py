"""Triton: a server and a model repository per tenant, as a plan gives every tenant its own process."""

from typing import Any

from cotenant.planning.exports.model import ExportedDevice, ExportedTenant
from cotenant.planning.exports.quoting import json_text
from cotenant.planning.exports.servers import (
    DTYPES,
    HOST,
    ServerCommand,
    memory_fraction,
    model_note,
    software_note,
    step_tokens,
)

QUEUED = 0.5
"""A request that has waited for this fraction of its limit can no longer finish in time."""
GATHERING = 0.1
"""Fraction of the limit that a batch may wait to fill, if the plan assumes that batches do."""
FILES = {"onnxruntime": "model.onnx", "tensorrt": "model.plan"}
"""The model's file, by backend."""
DOORS = ("http", "grpc", "metrics")


def command(device: ExportedDevice, tenant: ExportedTenant, port: int) -> ServerCommand:
    """`tritonserver` with a repository of the tenant's model alone."""
    repository = f"triton/{tenant.key}"
    folder = f"{repository}/{tenant.key}"
    files = {f"{folder}/config.pbtxt": _config(tenant)}
    if tenant.model.generates:
        files[f"{folder}/1/model.json"] = _vllm(device, tenant)
        needs = (f"{folder}/1/model.json",)
        notes = (*model_note(tenant), *software_note(tenant, "Triton", runs=["vllm"]))
    else:
        needs = (f"{folder}/1/{FILES[_backend(tenant)]}",)
        notes = (
            f"{tenant.key}: put its model at {needs[0]}",
            *software_note(tenant, "Triton", runs=[_backend(tenant)]),
        )
    words = [
        "tritonserver",
        f"--model-repository={repository}",
        *(f"--{door}-address={HOST}" for door in DOORS),
        *(f"--{door}-port={port + number}" for number, door in enumerate(DOORS)),
    ]
    return ServerCommand(
        device=device,
        tenant=tenant,
        server="triton",
        words=tuple(words),
        ports=tuple(port + number for number in range(len(DOORS))),
        ready=f"/v2/models/{tenant.key}/ready",
        image=f"nvcr.io/nvidia/tritonserver:REPLACE-WITH-A-RELEASE-py3{'-vllm' if tenant.model.generates else ''}",
        files=files,
        needs=needs,
        notes=notes,
    )


def _config(tenant: ExportedTenant) -> str:
    """Inputs and outputs are left out: the backend completes them from the model. A tenant sees its GPU as 0."""
    generates = tenant.model.generates
    limit_us = (tenant.limit_ms or 0.0) * 1e3
    parts = [
        f'name: "{tenant.key}"',
        f'backend: "{_backend(tenant)}"',
        f"max_batch_size: {0 if generates else tenant.items_at_once}",
        "instance_group [",
        "  {",
        "    count: 1",
        "    kind: KIND_MODEL" if generates else "    kind: KIND_GPU\n    gpus: [ 0 ]",
        "  }",
        "]",
    ]
    if generates:
        parts += ["model_transaction_policy { decoupled: true }"]
    elif limit_us:
        fills = tenant.items_at_once > 1 and tenant.together is None
        parts += [
            "dynamic_batching {",
            *([f"  preferred_batch_size: [ {tenant.items_at_once} ]"] if fills else []),
            f"  max_queue_delay_microseconds: {int(GATHERING * limit_us) if fills else 0}",
            "  default_queue_policy {",
            "    timeout_action: REJECT",
            f"    default_timeout_microseconds: {int(QUEUED * limit_us)}",
            "  }",
            "}",
        ]
    elif tenant.items_at_once > 1:
        parts += [f"dynamic_batching {{ preferred_batch_size: [ {tenant.items_at_once} ] }}"]
    return "\n".join(parts) + "\n"


def _backend(tenant: ExportedTenant) -> str:
    if tenant.model.generates:
        return "vllm"
    return "tensorrt" if tenant.software == "tensorrt" else "onnxruntime"


def _vllm(device: ExportedDevice, tenant: ExportedTenant) -> str:
    model = tenant.model
    settings: dict[str, Any] = {
        "model": model.source,
        "gpu_memory_utilization": memory_fraction(device, tenant),
        "max_num_seqs": tenant.items_at_once,
        "tensor_parallel_size": device.gpus,
    }
    if (tokens := step_tokens(device, tenant)) is not None:
        settings["max_num_batched_tokens"] = tokens
    if model.longest is not None:
        settings["max_model_len"] = model.longest
    if model.dtype in DTYPES:
        settings["dtype"] = model.dtype
    return json_text(settings)
