"""The input of every export: devices and tenants with keys that are safe in files, shells, units and manifests.

This is the only file of the exports that knows the shape of a plan. Names come from people: a target writes a tenant's
key wherever it can, and a name only through `quoting` or a YAML or JSON writer.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cotenant.errors import CotenantError, StudyError
from cotenant.planning.mixes.serving_plan import PlannedDevice, SeatedTenant, ServingPlan, document_of
from cotenant.tenancy.plan_document import PlanDocument

LONGEST_KEY = 40
LONGEST_NAME = 300
"""More than a path to weights has; beyond it a name is an attack or a mistake."""
_PROFILE = re.compile(r"[0-9]+g\.[0-9]+gb(\+[a-z]+(\.[a-z]+)*)?")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,30}")


@dataclass(frozen=True, slots=True)
class Model:
    """A tenant's model."""

    workload: str
    generates: bool = False
    seq: int | None = None
    tokens: int | None = None
    dtype: str | None = None
    weights: str | None = None
    """A hub id or a directory that the tenant names."""
    hub_id: str | None = None
    """Where the catalogue's model was published."""
    runs: Mapping[str, Any] | None = None
    """The tenant's complete entry in the tenants file."""

    @property
    def source(self) -> str:
        """The name or path for a server to load; `plan.sh` refuses to start with an unreplaced placeholder."""
        return self.weights or self.hub_id or f"REPLACE-WITH-THE-HUB-ID-OF/{slug(self.workload)}"

    @property
    def longest(self) -> int | None:
        """Tokens of a prompt and its answer."""
        return None if self.seq is None else self.seq + (self.tokens or 0)


Models = Mapping[str, Model]


@dataclass(frozen=True, slots=True)
class ExportedTenant:
    """A tenant or replica as a target writes it."""

    key: str
    """Unique in the export: a-z, 0-9 and `-`, at most 40 characters."""
    name: str
    """As people wrote it."""
    model: Model
    at_once: int
    together: int | None
    """Requests that usually run together; None if every batch fills up."""
    software: str
    priority: int
    memory_bytes: int
    percentage: int | None
    """Of the SMs under MPS."""
    profile: str | None
    """Of its MIG instance."""
    isolated: bool
    limit_ms: float | None
    """Of its tightest objective."""

    @property
    def items_at_once(self) -> int:
        """Items of all requests that are executed together: what other servers count as a batch."""
        return self.at_once * int((self.model.runs or {}).get("batch", 1))

    @property
    def workload_key(self) -> str:
        """The workload's name, in the letters of a key."""
        return slug(self.model.workload)


@dataclass(frozen=True, slots=True)
class ExportedDevice:
    """A device as a target writes it."""

    number: int
    name: str
    kind: str
    title: str
    sharing: str
    index: int
    """Of its first GPU in the plan; a device that spans several GPUs counts each."""
    gpus: int
    tenants: tuple[ExportedTenant, ...]
    memory_bytes: int
    """Of a single GPU."""
    clock_mhz: int | None
    power_limit_w: int | None

    @property
    def percentages(self) -> list[int]:
        """MPS percentages of the tenants that are limited; empty if none is."""
        return [tenant.percentage for tenant in self.tenants if tenant.percentage is not None]

    def memory_share(self, tenant: ExportedTenant) -> float:
        """The plan's memory for the tenant as a fraction of a GPU's."""
        return min(tenant.memory_bytes / self.memory_bytes, 1.0)


@dataclass(frozen=True, slots=True)
class ExportedPlan:
    """A plan as targets write it."""

    devices: tuple[ExportedDevice, ...]
    document: Callable[[], PlanDocument]
    """The plan for its file."""
    folder: str
    """Where it is exported to, for tools that want whole paths."""


@dataclass(frozen=True, slots=True)
class ExportedFolder:
    """What a target writes."""

    files: Mapping[str, str]
    """By their path below the folder."""
    notes: tuple[str, ...] = ()
    """What the target can't express, and what people have to provide."""
    scripts: tuple[str, ...] = ()
    """What its `plan.sh` is made of."""

    def with_files(self, more: Mapping[str, str]) -> "ExportedFolder":
        """The same folder with further files."""
        return replace(self, files={**self.files, **more})


class CannotExpress(CotenantError):
    """The target can't express a part of the plan."""

    def __init__(self, target: str, what: str, instead: str) -> None:
        super().__init__(f"{target} can't express {what}", hint=f"export it with --for {instead}")


