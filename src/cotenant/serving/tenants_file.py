"""What is served: the tenants of a file or of a plan's device, with contracts, on one device."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from cotenant.errors import SchedulingError, StudyError
from cotenant.scheduling import Contract, Fairness, settle_shares
from cotenant.study.files import Problem, read_tenants_file
from cotenant.study.model import Study
from cotenant.tenancy.objective import Deadline, contract_of
from cotenant.tenancy.plan_document import PlanDevice, PlanSeat, PromisedTime, plan_in
from cotenant.tenancy.sharing import Sharing, SharingText
from cotenant.tenancy.tenant_entry import GROUP, TenantEntry
from cotenant.tenancy.values import Count, Frozen, Name, Text
from cotenant.tenancy.ways import SPLITTING_MODES, TURNS
from cotenant.text import amount
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers import is_server

# Lanes of tenants: those that take turns on the device, those with a part of it each, those of each backend.

DEVICE = "device"
SLEEPERS = "sleepers"
RISK = 0.1


@dataclass(frozen=True, slots=True)
class Lane:
    """Tenants whose requests are ordered against each other, and how many run at a time."""

    name: str
    tenants: tuple[str, ...]
    slots: int = 1
    own: bool = False
    """Served by our own workers."""


def lanes_of(file: "TenantsFile") -> tuple[Lane, ...]:
    """The lanes of a file; shares are relative to a lane. Tenants with a part of the device each run in parallel."""
    names: dict[str, list[str]] = {}
    slots: dict[str, int] = {}
    own: set[str] = set()
    for name, tenant in file.tenants.items():
        backend = tenant.backend
        if backend is None:
            home = f"{DEVICE}/{name}" if file.divided else DEVICE
            own.add(home)
        else:
            home = SLEEPERS if backend.sleep else backend.address.name
        names.setdefault(home, []).append(name)
        slots[home] = max(slots.get(home, 1), 1 if backend is None else backend.parallel)
    return tuple(Lane(home, tuple(members), slots[home], home in own) for home, members in names.items())


class ServedTenant(TenantEntry):
    """A tenant with an objective, and what a plan says about it."""

    slowdown: float = Field(default=1.0, ge=1)
    """From a plan: how much longer a request takes on its part of a simulated device, beside the other tenants, than
    alone on the whole device."""
    promised: Mapping[str, PromisedTime] = Field(default_factory=dict)
    """From a plan: the predicted range of each objective, by its label."""

    @property
    def deadline(self) -> Deadline:
        """When its requests are due."""
        return Deadline.of(self.slo)

    def spec(self, together: int = 1) -> WorkloadSpec:
        """The model and the size of a request."""
        spec = super().spec(together)
        return spec.model_copy(update={"software": None}) if spec.software == "eager" else spec

    def contract(self, name: str) -> Contract:
        """Its contract."""
        return contract_of(name, self.slo, share=self.share, hard=self.hard, best_effort=self.best_effort)

    def scheduled_contract(self, name: str, tokens: int) -> Contract:
        """The contract for the scheduler: a backend's request is one chunk, so it includes the time of its tokens."""
        contract = self.contract(name)
        if self.backend is None or not contract.per_step_s:
            return contract
        return replace(contract, objective_s=contract.within_s(tokens - 1), per_step_s=0.0)


