"""Commands that start tenants in servers of others, in the order in which they start."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.planning.exports.model import CannotExpress, ExportedDevice, ExportedPlan, ExportedTenant
from cotenant.prediction.engines import ENGINES

FIRST_PORT = 8000
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """A server for a tenant. Its paths are relative to the export's folder, where it is started."""

    device: ExportedDevice
    tenant: ExportedTenant
    server: str
    words: tuple[str, ...]
    ports: tuple[int, ...]
    """The first answers HTTP."""
    ready: str
    """Path that answers 200 once the model is loaded."""
    image: str
    """Container image with the server."""
    files: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Files that people have to provide."""
    notes: tuple[str, ...] = ()


MakeCommand = Callable[[ExportedDevice, ExportedTenant, int], ServerCommand | None]
"""The command, with ports from the given number up; None for a tenant that the server can't run."""


def commands_for(plan: ExportedPlan, servers: Mapping[str, MakeCommand], names: Sequence[str]) -> list[ServerCommand]:
    """A command per tenant: of the named servers, the first that can run it.

    Raises:
        CannotExpress: None of them can.
    """
    commands: list[ServerCommand] = []
    port = FIRST_PORT
    for device in plan.devices:
        for tenant in device.tenants:
            made = (servers[name](device, tenant, port) for name in names)
            command = next((candidate for candidate in made if candidate is not None), None)
            if command is None:
                what = f"{tenant.name}, which doesn't generate"
                raise CannotExpress(" and ".join(names), what, ",".join([*names, "triton"]))
            commands.append(command)
            port = command.ports[-1] + 1
    return commands


def software_note(tenant: ExportedTenant, server: str, *, runs: Sequence[str]) -> tuple[str, ...]:
    """A note if the plan was made for other software than the server runs."""
    if tenant.software in runs:
        return ()
    differs = f"planned in {tenant.software}, exported to {server}, which runs it in {runs[0]}"
    return (f"{tenant.key}: {differs}: times and memory aren't the plan's; plan with software: {runs[0]}",)


def model_note(tenant: ExportedTenant) -> tuple[str, ...]:
    """A note if the tenant doesn't say which weights it serves."""
    if tenant.model.weights is not None:
        return ()
    if tenant.model.hub_id is not None:
        return (f"{tenant.key}: serves {tenant.model.hub_id}, the published model; change it if you mean another",)
    return (f"{tenant.key}: write the hub id or the folder of its model in place of {tenant.model.source}",)


# --- vLLM: a server for a tenant that generates

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
    if (tokens := step_tokens(device, tenant)) is not None:
        words += ["--max-num-batched-tokens", str(tokens)]
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


def step_tokens(device: ExportedDevice, tenant: ExportedTenant) -> int | None:
    """Tokens of a step as planned, which vLLM would choose by the memory that it sees; None unless planned in vLLM."""
    engine = ENGINES.get(tenant.software)
    return None if engine is None else engine.limits(device.kind, device.memory_bytes / 2**30)[1]


def memory_fraction(device: ExportedDevice, tenant: ExportedTenant) -> float:
    """The plan's memory as a fraction of what vLLM sees, rounded up to a thousandth."""
    if device.sharing in {"alone", "mig"}:
        return WHOLE
    return max(math.ceil(device.memory_share(tenant) * 1000) / 1000, LEAST_MEMORY)
