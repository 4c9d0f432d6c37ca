"""Jobs to place on measured GPUs: their classes of work, and the YAML file that lists them."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cotenant import opening
from cotenant.errors import StudyError
from cotenant.tenancy.document import NotYaml, read
from cotenant.tenancy.values import Seconds
from cotenant.text import amount


@dataclass(frozen=True, slots=True)
class JobClass:
    """A class of work."""

    name: str
    core_share: float
    """Fraction of its time that scales with the clock: 1 for a matrix product, near 0 for a copy."""
    activity: float
    """Power above idle relative to work at the power limit, at the same clock."""
    across: float = 1.0
    """Time across several nodes relative to a single node."""


CLASSES = (
    JobClass("gemm", core_share=0.97, activity=1.0, across=1.0),
    JobClass("resnet", core_share=0.85, activity=0.93, across=1.16),
    JobClass("bert", core_share=0.75, activity=0.85, across=1.0),
    JobClass("pagerank", core_share=0.1, activity=0.35, across=1.1),
)
"""Assumed, not measured: core shares within the range of DVFS measurements on two GPUs (0.05 for a vector sum to 1.02),
and the cost of leaving a node as published by PAL for its classes."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job to place."""

    name: str
    kind: JobClass
    gpus: int
    seconds: float
    """Duration on median GPUs."""
    shareable: bool = False
    """May share its GPU with another job."""


# --- the file: each job with its GPUs, duration and class of work

_KNOWN = {kind.name: kind for kind in CLASSES}
_HINT = "e.g. {name: train, class: bert, gpus: 4, time: 2h}"


class _JobEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    name: str = Field(min_length=1)
    kind: str | None = Field(default=None, alias="class")
    core_share: float | None = Field(default=None, ge=0, le=1)
    activity: float = Field(default=1.0, gt=0, le=1.5)
    across: float = Field(default=1.0, ge=1)
    gpus: int = Field(default=1, ge=1)
    time: Seconds
    share: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> "_JobEntry":
        if (self.kind is None) == (self.core_share is None):
            raise ValueError("either `class` or `core_share` is required")
        if self.kind is not None and self.kind not in _KNOWN:
            raise ValueError(f"unknown class {self.kind!r}; expected one of {', '.join(_KNOWN)}")
        return self

    def job(self) -> WaitingJob:
        if self.kind is not None:
            kind = _KNOWN[self.kind]
        else:
            kind = JobClass(self.name, self.core_share or 0.0, self.activity, self.across)
        return WaitingJob(self.name, kind, self.gpus, self.time, self.share)


def read_jobs(path: Path) -> tuple[WaitingJob, ...]:
    """Read the jobs in a file.

    Raises:
        StudyError: The file can't be read, or a job is invalid; names the line and what was expected.
    """
    try:
        tree = read(opening.read_text(path), str(path))
    except OSError as error:
        hint = f"write a YAML list of jobs, {_HINT}"
        raise StudyError(f"{path} can't be read: {opening.why(error)}", hint=hint) from None
    except UnicodeDecodeError:
        raise StudyError(f"{path} is not a text file", hint=_HINT) from None
    except NotYaml as error:
        raise StudyError(f"{path}:{error.line}: {error}", hint=_HINT) from None
    above = ("jobs",) if isinstance(tree.data, dict) else ()
    entries = tree.data.get("jobs") if isinstance(tree.data, dict) else tree.data
    if not isinstance(entries, list) or not entries:
        raise StudyError(f"{path} is not a list of jobs", hint=_HINT)
    jobs: dict[str, WaitingJob] = {}
    problems = list(tree.problems)
    for number, entry in enumerate(entries):
        location = (*above, number)
        try:
            job = _JobEntry.model_validate(entry).job()
        except ValidationError as error:
            details = error.errors(include_url=False)
            problems += [
                ((*location, *detail["loc"]), detail["msg"].removeprefix("Value error, ")) for detail in details
            ]
            continue
        if job.name in jobs:
            problems.append((location, f"duplicate job name {job.name!r}"))
        jobs[job.name] = job
    if problems:
        sentences = tuple(tree.places.describe(location, sentence) for location, sentence in problems)
        raise StudyError(f"{path} has {amount(len(problems), 'problem')}", problems=sentences, hint=_HINT)
    return tuple(jobs.values())