class TenantsFile(Frozen):
    """All tenants of a device."""

    tenants: dict[Name, ServedTenant] = Field(min_length=1)
    device: Text = "cpu"
    fairness: str = "shares"
    sharing: SharingText | None = None
    """Gives each tenant a part of the device, in the order of the tenants; None: requests take turns on all of it."""
    cache_memory: int | None = None
    threads: Count | None = None
    settings: dict[str, float] = Field(default_factory=dict)
    """From a plan: the clock and the power limit of the device while it serves."""
    risk: float = RISK
    """From a plan: how often a service time may be beyond its predicted range."""
    jobs: dict[Name, PlanSeat] = Field(default_factory=dict)
    """From a plan: what runs beside the server on the device, started by others."""
    admin_key: str | None = None

    @property
    def divided(self) -> bool:
        """Whether each tenant has a part of the device."""
        return self.sharing is not None and self.sharing.mode not in TURNS

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if not self.divided:
            return self
        own = {name: tenant for name, tenant in self.tenants.items() if tenant.backend is None}
        assert self.sharing is not None
        if self.sharing.shares and len(self.sharing.shares) != len(own):
            raise ValueError(f"sharing: {self.sharing} names {len(self.sharing.shares)} shares for {len(own)} tenants")
        for name, tenant in own.items():
            if tenant.group != GROUP:
                raise ValueError(f"tenants.{name}: under sharing: {self.sharing.mode} each tenant has its own worker")
        return self

    @model_validator(mode="after")
    def _shares_add_up(self) -> Self:
        contracts = {contract.tenant: contract for contract in self.contracts()}
        try:
            for lane in lanes_of(self):
                settle_shares(contracts[name] for name in lane.tenants)
        except SchedulingError as error:
            raise ValueError(f"{error.message} {error.hint or ''}".strip()) from None
        return self

    def contracts(self) -> tuple[Contract, ...]:
        """The contract of each tenant."""
        return tuple(tenant.contract(name) for name, tenant in self.tenants.items())

    def cache_bytes(self, lane: Lane) -> int | None:
        """Memory for the caches of a lane's decoders: where each has a part of the device, all have equally much."""
        if self.cache_memory is None or not lane.own:
            return None
        lanes = [lane for lane in lanes_of(self) if lane.own]
        decoding = [lane for lane in lanes if any(self.tenants[name].mode == "generate" for name in lane.tenants)]
        return self.cache_memory // max(1, len(decoding))

    def rule(self) -> Fairness:
        """The rule for all tenants."""
        return Fairness(self.fairness)


def read_tenants(path: Path, device: str | None = None) -> TenantsFile:
    """Read and check a tenants file, or one device of a plan.

    Args:
        path: The file.
        device: Device to serve on instead of the file's; for a plan, one of its devices.

    Raises:
        StudyError: Lists every problem with its line, key and what was expected.
    """
    plan = plan_in(path)
    if plan is not None:
        return _planned(plan.device(device, str(path)), str(path)).model_copy(update={"risk": plan.risk})
    study = read_tenants_file(path, lacking)
    file = _served(study)
    return file if device is None else file.model_copy(update={"device": device})


def planned_devices(path: Path) -> tuple[str, ...]:
    """Names of a plan's devices; none for a tenants file. Raises StudyError."""
    plan = plan_in(path)
    return () if plan is None else tuple(device.name for device in plan.devices)


def lacking(study: Study) -> Iterator[Problem]:
    """What serving needs and a file lacks."""
    served = {name: entry for name, entry in study.tenants.items() if entry.job is None}
    problems = [(("tenants", name, *key), text) for name, entry in served.items() for key, text in _lacking(entry)]
    yield from problems
    if not served:
        yield ("tenants",), f"{'has only jobs' if study.tenants else 'is empty'}; serve needs a tenant with requests"
    if problems or not served:
        return
    try:
        _served(study)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            yield ("tenants",), str(detail["msg"]).removeprefix("Value error, ")
    except ValueError as error:
        yield ("sharing",), str(error)


def _lacking(entry: TenantEntry) -> Iterator[tuple[tuple[str, ...], str]]:
    if not entry.slo:
        yield (), "serve needs an objective, such as slo: 50ms"
    else:
        try:
            Deadline.of(entry.slo)
        except ValueError as error:
            yield ("slo",), str(error)
    if entry.workload is not None and is_server(entry.workload):
        yield ("workload",), "to forward requests to a server, serve needs a backend instead: {openai: ADDRESS}"
    if not entry.has_tokens and any(objective.metric != "latency" for objective in entry.slo):
        yield (), "ttft and tpot are times of generated tokens: add mode: generate"
    if entry.train:
        yield ("train",), "a training step has no requests to serve; with `job` serve leaves the tenant out"
    if entry.mode == "generate" and entry.batch > 1:
        yield ("batch",), "a request to generate has one prompt when served; leave batch out"


