"""vLLM: a server for a tenant that generates."""

import math

from cotenant.planning.exports.model import ExportedDevice, ExportedTenant
from cotenant.planning.exports.servers import HOST, ServerCommand, model_note, software_note

DTYPES = ("float32", "float16", "bfloat16")
LEAST_MEMORY = 0.02
WHOLE = 0.9
"""vLLM's own default, for a tenant that has the GPU or a MIG instance to itself."""


def command(device: ExportedDevice, tenant: ExportedTenant, port: int) -> ServerCommand | None:
    """`vllm serve` with the plan's memory, sequences and length."""
    if not tenant.model.generates:
        return None
    model = tenant.model
    words = [
        "vllm", "serve", model.source,
        "--served-model-name", tenant.key,
        "--host", HOST,
        "--port", str(port),
        "--gpu-memory-utilization", f"{memory_fraction(device, tenant):g}",
        "--max-num-seqs", str(tenant.items_at_once),
    ]  # fmt: skip
    if model.longest is not None:
        words += ["--max-model-len", str(model.longest)]
    if model.dtype in DTYPES:
        words += ["--dtype", str(model.dtype)]
    if device.gpus > 1:
        words += ["--tensor-parallel-size", str(device.gpus)]
    return ServerCommand(
        device=device,
        tenant=tenant,
        server="vllm",
        words=tuple(words),
        ports=(port,),
        ready="/health",
        image="vllm/vllm-openai:latest",
        notes=(*model_note(tenant), *software_note(tenant, "vLLM", runs=["vllm"])),
    )


def memory_fraction(device: ExportedDevice, tenant: ExportedTenant) -> float:
    """The plan's memory as a fraction of what vLLM sees, rounded up to a thousandth."""
    if device.sharing in {"alone", "mig"}:
        return WHOLE
    return max(math.ceil(device.memory_share(tenant) * 1000) / 1000, LEAST_MEMORY)
