"""Triton: a model repository per tenant, as a plan gives every tenant its own process."""

from cotenant.planning.exports.model import Models, gpu_index, slug
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan

QUEUED = 0.5
"""A request that has waited for this fraction of its limit can no longer finish in time."""
GATHERING = 0.1
"""Fraction of the limit that a batch may wait to fill, if the plan assumes that batches do."""


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`TENANT/TENANT/config.pbtxt`, and `serve.sh`, which starts a server for each tenant."""
    files, lines = {}, ["#!/usr/bin/env bash", "# One Triton server per tenant; see `plan.sh env TENANT`.", "set -eu"]
    seats = [(device, tenant) for device in plan.devices for tenant in device.tenants]
    for number, (device, tenant) in enumerate(seats):
        name = slug(tenant.name)
        files[f"{name}/{name}/config.pbtxt"] = _config(plan, device, tenant, models)
        if models[tenant.tenant].generates:
            files[f"{name}/{name}/1/model.json"] = _vllm(device, tenant, models)
        ports = f"--http-port {8000 + 3 * number} --grpc-port {8001 + 3 * number} --metrics-port {8002 + 3 * number}"
        lines.append(f"tritonserver --model-repository {name} --rate-limit execution_count {ports} &")
    return {**files, "serve.sh": "\n".join([*lines, "wait"]) + "\n"}


def _config(plan: ServingPlan, device: PlannedDevice, tenant: SeatedTenant, models: Models) -> str:
    """Inputs and outputs are left out: the backend completes them from the model."""
    generates = models[tenant.tenant].generates
    index = 0 if device.sharing == "mig" else gpu_index(plan, device)  # the MIG instance is the only visible device
    limit_us = min((kept.limit_ms for kept in tenant.kept), default=0.0) * 1e3
    # Reversed: Triton gives an instance of priority 2 half the turns of one of priority 1.
    priority = 1 + max(one.priority for one in device.tenants) - tenant.priority
    parts = [
        f'name: "{slug(tenant.name)}"',
        f'backend: "{"vllm" if generates else "onnxruntime"}"',
        f"max_batch_size: {0 if generates else tenant.batch}",
        "instance_group [",
        "  {",
        "    count: 1",
        "    kind: KIND_MODEL" if generates else f"    kind: KIND_GPU\n    gpus: [ {index} ]",
        *([] if generates else [f"    rate_limiter {{ priority: {priority} }}"]),
        "  }",
        "]",
    ]
    if generates:
        parts += ["model_transaction_policy { decoupled: true }"]
    elif limit_us:
        fills = tenant.batch > 1 and tenant.together is None
        parts += [
            "dynamic_batching {",
            *([f"  preferred_batch_size: [ {tenant.batch} ]"] if fills else []),
            f"  max_queue_delay_microseconds: {int(GATHERING * limit_us) if fills else 0}",
            "  default_queue_policy {",
            "    timeout_action: REJECT",
            f"    default_timeout_microseconds: {int(QUEUED * limit_us)}",
            "  }",
            "}",
        ]
    elif tenant.batch > 1:
        parts += [f"dynamic_batching {{ preferred_batch_size: [ {tenant.batch} ] }}"]
    return "\n".join(parts) + "\n"


def _vllm(device: PlannedDevice, tenant: SeatedTenant, models: Models) -> str:
    import json

    share = (
        0.9 if device.sharing in {"alone", "mig"} else round(max(tenant.memory_bytes / device.memory_bytes, 0.02), 2)
    )
    settings = {
        "model": models[tenant.tenant].source,
        "gpu_memory_utilization": share,
        "max_num_seqs": tenant.batch,
        "tensor_parallel_size": device.devices,
    }
    return json.dumps(settings, indent=2) + "\n"
