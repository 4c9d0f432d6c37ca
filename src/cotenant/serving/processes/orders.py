"""The configuration of a worker process: plain data, sent once at its start."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cotenant.tenancy.values import Frozen
from cotenant.workloads.protocol import WorkloadSpec

BETWEEN = "+"
"""Separates a worker's arguments from those of the next worker in the same process."""


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
    seat: Mapping[str, Any] | None = None
    """Its part of the device, as the sharing lays it out; None: the device as it is, or ``cores`` of it."""
    chunk_s: float = 5e-3
    budget_s: float = 1.0
    tenants: tuple[TenantOrder, ...]
