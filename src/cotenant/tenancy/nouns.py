"""The nouns of a measurement: tenant, sharing, trial, block. Pure data, frozen, JSON in and out."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cotenant.tenancy.load import Load
from cotenant.tenancy.records import APART as APART  # noqa: PLC0414 - re-exported
from cotenant.workloads.protocol import WorkloadSpec

ALONE = "alone"
"""The sharing of solo trials: one tenant has the whole device."""


class Frozen(BaseModel):
    """Data that never changes after it was checked."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Slo(Frozen):
    """A latency objective: this quantile of requests is done within this time."""

    latency_ms: float = Field(gt=0)
    quantile: float = Field(default=0.99, gt=0, lt=1)


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
    """A workload with its load and what it is promised."""

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
    """Which member of a group of devices it runs on, by the member's name; None: the device is not a group."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads per operator; None: what the sharing gives it."""
    synchronised: bool = False
    """True: wait for the device after each stage, so that stages add up. False: as one would really run it."""


class Trial(Frozen):
    """One mix, one device, one sharing, one setting of the controls, one window of time."""

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
    """All tenants already run together for this long before the window opens."""
    seed: int

    @property
    def solo(self) -> bool:
        """One tenant, alone on the whole device (of a group: on its member): the baseline of the block."""
        return self.sharing.mode == ALONE


class Block(Frozen):
    """Trials to be compared with each other, in the (random) order in which they are carried out."""

    number: int
    trials: tuple[Trial, ...]
