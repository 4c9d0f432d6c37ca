"""What every export gets: the plan, and what each tenant runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.errors import CotenantError
from cotenant.planning.mixes.plan import PlannedDevice, SeatedTenant, ServingPlan


@dataclass(frozen=True, slots=True)
class Model:
    """What a tenant runs."""

    workload: str
    generates: bool = False
    seq: int | None = None
    tokens: int | None = None
    dtype: str | None = None
    weights: str | None = None
    """A hub id or a directory."""
    runs: Mapping[str, Any] | None = None
    """All of it, in the words of the tenants file."""

    @property
    def source(self) -> str:
        """What a server is told to load."""
        return self.weights or self.workload


Models = Mapping[str, Model]
Export = Callable[[ServingPlan, Models], dict[str, str]]
"""Files by their path below the export's folder."""


class CannotExpress(CotenantError):
    """The target has no words for a part of the plan."""

    def __init__(self, target: str, what: str, instead: str) -> None:
        super().__init__(f"{target} can't express {what}", hint=f"export it with --for {instead}")


def slug(name: str) -> str:
    """A name that files, shells and Kubernetes take."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in plain.split("-") if part) or "device"


def gpu_index(plan: ServingPlan, device: PlannedDevice) -> int:
    """The number of a device among all of the plan, those that one tenant needs together counted apart."""
    before = 0
    for one in plan.devices:
        if one is device:
            return before
        before += one.devices
    raise ValueError(f"{device.name} is not in the plan")


def shares_of(device: PlannedDevice) -> list[float]:
    """Percentages of those that are held to one; empty: nobody is."""
    return [tenant.share for tenant in device.tenants if isinstance(tenant.share, float)]


def memory_share(device: PlannedDevice, tenant: SeatedTenant) -> float:
    """Of the memory that the tenant can see, what the plan gives it."""
    return min(tenant.memory_bytes / device.memory_bytes, 1.0)
