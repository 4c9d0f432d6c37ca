"""The configuration of a worker process: plain data, sent once at its start."""

from pydantic import Field

from cotenant.tenancy.nouns import Frozen
from cotenant.workloads.protocol import WorkloadSpec


class TenantOrder(Frozen):
    """One tenant of a worker."""

    name: str
    workload: WorkloadSpec
    largest: int = Field(default=1, ge=1)
    """Maximum requests that run together."""


class WorkerOrder(Frozen):
    """A complete worker."""

    device: str
    cores: tuple[int, ...] | None = None
    threads: int | None = None
    chunk_s: float = 5e-3
    budget_s: float = 1.0
    tenants: tuple[TenantOrder, ...]