def exported(plan: ServingPlan, models: Models, folder: str) -> ExportedPlan:
    """A plan with its names checked and keys for its tenants.

    Args:
        plan: The plan.
        models: By tenant.
        folder: The whole path that it is exported to.

    Raises:
        StudyError: A name or value can't be exported.
    """
    seats = [tenant for device in plan.devices for tenant in device.tenants]
    for model in models.values():
        for text in (model.workload, model.weights, model.hub_id, model.dtype):
            if text is not None and _checked("a model's name", text).startswith("-"):
                raise _refused("a model's name", text)  # a server would read it as an option
    keys = iter(distinct([_checked("a tenant's name", tenant.name) for tenant in seats]))
    devices: list[ExportedDevice] = []
    before = 0
    for number, device in enumerate(plan.devices):
        tenants = tuple(_tenant(device, tenant, next(keys), models[tenant.tenant]) for tenant in device.tenants)
        devices.append(_device(device, number, before, tenants))
        before += device.devices
    runs = {name: model.runs for name, model in models.items() if model.runs is not None}
    return ExportedPlan(tuple(devices), lambda: document_of(plan, runs), folder)


def slug(name: str) -> str:
    """The name in letters that are valid in files, shells, units and Kubernetes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return "-".join(re.findall(r"[a-z0-9]+", plain))[:LONGEST_KEY].strip("-") or "unnamed"


def distinct(names: Sequence[str]) -> list[str]:
    """A key for each name, in order. A name that is a key already keeps it, whoever else would get it."""
    keep = {name for name in names if slug(name) == name}
    taken: set[str] = set()
    keys = []
    for name in names:
        key, number = slug(name), 1
        while key in taken or (key in keep and key != name):
            number += 1
            key = f"{slug(name)[: LONGEST_KEY - 5].rstrip('-')}-{number}"
        taken.add(key)
        keys.append(key)
    return keys


def _device(device: PlannedDevice, number: int, index: int, tenants: tuple[ExportedTenant, ...]) -> ExportedDevice:
    if not _WORD.fullmatch(device.sharing):
        raise _refused("a way to share", device.sharing)
    clock = _positive("a clock", device.clock_mhz)
    power = _positive("a power limit", device.power_limit_w)
    return ExportedDevice(
        number=number,
        name=_checked("a device's name", device.name),
        kind=_checked("a device's kind", device.kind),
        title=_checked("a device's title", device.title),
        sharing=device.sharing,
        index=index,
        gpus=int(device.devices),
        tenants=tenants,
        memory_bytes=device.memory_bytes,
        clock_mhz=None if clock is None else round(clock),
        power_limit_w=None if power is None else round(power),
    )


def _tenant(device: PlannedDevice, tenant: SeatedTenant, key: str, model: Model) -> ExportedTenant:
    percentage, profile = None, None
    if isinstance(tenant.share, str):
        profile = tenant.share
    elif tenant.share is not None and device.sharing == "mps":
        percentage = max(1, round(_positive("a share", tenant.share) or 0))
    if (device.sharing == "mig") != (profile is not None):
        raise _refused(f"a share of {device.sharing}", str(tenant.share))
    if profile is not None and not _PROFILE.fullmatch(profile):
        raise _refused("a MIG profile", profile)
    return ExportedTenant(
        key=key,
        name=tenant.name,
        model=model,
        at_once=int(tenant.at_once),
        together=tenant.together,
        software=_checked("a software", tenant.software),
        priority=int(tenant.priority),
        memory_bytes=int(tenant.memory_bytes),
        percentage=percentage,
        profile=profile,
        isolated=tenant.isolated,
        limit_ms=min((kept.limit_ms for kept in tenant.kept), default=None),
    )


def _checked(what: str, text: str) -> str:
    """Any printable single-line text passes; targets quote it."""
    if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > LONGEST_NAME:
        raise _refused(what, text)
    return text


def _positive(what: str, value: object) -> float | None:
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type,operator] # checked before
        raise _refused(what, value)
    return float(value)  # type: ignore[arg-type] # checked above


def _refused(what: str, value: object) -> StudyError:
    written = repr(value)
    shown = written if len(written) <= 60 else f"{written[:57]}..."
    return StudyError(
        f"{shown} can't be exported as {what}",
        hint=f"names are one line of printable text, at most {LONGEST_NAME} characters; correct the plan",
    )
