"""vLLM: one command line per generating tenant."""

import shlex

from cotenant.planning.exports.model import CannotExpress, Models, gpu_index, memory_share, slug
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan

FIRST_PORT = 8000
LEAST_MEMORY = 0.02


def export(plan: ServingPlan, models: Models) -> dict[str, str]:
    """`vllm.sh`, which starts a server for each tenant."""
    others = [one.tenant for device in plan.devices for one in device.tenants if not models[one.tenant].generates]
    if others:
        raise CannotExpress("vllm", f"{others[0]}, which doesn't generate", "triton")
    lines = [
        "#!/usr/bin/env bash",
        "# One vLLM server per tenant; run `plan.sh up` first where GPUs are shared.",
        "set -eu",
    ]
    port = FIRST_PORT
    for device in plan.devices:
        for tenant in device.tenants:
            lines += [f"# {tenant.name} on {device.name}", _command(plan, device, tenant, models, port) + " &"]
            port += 1
    return {"vllm.sh": "\n".join([*lines, "wait"]) + "\n"}


def _command(plan: ServingPlan, device: PlannedDevice, tenant: SeatedTenant, models: Models, port: int) -> str:
    model = models[tenant.tenant]
    index = gpu_index(plan, device)
    before = []
    if device.sharing == "mig":
        before = [f'CUDA_VISIBLE_DEVICES="${{{_variable(tenant)}:?UUID of a {tenant.share} instance}}"']
    else:
        before = [f"CUDA_VISIBLE_DEVICES={','.join(str(index + number) for number in range(device.devices))}"]
    if isinstance(tenant.share, float):
        before += [f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={tenant.share:.0f}"]
    share = 0.9 if device.sharing in {"alone", "mig"} else max(memory_share(device, tenant), LEAST_MEMORY)
    options = [
        "--served-model-name", slug(tenant.tenant),
        "--port", str(port),
        "--gpu-memory-utilization", f"{share:.2f}",
        "--max-num-seqs", str(tenant.batch),
    ]  # fmt: skip
    if model.seq is not None:
        options += ["--max-model-len", str(model.seq + (model.tokens or 0))]
    if model.dtype:
        options += ["--dtype", model.dtype]
    if device.devices > 1:
        options += ["--tensor-parallel-size", str(device.devices)]
    return " ".join([*before, shlex.join(["vllm", "serve", model.source, *options])])


def _variable(tenant: SeatedTenant) -> str:
    return "MIG_" + slug(tenant.name).upper().replace("-", "_")
