"""Tenants files as plans read them, and the models that tenants run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import StudyError

if TYPE_CHECKING:
    from cotenant.planning.exports.model import Model
    from cotenant.study.model import Study
    from cotenant.tenancy.tenant_entry import TenantEntry

NOT_RUN = ("load", "slo", "at_once", "near", "apart", "replicas", "isolation", "job", "priority", "share", "software",
           "hard", "best_effort", "group", "key", "backend")  # fmt: skip
"""Keys of a tenants file that state requirements, not what runs."""


def runs_of(entry: "TenantEntry") -> dict[str, Any]:
    """A tenant in the format of a study."""
    found: dict[str, Any] = entry.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(NOT_RUN))
    return found


def tenants_to_plan(path: Path) -> "Study":
    """Read a tenants file to plan for. Raises StudyError with every problem."""
    from cotenant.planning.mixes.tenants import lacking
    from cotenant.study.files import read_tenants_file
    from cotenant.study.workload_check import unknown_workloads

    return read_tenants_file(path, lambda study: [*lacking(study.tenants), *unknown_workloads(study.tenants)])


def devices_in(file: "Study", source: Path) -> str:
    """The devices that a file names. Raises StudyError if it names none."""
    if file.devices is None or file.role is not None:
        raise StudyError(
            f"{source} names no devices to plan for",
            hint="name them: --devices sim:a100-sxm4-80gb*4, or devices: sim:a100-sxm4-80gb*4 in the file",
        )
    return file.devices


def model_of(entry: "TenantEntry") -> "Model":
    """The model that a tenant runs."""
    from cotenant.planning.exports.model import Model
    from cotenant.workloads.catalogue import published

    workload = entry.spec().name
    hub_id, usual = published(workload)
    return Model(
        workload=workload,
        generates=entry.mode == "generate",
        seq=entry.seq or usual,
        tokens=entry.tokens,
        dtype=entry.dtype,
        weights=entry.weights,
        hub_id=hub_id,
        runs=runs_of(entry),
    )
