"""Jobs to place on the measured GPUs of a database: those of a tenants file that has nothing else."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotenant.tenancy.jobs import CLASSES, JobClass
from cotenant.tenancy.tenant_entry import TenantEntry

if TYPE_CHECKING:
    from cotenant.study.model import Study

UNREAD = ("near", "apart", "replicas", "isolation", "priority", "share")
"""Requirements that only a plan for named devices keeps."""


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


def for_the_database(file: "Study") -> bool:
    """Whether a file that names no devices holds jobs to place on the GPUs of the database."""
    entries = file.tenants.values()
    described = [entry for entry in entries if entry.job is not None and entry.job.kind("") is not None]
    alone = all(entry.job is not None for entry in entries) or any(entry.workload is None for entry in described)
    return bool(described) and alone and named_devices(file) is None


def named_devices(file: "Study") -> str | None:
    """The devices that a file names, or the one device that it is for."""
    named = file.devices if file.role is None else None
    return file.device if named is None and "device" in file.model_fields_set else named


def unplaceable(tenants: Mapping[str, TenantEntry]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What keeps the jobs of a file from being placed on the GPUs of the database."""
    for name, entry in tenants.items():
        if entry.job is None:
            yield ("tenants", name), "isn't a job: beside jobs for the GPUs of the database there can be nothing else"
            continue
        at = ("tenants", name, "job")
        if entry.job.kind(name) is None:
            kinds = ", ".join(kind.name for kind in CLASSES)
            yield at, f"needs like ({kinds}) or core_share to be placed on the GPUs of the database"
        if entry.job.within is not None:
            yield (
                (*at, "within"),
                "a deadline needs --devices; on the GPUs of the database jobs end when they end",
            )
        for key in UNREAD:
            if key in entry.model_fields_set:
                yield ("tenants", name, key), f"{key} needs --devices; the GPUs of the database take jobs as they come"


def waiting_jobs(tenants: Mapping[str, TenantEntry]) -> tuple[WaitingJob, ...]:
    """The jobs of a file without problems, in its order."""
    jobs = []
    for name, entry in tenants.items():
        assert entry.job is not None, "checked before"
        kind = entry.job.kind(name)
        assert kind is not None, "checked before"
        jobs.append(WaitingJob(name, kind, entry.job.gpus, entry.job.time, entry.job.beside))
    return tuple(jobs)
