"""The basic terms of a measurement: tenant, sharing, trial, block. Immutable data, JSON in and out."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cotenant.tenancy.load import Load
from cotenant.tenancy.records import APART as APART  # noqa: PLC0414 - re-exported
from cotenant.workloads.protocol import WorkloadSpec

ALONE = "alone"
"""The sharing of solo trials: one tenant has the whole device."""


class Frozen(BaseModel):
    """Data that never changes after validation."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Slo(Frozen):
    """A tenant's objective: for each metric, this quantile of requests stays within this time."""

    latency_ms: float | None = Field(default=None, gt=0)
    """From when a request was due to when it was done."""
    quantile: float = Field(default=0.99, gt=0, lt=1)
    """Of the latency."""
    ttft_ms: float | None = Field(default=None, gt=0)
    """From when a request was due to its first token."""
    ttft_quantile: float = Field(default=0.99, gt=0, lt=1)
    tpot_ms: float | None = Field(default=None, gt=0)
    """Mean time per output token of a request, after its first."""
    tpot_quantile: float = Field(default=0.99, gt=0, lt=1)

    def columns(self) -> dict[str, float | None]:
        """Its columns of the tenants table."""
        return {
            "slo_ms": self.latency_ms,
            "slo_quantile": self.quantile if self.latency_ms else None,
            "ttft_slo_ms": self.ttft_ms,
            "ttft_slo_quantile": self.ttft_quantile if self.ttft_ms else None,
            "tpot_slo_ms": self.tpot_ms,
            "tpot_slo_quantile": self.tpot_quantile if self.tpot_ms else None,
        }


class Sharing(Frozen):
    """How tenants share the device; ``shares`` in the tenants' order where the mode splits the device."""

    mode: str
    shares: tuple[float | str, ...] = ()

    def __str__(self) -> str:
        """The form used in tables and records: `mps[60, 40]`."""
        return (
            f"{self.mode}[{', '.join(f'{s:g}' if isinstance(s, float) else s for s in self.shares)}]"
            if (self.shares)
            else self.mode
        )


class Tenant(Frozen):
    """A workload with its load and objective."""

    name: str
    """Unique within the mix."""
    of: str
    """The study's tenant that this is (a copy of)."""
    workload: WorkloadSpec
    load: Load
    slo: Slo | None = None
    priority: int = 0
    share: float | str | None = None
    member: str | None = None
    """Name of the group member it runs on; None if the device is not a group."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads per operator; None: set by the sharing."""
    synchronised: bool = False
    """True: wait for the device after each stage, so that stages add up. False: as in production."""


class Trial(Frozen):
    """One mix, one device, one sharing, one setting of the controls, one time window."""

    number: int
    block: int
    order: int
    mix: str
    tenants: tuple[Tenant, ...] = Field(min_length=1)
    sharing: Sharing
    settings: Mapping[str, Any] = Field(default_factory=dict)
    load: str
    """Label of the trial's load level; trials are compared at equal load and settings."""
    window_s: float = Field(gt=0)
    lead_s: float = Field(ge=0)
    """All tenants run together for this long before the window opens."""
    seed: int

    @property
    def solo(self) -> bool:
        """One tenant, alone on the whole device (of a group: on its member): the baseline of the block."""
        return self.sharing.mode == ALONE


class Block(Frozen):
    """Trials to be compared with each other, in their (random) order of execution."""

    number: int
    trials: tuple[Trial, ...]
