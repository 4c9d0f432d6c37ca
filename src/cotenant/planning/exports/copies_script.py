"""`plan.sh` that starts copies of a server as they were measured, in sequence, and stops them."""

from collections.abc import Sequence

from cotenant.analyse.copy_options import CopyCommand
from cotenant.planning.exports import machine
from cotenant.planning.exports.model import (
    ExportedDevice,
    ExportedFolder,
    ExportedPlan,
    ExportedTenant,
    Model,
    distinct,
)
from cotenant.planning.exports.servers import ServerCommand
from cotenant.tenancy.plan_document import PlanDocument


def export_copies(
    name: str, copies: Sequence[CopyCommand], *, sharing: str, gpu: int | None, memory_bytes: int = 0
) -> ExportedFolder:
    """The script.

    Args:
        name: Of the server.
        copies: In the order in which they start.
        sharing: The way to share: `alone`, `processes`, `mps` or `mig`; core blocks are part of the commands.
        gpu: Number of the GPU; None: a CPU.
        memory_bytes: Device memory of each copy; 0 if unknown.
    """
    keys = distinct([f"{name}-{number}" for number in range(1, len(copies) + 1)])
    tenants = tuple(
        ExportedTenant(
            key=key, name=key, model=Model(workload=name), at_once=1, together=None, software="eager", priority=0,
            memory_bytes=memory_bytes, percentage=copy.percentage, profile=copy.profile, isolated=False, limit_ms=None,
        )
        for key, copy in zip(keys, copies, strict=True)
    )  # fmt: skip
    device = ExportedDevice(
        number=0, name="device", kind="cpu" if gpu is None else "gpu", title="", sharing=sharing, index=gpu or 0,
        gpus=0 if gpu is None else 1, tenants=tenants, memory_bytes=1, clock_mhz=None, power_limit_w=None,
    )  # fmt: skip
    commands = [
        ServerCommand(
            device=device, tenant=tenant, server=name, words=_words(copy), ports=tuple(copy.ports), ready=copy.ready,
            image="",
        )
        for tenant, copy in zip(tenants, copies, strict=True)
    ]  # fmt: skip
    return machine.with_servers(ExportedPlan((device,), _no_plan, ""), commands)


def _words(copy: CopyCommand) -> tuple[str, ...]:
    settings = [f"{name}={value}" for name, value in copy.environment.items()]
    return (
        *(("env", *settings) if settings else ()),
        *(("taskset", "-c", copy.cores) if copy.cores else ()),
        *copy.words,
    )


def _no_plan() -> PlanDocument:
    raise NotImplementedError("copies have no plan file")
