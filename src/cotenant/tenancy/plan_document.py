"""A plan: which tenants go on which device, by which sharing, and what is promised of each. Read and written here."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, ValidationError, model_validator

from cotenant import opening
from cotenant.errors import StudyError
from cotenant.plain_yaml import NotYaml
from cotenant.tenancy.document import Tree, read, write
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.jobs import JobEntry
from cotenant.tenancy.load import Load
from cotenant.tenancy.objective import Objective, Objectives, objective_for, read_objective
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.tenant_entry import TenantEntry
from cotenant.tenancy.validation_errors import problems_of
from cotenant.tenancy.values import Bytes, Count, Frozen, Name, Priority, SoftwareName, Switch, Text, one_of
from cotenant.tenancy.ways import ALONE, MODES, SCHEDULED, TURNS
from cotenant.tenancy.words import expected, is_number
from cotenant.text import amount
from cotenant.workloads.protocol import in_steps

VERSION: Literal[2] = 2
"""The first version counted items where this version counts requests."""
LARGEST = 4 * 1024 * 1024
REPLAN = "write it anew: cotenant plan tenants.yaml --devices ... --out plan.yaml"


def _number(low: float, *, above: bool = False) -> Any:
    def number(value: Any) -> float:
        if not is_number(value) or value < low or (above and value == low):
            raise expected(f"a number {'above' if above else 'of at least'} {low:g}", value)
        return float(value)

    return PlainValidator(number)


def _filled(what: str) -> Any:
    def filled(value: Any) -> Any:
        if not value:
            raise ValueError(f"expected at least one {what}")
        return value

    return filled


def _share(value: Any) -> float | str | None:
    if value is None or (isinstance(value, str) and value.strip() and value.isprintable()):
        return value
    if not is_number(value) or not 0 < value <= 100:
        raise expected("percent of the device or a MIG profile", value)
    return float(value)


NotNegative = Annotated[float, _number(0)]
Positive = Annotated[float, _number(0, above=True)]


class PromisedTime(Frozen):
    """An objective's limit and its prediction."""

    limit_ms: Positive
    lower_ms: NotNegative | None = None
    estimate_ms: NotNegative | None = None
    upper_ms: NotNegative | None = None

    @property
    def range_ms(self) -> Interval | None:
        """The prediction; where a plan gives only an end, that is the estimate. None in a plan without any."""
        known = [end for end in (self.estimate_ms, self.upper_ms, self.lower_ms) if end is not None]
        return Interval(known[0], self.lower_ms, self.upper_ms) if known else None


class PlanSeat(Frozen):
    """A tenant or replica on a device."""

    tenant: Name | None = None
    """Of the tenants file; None: of the seat's name."""
    rate_rps: NotNegative = 0.0
    """Requests per second; 0 for a job."""
    at_once: Count = 1
    together: Count | None = None
    """Requests that usually run together; None: every batch fills up."""
    runs: TenantEntry
    """What it executes: the keys of the tenants file that say so."""
    cv: Positive = 1.0
    software: SoftwareName = "eager"
    share: Annotated[float | str | None, PlainValidator(_share)] = None
    priority: Priority = 0
    isolated: Switch = False
    memory_bytes: Bytes | None = None
    """None: unknown, as in a plan written by hand."""
    slowdown: Positive = 1.0
    expected: Mapping[str, PromisedTime] = Field(default_factory=dict)
    not_validated: Text | None = None

    @model_validator(mode="after")
    def _labels(self) -> Self:
        for label in self.expected:
            read_objective(label, "1ms")
        return self

    @property
    def objectives(self) -> Objectives:
        """What is promised."""
        limits = ((read_objective(label, "1ms"), promised) for label, promised in self.expected.items())
        return tuple(
            Objective(objective.metric, objective.quantile, promised.limit_ms) for objective, promised in limits
        )

    def limit_of_a_request(self, steps: int) -> tuple[float, float] | None:
        """Seconds for a request and the quantile that must keep them; None without an objective.

        Args:
            steps: Outputs after the first: without a limit of the whole, those of the first and of each add up.
        """
        objectives = self.objectives
        whole = objective_for(objectives, "latency")
        if whole is not None:
            return whole.limit_ms / 1e3, whole.quantile
        if not objectives:
            return None
        first, each = objective_for(objectives, "ttft"), objective_for(objectives, "tpot")
        total_ms = (first.limit_ms if first else 0.0) + (each.limit_ms if each else 0.0) * max(steps, 0)
        return total_ms / 1e3, objectives[0].quantile

    @property
    def usually_together(self) -> int:
        """Requests that run together: `at_once` is the most, for a server that batches what waits."""
        return self.at_once if self.together is None else self.together

    @property
    def load(self) -> Load | None:
        """Its arrivals; None for a job."""
        if self.rate_rps <= 0:
            return None
        kind: Literal["poisson", "gamma"] = "poisson" if self.cv == 1 else "gamma"
        return Load(kind=kind, rate_rps=self.rate_rps, cv=self.cv)

    @property
    def entry(self) -> TenantEntry:
        """The tenant as in a file, at the rate and with the choices of the plan."""
        changes: dict[str, Any] = {"at_once": (self.at_once,), "slo": self.objectives, "load": self.load}
        if self.software != "eager":
            changes["software"] = (self.software,)
        if self.rate_rps <= 0:
            changes["job"] = JobEntry(time=3600.0)
        return self.runs.model_copy(update=changes)


