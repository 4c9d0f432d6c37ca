"""The basic terms of a measurement: tenant, sharing, trial, block. Immutable data, JSON in and out."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cotenant.tenancy.load import Load
from cotenant.tenancy.objective import ObjectivesText
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.values import Frozen
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import WorkloadSpec


class Tenant(Frozen):
    """A workload with its load and objective."""

    name: str
    """Unique within the mix."""
    of: str
    """The study's tenant that this is (a copy of)."""
    workload: WorkloadSpec
    load: Load
    slo: ObjectivesText = ()
    priority: int = 0
    share: float | str | None = None
    at_once: int = Field(default=1, ge=1)
    """Most requests that a server executes together."""
    hard: bool = True
    """A server refuses its requests that can't be in time."""
    best_effort: bool = False
    """A server gives it no share of the device's time."""
    member: str | None = None
    """Name of the group member it runs on; None if the device is not a group."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads per operator; None: set by the sharing."""
    own_cores: bool = False
    """On a GPU: its process gets a block of the host's cores, as large as that of every other tenant."""
    synchronised: bool = False
    """True: wait for the device after each stage, so that stages add up. False: as in production."""


class Trial(Frozen):
    """A mix on a device under a sharing, with a setting of the controls, in a time window."""

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
        """A tenant, alone on the whole device (of a group: on its member): the baseline of the block."""
        return self.sharing.mode == ALONE


class Block(Frozen):
    """Trials to be compared with each other, in their (random) order of execution."""

    number: int
    trials: tuple[Trial, ...]
