"""A YAML file of tenants to plan for, with rates, objectives and constraints. Reports all its problems at once."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field, PlainValidator, ValidationError, model_validator

from cotenant import opening
from cotenant.errors import StudyError
from cotenant.planning.mixes.tenants import METRICS, BatchJob, Isolation, Objective, ServingTenant, contradictions
from cotenant.study.loads_and_sharings import LoadText, RateText
from cotenant.study.model import TenantEntry
from cotenant.study.sentences import problems_of
from cotenant.study.shares import is_number
from cotenant.study.tree import NotYaml, Tree, read
from cotenant.study.values import Count, Name, Seconds, one_of, read_duration
from cotenant.study.words import did_you_mean, expected, shown
from cotenant.tenancy.nouns import Frozen
from cotenant.text import amount
from cotenant.workloads.protocol import Software, WorkloadSpec

LARGEST_FILE = 256 * 1024
SOFTWARES: tuple[str, ...] = get_args(Software)
STRETCH = 2.0
"""Default of `within`: this many times the job's time."""
_RANGE = re.compile(r"^(\d+)\s*\.\.\s*(\d+)$")
_OBJECTIVE = re.compile(r"^(?:(latency|ttft|tpot)\s+)?p(\d{1,2}(?:\.\d+)?)$")
_HINT = "e.g. `tenants: {chat: {workload: llama-3.2-3b, rate: 5/s, slo: {p99: 300ms}}}`"


def _batches(value: Any) -> tuple[int, ...]:
    match = _RANGE.match(value.strip()) if isinstance(value, str) else None
    batches = value if isinstance(value, list) else [value]
    if match:
        low, high = int(match.group(1)), int(match.group(2))
        doubled = [low * 2**power for power in range(20) if low * 2**power < high]
        batches = [*doubled, high] if 1 <= low <= high else []
    if not batches or any(isinstance(one, bool) or not isinstance(one, int) or one < 1 for one in batches):
        raise expected("a batch such as 4, a list such as [1, 4, 8] or a range such as 1..16", value)
    return tuple(sorted(set(batches)))


def _objectives(value: Any) -> tuple[Objective, ...]:
    if not isinstance(value, Mapping) or not value:
        raise expected("objectives such as {p99: 30ms} or {ttft p95: 300ms, tpot p95: 40ms}", value)
    found = []
    for key, limit in value.items():
        match = _OBJECTIVE.match(str(key).strip())
        if match is None:
            raise ValueError(f"{shown(str(key))} is not an objective; write p99, ttft p95 or tpot p95")
        metric = next(one for one in METRICS if one == (match.group(1) or "latency"))
        if not isinstance(limit, str):
            raise expected(f"a time with its unit such as 30ms for {key}", limit)
        found.append(Objective(metric, float(match.group(2)) / 100, read_duration(limit) * 1e3))
    return tuple(found)


def _price(value: Any) -> float:
    if not is_number(value) or not 0 <= value < float("inf"):
        raise expected("dollars per hour such as 1.80", value)
    return float(value)


def _names(value: Any) -> frozenset[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or any(not isinstance(one, str) for one in names):
        raise expected("a list of tenants such as [embed, rerank]", value)
    return frozenset(names)


def _softwares(value: Any) -> tuple[str, ...]:
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list) or not named:
        raise expected(f"a software or a list of them: {', '.join(SOFTWARES)}", value)
    for one in named:
        if one not in SOFTWARES:
            near = did_you_mean(str(one), SOFTWARES)
            raise ValueError(f"unknown software {shown(str(one))}{near or '; expected one of ' + ', '.join(SOFTWARES)}")
    return tuple(dict.fromkeys(named))


class JobEntry(Frozen):
    """A job: work with an end."""

    gpus: Count = Field(default=1, description="Number of devices it spans.")
    time: Seconds = Field(description="Duration alone on its devices.", examples=["2h"])
    within: Seconds | None = Field(default=None, description="Deadline.", examples=["3h"])


