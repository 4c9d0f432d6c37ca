"""A YAML file of jobs to place, each with its GPUs, duration and class of work."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cotenant import opening
from cotenant.errors import StudyError
from cotenant.planning.assignment import Job
from cotenant.planning.jobs import CLASSES, JobClass
from cotenant.tenancy.document import NotYaml, read
from cotenant.tenancy.values import Seconds
from cotenant.text import amount

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

    def job(self) -> Job:
        if self.kind is not None:
            kind = _KNOWN[self.kind]
        else:
            kind = JobClass(self.name, self.core_share or 0.0, self.activity, self.across)
        return Job(self.name, kind, self.gpus, self.time, self.share)


def read_jobs(path: Path) -> tuple[Job, ...]:
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
    jobs: dict[str, Job] = {}
    problems = list(tree.problems)
    for number, entry in enumerate(entries):
        place = (*above, number)
        try:
            job = _JobEntry.model_validate(entry).job()
        except ValidationError as error:
            found = error.errors(include_url=False)
            problems += [((*place, *one["loc"]), one["msg"].removeprefix("Value error, ")) for one in found]
            continue
        if job.name in jobs:
            problems.append((place, f"duplicate job name {job.name!r}"))
        jobs[job.name] = job
    if problems:
        sentences = tuple(tree.places.describe(place, sentence) for place, sentence in problems)
        raise StudyError(f"{path} has {amount(len(problems), 'problem')}", problems=sentences, hint=_HINT)
    return tuple(jobs.values())