def _served(study: Study) -> TenantsFile:
    """What a file says about serving; jobs are left out. Raises ValueError."""
    tenants = {
        name: ServedTenant.model_validate(dict(entry)) for name, entry in study.tenants.items() if entry.job is None
    }
    sharing = way_to_serve(study)
    if sharing is not None and sharing.mode in SPLITTING_MODES:
        own = [tenant.share for tenant in tenants.values() if tenant.backend is None]
        given = [share for share in own if share is not None]
        if given and len(given) < len(own) and not sharing.shares:
            raise ValueError(f"{sharing.mode} divides the device: give every tenant a share, or none")
        if given and not sharing.shares:
            sharing = Sharing(mode=sharing.mode, shares=tuple(given))
    if sharing is not None and sharing.mode not in TURNS:  # parts of the device, not of its time
        tenants = {name: tenant.model_copy(update={"share": None}) for name, tenant in tenants.items()}
    return TenantsFile(
        tenants=tenants,
        device=study.device,
        fairness=study.fairness,
        sharing=sharing,
        cache_memory=study.cache_memory,
        threads=study.threads,
        admin_key=study.admin_key,
    )


def way_to_serve(study: Study) -> Sharing | None:
    """The way to share that a file asks for; several are for `run` to measure, and requests then take turns."""
    if "sharing" not in study.model_fields_set or study.sharing == "all" or len(study.sharing) != 1:
        return None
    return study.sharing[0]


def _planned(device: PlanDevice, source: str) -> TenantsFile:
    """A device of a plan. Raises StudyError."""
    divided = device.sharing not in TURNS
    without = [name for name, seat in device.tenants.items() if seat.share is None]
    if divided and without and len(without) < len(device.tenants):
        raise StudyError(
            f"{source} gives {without[0]} no share of {device.name}, but gives the others one",
            hint="plan again, or give every tenant of the device a share, or none",
        )
    settings = {"clock_mhz": device.clock_mhz, "power_w": device.power_w}
    jobs = {name: seat for name, seat in device.tenants.items() if seat.rate_rps <= 0 and not seat.expected}
    shares = tuple(seat.share for name, seat in device.tenants.items() if name not in jobs and seat.share is not None)
    tenants = {}
    for name, seat in device.tenants.items():
        if name in jobs:
            continue
        if not seat.expected:
            raise StudyError(f"{source} has no objective for {name}", hint="give it an `slo` and plan again")
        own: dict[str, Any] = {"share": seat.share}
        if divided:  # each has a worker of its own
            own = {"priority": seat.priority, "slowdown": max(1.0, seat.slowdown), "group": GROUP}
        promised = {
            objective.label: seat.expected[label]
            for objective, label in zip(seat.objectives, seat.expected, strict=True)
        }
        tenants[name] = dict(seat.entry) | {"job": None, "promised": promised} | own
    if not tenants:
        raise StudyError(f"{source} has only jobs on {device.name}", hint="serve needs a tenant with requests")
    try:
        return TenantsFile.model_validate(
            {
                "device": device.name,
                "tenants": tenants,
                "sharing": Sharing(mode=device.sharing, shares=shares) if divided else None,
                "jobs": jobs,
                "settings": {key: value for key, value in settings.items() if value is not None},
            }
        )
    except ValidationError as error:
        lines = tuple(str(problem["msg"]).removeprefix("Value error, ") for problem in error.errors(include_url=False))
        raise StudyError(f"{source} has {amount(len(lines), 'problem')}", problems=lines, hint="plan again") from None