class PlannedEntry(TenantEntry):
    """A tenant in the file."""

    batch: Annotated[tuple[int, ...], PlainValidator(_batches)] = Field(  # type: ignore[assignment]
        default=(1,), description="Batch size: a number, a list or a range.", examples=["1..16"]
    )
    software: Annotated[tuple[str, ...], PlainValidator(_softwares)] | None = Field(  # type: ignore[assignment]
        default=None,
        description="Its software; of a list, the plan chooses.",
        examples=[["eager", "compile"]],
    )
    rate: RateText | None = Field(default=None, description="Items per second.", examples=["20/s"])
    load: LoadText | None = Field(default=None, description="Arrivals of its requests.", examples=["gamma(20, 2)"])
    slo: Annotated[tuple[Objective, ...], PlainValidator(_objectives)] | None = Field(  # type: ignore[assignment]
        default=None, description="Objectives.", examples=[{"p99": "30ms"}]
    )
    isolation: Annotated[str, PlainValidator(one_of("any", "process", "mig"))] = Field(
        default="any", description="Required isolation."
    )
    near: Annotated[frozenset[str], PlainValidator(_names)] = Field(
        default=frozenset(), description="Tenants that must be on the same device.", examples=[["embed"]]
    )
    apart: Annotated[frozenset[str], PlainValidator(_names)] = Field(
        default=frozenset(),
        description="Tenants on other devices; itself: its replicas.",
        examples=[["train"]],
    )
    replicas: Count | None = Field(default=None, description="Number of replicas; default: as many as its rate needs.")
    job: JobEntry | None = Field(default=None, description="A job instead of a rate.")

    @model_validator(mode="after")
    def _one_demand(self) -> "PlannedEntry":
        given = [name for name in ("rate", "load", "job") if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"not {' and '.join(given)}" if given else "and it has none of them"
            raise ValueError(f"expected one of rate, load and job, {found}")
        if self.load is not None and (not self.load.open or self.load.rate_rps is None):
            raise ValueError(f"{self.load} has no rate; write poisson(20) or gamma(20, 2), or rate: 20/s")
        return self

    @model_validator(mode="after")
    def _tokens_to_time(self) -> "PlannedEntry":
        if self.mode != "generate" and any(one.metric != "latency" for one in self.slo or ()):
            raise ValueError("ttft and tpot are times of generated tokens: add mode: generate")
        return self

    def at_batch(self, batch: int) -> WorkloadSpec:
        """Its workload at its size and the given batch."""
        return self.model_copy(update={"batch": batch, "software": self.software[0] if self.software else None}).spec()

    def planned(self, name: str) -> ServingTenant:
        """In planning's terms."""
        share = self.share if isinstance(self.share, float) else None
        rate = self.rate if self.rate is not None else (self.load.rate_rps or 0.0 if self.load else 0.0)
        job = None
        if self.job is not None:
            stretch = self.job.within / self.job.time if self.job.within else STRETCH
            job = BatchJob(self.job.gpus, self.job.time, stretch)
        return ServingTenant(
            name=name,
            rate_rps=rate,
            objectives=self.slo or (),
            cv=self.load.cv if self.load else 1.0,
            batches=self.batch,
            software=self.software[0] if self.software else "eager",
            share=share,
            priority=self.priority,
            isolation=self.isolation,  # type: ignore[arg-type] # checked above
            near=self.near,
            apart=self.apart,
            replicas=self.replicas,
            job=job,
            parallel=self.parallel,
        )


class TenantsFile(Frozen):
    """Contents of a tenants file."""

    tenants: Mapping[Name, PlannedEntry] = Field(
        description="Tenants by name.",
        examples=[{"chat": {"workload": "llama-3.2-3b", "rate": "5/s", "slo": {"p99": "300ms"}}}],
    )
    prices: Mapping[str, Annotated[float, PlainValidator(_price)]] = Field(
        default_factory=dict, description="Dollars per hour by kind of device.", examples=[{"a100-sxm4-80gb": 1.8}]
    )

    def planned(self) -> tuple[ServingTenant, ...]:
        """In planning's terms."""
        return tuple(entry.planned(name) for name, entry in self.tenants.items())


def read_tenants(path: Path) -> TenantsFile:
    """Read and check a file.

    Raises:
        StudyError: The file is invalid; lists every problem.
    """
    tree = _tree(path)
    _refuse_plans(path, tree.data)
    problems = list(tree.problems)
    try:
        found = TenantsFile.model_validate(tree.data)
    except ValidationError as error:
        found = None
        problems += problems_of(error, TenantsFile)
    problems += _unknown(tree.data)
    problems += [(("tenants", name), sentence) for name, sentence in contradictions(_placed(tree.data))]
    if found is not None and not problems:
        return found
    problems.sort(key=lambda problem: tree.places.line(problem[0]))
    lines = tuple(dict.fromkeys(tree.places.describe(place, sentence) for place, sentence in problems))
    raise StudyError(f"{path} has {amount(len(lines), 'problem')}", problems=lines, hint="fix the lines named")


def _placed(data: Any) -> list[ServingTenant]:
    """The tenants as far as their constraints on places can be read, whatever is wrong with the rest of the file."""
    tenants = data.get("tenants") if isinstance(data, Mapping) else None
    found = []
    for name, entry in tenants.items() if isinstance(tenants, Mapping) else ():
        given = entry if isinstance(entry, Mapping) else {}
        try:
            near, apart = (_names(given.get(key, [])) for key in ("near", "apart"))
        except ValueError:
            continue  # reported where it is written
        isolation: Isolation = "mig" if given.get("isolation") == "mig" else "any"
        found.append(ServingTenant(str(name), 0.0, isolation=isolation, near=near, apart=apart))
    return found


def is_tenants_file(path: Path) -> bool:
    """Whether the file holds tenants rather than a list of jobs.

    Raises:
        StudyError: It is a plan.
    """
    try:
        data = _tree(path).data
    except StudyError:
        return False
    _refuse_plans(path, data)
    return isinstance(data, dict) and "tenants" in data


def _refuse_plans(path: Path, data: Any) -> None:
    if _is_plan(data):
        raise StudyError(
            f"{path} is a plan, not a file of tenants",
            hint=f"simulate it: cotenant plan --check {path}; measure it: cotenant run {path}; configure "
            f"servers: cotenant plan {path} --export DIR; to plan again, name the tenants file that it was made from",
        )


def is_plan(path: Path) -> bool:
    """Whether the file holds a plan."""
    try:
        return _is_plan(_tree(path).data)
    except StudyError:
        return False


def _is_plan(data: Any) -> bool:
    return isinstance(data, dict) and "plan" in data and "devices" in data


def _tree(path: Path) -> Tree:
    try:
        text = opening.read_text(path, most=LARGEST_FILE, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise StudyError(f"{path} can't be read: {reason}", hint=_HINT) from None
    try:
        tree = read(text, str(path))
    except NotYaml as error:
        raise StudyError(f"{path} has 1 problem", problems=(f"{path}:{error.line}: {error}",), hint=_HINT) from None
    if not isinstance(tree.data, dict | list):
        raise StudyError(f"{path} holds no tenants", hint=_HINT)
    return tree


def _unknown(data: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """Unknown workloads, and constraints that name unknown tenants."""
    from cotenant.study.workload_check import unknown_workloads

    if not isinstance(data, Mapping):
        return []
    problems: list[tuple[tuple[str | int, ...], str]] = list(unknown_workloads(data))
    tenants = data.get("tenants")
    if not isinstance(tenants, Mapping):
        return problems
    for name, entry in tenants.items():
        for key in ("near", "apart"):
            wished = entry.get(key) if isinstance(entry, Mapping) else None
            for other in wished if isinstance(wished, list) else [wished] if isinstance(wished, str) else []:
                if isinstance(other, str) and other not in tenants:
                    near = did_you_mean(other, tenants)
                    problems.append((("tenants", name, key), f"there is no tenant {shown(other)}{near}"))
    return problems