class PlanDevice(Frozen):
    """A device, or several that a tenant spans, and its tenants."""

    name: Text
    kind: Text = ""
    sharing: Annotated[str, PlainValidator(one_of(ALONE, *MODES))] = ALONE
    devices: Count = 1
    clock_mhz: Positive | None = None
    power_w: Positive | None = None
    price_per_h: NotNegative = 0.0
    basis: str = ""
    tenants: Annotated[Mapping[Name, PlanSeat], AfterValidator(_filled("tenant"))]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.kind:
            object.__setattr__(self, "kind", self.name)
        for name, seat in self.tenants.items():
            if isinstance(seat.share, str) and self.sharing != "mig":
                raise ValueError(f"gives {name} the instance {seat.share}, but its sharing isn't mig")
            if isinstance(seat.share, float) and self.sharing == "mig":
                raise ValueError(f"gives {name} {seat.share:g} %, but instances of mig have names such as 3g.20gb")
            if seat.tenant is None:
                object.__setattr__(seat, "tenant", name)
        return self

    def asked_as_one(self, seat: PlanSeat) -> int:
        """Requests of a tenant that a run of this device asks for as a single one: those that usually run together.

        An engine, or the server that orders the requests of all tenants, takes them together itself.
        """
        own = self.sharing == SCHEDULED or in_steps(seat.entry.spec())
        return 1 if own else seat.usually_together

    def gathered_ms(self, seat: PlanSeat) -> float:
        """How long the first of these requests would have waited for the last."""
        return (self.asked_as_one(seat) - 1) / seat.rate_rps * 1e3 if seat.rate_rps > 0 else 0.0

    @property
    def way(self) -> Sharing:
        """How its tenants share it, with their shares if all are limited."""
        shares = [seat.share for seat in self.tenants.values()]
        given = tuple(share for share in shares if share is not None)
        limited = len(given) == len(shares) and self.sharing not in TURNS  # there, shares are of the time
        return Sharing(mode=self.sharing, shares=given if limited else ())


class PlanDocument(Frozen):
    """A plan as it stands in its file."""

    plan: Literal[2]
    minimised: str = "cost"
    cost_per_h: NotNegative = 0.0
    bound: NotNegative = 0.0
    risk: Annotated[float, Field(gt=0, lt=1)] = 0.1
    runs: tuple[str, ...] = Field(default=(), alias="from")
    """Run folders whose measurements were used."""
    devices: Annotated[tuple[PlanDevice, ...], AfterValidator(_filled("device"))]
    left_out: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for what, names in (
            ("device", Counter(device.name for device in self.devices)),
            ("tenant", Counter(name for device in self.devices for name in device.tenants)),
        ):
            twice = [name for name, times in names.items() if times > 1]
            if twice:
                raise ValueError(f"{what} {twice[0]} occurs {names[twice[0]]} times")
        return self

    def seats(self) -> Iterator[tuple[PlanDevice, str, PlanSeat]]:
        """All tenants of all devices."""
        for device in self.devices:
            for name, seat in device.tenants.items():
                yield device, name, seat

    def device(self, name: str | None, source: str) -> PlanDevice:
        """A device of the plan.

        Args:
            name: None: the only device.
            source: The plan's name, for messages.

        Raises:
            StudyError: There is no such device, or there are several.
        """
        names = {device.name: device for device in self.devices}
        if name is None and len(names) > 1:
            raise StudyError(f"{source} has {len(names)} devices", hint=f"choose one: --device {next(iter(names))}")
        if name is not None and name not in names:
            raise StudyError(f"{source} is a plan for {', '.join(names)}, not for {name}", hint="choose one of them")
        return names[name] if name is not None else self.devices[0]

    def to_data(self) -> dict[str, Any]:
        """Contents of plan.yaml: enough to carry the plan out, and its predictions."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def to_yaml(self) -> str:
        """The plan as YAML."""
        return write(self.to_data())


def read_plan(path: Path) -> PlanDocument:
    """Read and check a plan.yaml.

    Raises:
        StudyError: It can't be read, isn't a plan, or has problems: all of them, with their lines.
    """
    plan = plan_in(path)
    if plan is None:
        raise StudyError(f"{path} is not a plan", hint=REPLAN)
    return plan


def plan_in(path: Path) -> PlanDocument | None:
    """The plan in a file; None if the file holds something else. Raises StudyError."""
    try:
        tree = read(opening.read_text(path, most=LARGEST, encoding="utf-8-sig"), str(path))
    except OSError as error:
        raise StudyError(f"{path} can't be read: {opening.why(error)}", hint="check its path and permissions") from None
    except UnicodeDecodeError:
        raise StudyError(f"{path} can't be read: it is not UTF-8 text", hint="name a YAML file") from None
    except NotYaml as error:
        problem = f"{path}:{error.line}: {error}"
        raise StudyError(f"{path} has 1 problem", problems=(problem,), hint="fix this line and run it again") from None
    return _checked(tree, path) if is_plan(tree.data) else None


def is_plan(data: Any) -> bool:
    """Whether a file's data is a plan."""
    return isinstance(data, Mapping) and "plan" in data and "devices" in data


def _checked(tree: Tree, path: Path) -> PlanDocument:
    if tree.data["plan"] == 1:
        raise StudyError(f"{path} counts items, as plans of an earlier version did", hint=f"plan again; {REPLAN}")
    problems = list(tree.problems)
    try:
        plan = PlanDocument.model_validate(tree.data)
    except ValidationError as error:
        problems += problems_of(error, PlanDocument)
    if problems:
        problems.sort(key=lambda problem: tree.places.line(problem[0]))
        lines = tuple(dict.fromkeys(tree.places.describe(where, sentence) for where, sentence in problems))
        raise StudyError(f"{path} has {amount(len(lines), 'problem')}", problems=lines, hint=REPLAN)
    return plan
