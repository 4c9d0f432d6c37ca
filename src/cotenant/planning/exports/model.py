"""The input of every export: the plan, and what each tenant runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.errors import CotenantError
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan


@dataclass(frozen=True, slots=True)
class Model:
    """A tenant's model."""

    workload: str
    generates: bool = False
    seq: int | None = None
    tokens: int | None = None
    dtype: str | None = None
    weights: str | None = None
    """A hub id or a directory."""
    runs: Mapping[str, Any] | None = None
    """The tenant's complete entry in the tenants file."""

    @property
    def source(self) -> str:
        """The name or path for a server to load."""
        return self.weights or self.workload


Models = Mapping[str, Model]
Export = Callable[[ServingPlan, Models], dict[str, str]]
"""Files by their path below the export's folder."""


class CannotExpress(CotenantError):
    """The target can't express a part of the plan."""

    def __init__(self, target: str, what: str, instead: str) -> None:
        super().__init__(f"{target} can't express {what}", hint=f"export it with --for {instead}")


def slug(name: str) -> str:
    """A name valid in files, shells and Kubernetes."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in plain.split("-") if part) or "device"


def gpu_index(plan: ServingPlan, device: PlannedDevice) -> int:
    """Index of a device's first GPU in the plan; a device that spans several GPUs counts each."""
    before = 0
    for one in plan.devices:
        if one is device:
            return before
        before += one.devices
    raise ValueError(f"{device.name} is not in the plan")


def shares_of(device: PlannedDevice) -> list[float]:
    """MPS percentages of tenants that have one; empty if none has."""
    return [tenant.share for tenant in device.tenants if isinstance(tenant.share, float)]


def memory_share(device: PlannedDevice, tenant: SeatedTenant) -> float:
    """The plan's memory for the tenant as a fraction of what the tenant can see."""
    return min(tenant.memory_bytes / device.memory_bytes, 1.0)
