"""Tenants files as plans read them, and the models that tenants run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import CotenantError, StudyError
from cotenant.text import amount, figure, listed

if TYPE_CHECKING:
    from cotenant.planning.assignment import WaitingJob
    from cotenant.planning.exports.model import Model
    from cotenant.planning.mixes.tenants import ServingTenant
    from cotenant.store.watched import Traffic
    from cotenant.study.files import Problem
    from cotenant.study.model import Study
    from cotenant.tenancy.load import Load
    from cotenant.tenancy.tenant_entry import TenantEntry


NOT_RUN = ("load", "slo", "at_once", "near", "apart", "replicas", "isolation", "job", "priority", "share", "software",
           "backend")  # fmt: skip
"""Keys of a tenants file that state requirements, not what runs."""


def runs_of(entry: "TenantEntry") -> dict[str, Any]:
    """A tenant in the format of a study."""
    values: dict[str, Any] = entry.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(NOT_RUN))
    return values


def tenants_to_plan(path: Path, overrides: Sequence[str] = (), *, devices: str | None = None) -> "Study":
    """Read a tenants file to plan for, with `--set` changes, on devices. Raises StudyError with every problem."""
    from cotenant.planning.mixes.tenants import lacking
    from cotenant.study.files import read_tenants_file
    from cotenant.study.workload_check import unknown_workloads

    def needs(study: "Study") -> "Iterator[Problem]":
        if devices is None and for_the_database(study):
            yield from unplaceable(study.tenants)
        else:
            yield from lacking(study.tenants)
        yield from unknown_workloads(study.tenants)

    return read_tenants_file(path, needs, overrides)


def devices_in(file: "Study", source: Path) -> str:
    """The devices that a file names, or the one device that it is for. Raises StudyError if it names none."""
    named = named_devices(file)
    if named is None:
        raise StudyError(
            f"{source} names no devices to plan for",
            hint="name them: --devices sim:a100-sxm4-80gb*4, or devices: sim:a100-sxm4-80gb*4 in the file",
        )
    return named


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


# --- jobs to place on the measured GPUs of a database: those of a file that has nothing else

UNREAD = ("near", "apart", "replicas", "isolation", "priority", "share")
"""Requirements that only a plan for named devices keeps."""


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


def unplaceable(tenants: "Mapping[str, TenantEntry]") -> "Iterator[Problem]":
    """What keeps the jobs of a file from being placed on the GPUs of the database."""
    from cotenant.tenancy.jobs import CLASSES

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


def waiting_jobs(tenants: "Mapping[str, TenantEntry]") -> "tuple[WaitingJob, ...]":
    """The jobs of a file without problems, in its order."""
    from cotenant.planning.assignment import WaitingJob

    jobs = []
    for name, entry in tenants.items():
        assert entry.job is not None, "checked before"
        kind = entry.job.kind(name)
        assert kind is not None, "checked before"
        jobs.append(WaitingJob(name, kind, entry.job.gpus, entry.job.time, entry.job.beside))
    return tuple(jobs)


# --- plan again from served traffic: the rates that came instead of those in the file, and what requests cost

FEWEST = 30
"""Requests that show a rate."""
MOST_BURSTY = 5.0
BURSTS_SHOWN = 0.3
"""Difference from Poisson's variation of gaps (cv 1) that is worth a word: it may cost as much as a higher rate."""


def is_served(run: Path) -> bool:
    """Whether `cotenant serve` or `cotenant watch` recorded this run."""
    from cotenant.store import baselines
    from cotenant.store.folder import RunFolder
    from cotenant.store.reading import WATCHED
    from cotenant.tenancy.records import SERVED

    return RunFolder.open(baselines.resolve(str(run))).manifest.get("study_name") in {SERVED, WATCHED}


@dataclass(frozen=True, slots=True)
class ServedTraffic:
    """What served traffic says about the tenants of a file."""

    file: "Study"
    """At the rates and with the bursts that came."""
    costs_s: Mapping[str, float]
    """By tenant: the usual time of a request on the device, where it was served by itself."""
    sentence: str
    """The rates, in words."""


def as_served(file: "Study", runs: Sequence[Path]) -> ServedTraffic:
    """The tenants as they were served.

    Args:
        file: The tenants.
        runs: Runs of served traffic; tenants are matched by name.

    Raises:
        CotenantError: No tenant of the file was served often enough.
    """
    from cotenant.planning.mixes.tenants import planned
    from cotenant.store import baselines
    from cotenant.store.reading import open_runs
    from cotenant.store.watched import traffic_of
    from cotenant.tenancy.load import Load

    with open_runs([baselines.resolve(str(run)) for run in runs]) as opened:
        served = {name: traffic for name, traffic in traffic_of(opened).items() if traffic.requests >= FEWEST}
    entries, changes, costs = dict(file.tenants), [], {}
    for tenant in planned(file.tenants):
        if tenant.name not in served or tenant.job:
            continue
        came = served[tenant.name]
        load = Load(kind="gamma", rate_rps=came.rate_rps, cv=min(max(came.cv, 0.1), MOST_BURSTY))
        lengths = _lengths(file.tenants[tenant.name], came)
        entries[tenant.name] = file.tenants[tenant.name].model_copy(update={"load": load, **lengths})
        sizes = "".join(f", {word} {value}" for word, value in lengths.items())
        changes.append(f"{tenant.name} {_shown(load)} instead of {_shown(tenant)}{sizes}")
        if came.cost_s and came.served >= FEWEST:
            costs[tenant.name] = came.cost_s
    if not changes:
        raise CotenantError(
            f"{', '.join(map(str, runs))}: no tenant of the plan had {amount(FEWEST, 'request')} there",
            hint=f"tenants are matched by name; the plan's are {', '.join(file.tenants)}",
        )
    sentence = "; ".join([f"rates as served: {', '.join(changes)}", *_tails(file, served)])
    return ServedTraffic(file.model_copy(update={"tenants": entries}), costs, sentence)


def _lengths(entry: "TenantEntry", came: "Traffic") -> dict[str, int]:
    """The mean prompt and answer of a tenant that generates, where the server counts tokens."""
    if entry.mode != "generate":
        return {}
    lengths = {"seq": came.tokens_in, "tokens": came.tokens_out}
    return {word: max(1, round(value)) for word, value in lengths.items() if value}


def _tails(file: "Study", served: "Mapping[str, Traffic]") -> list[str]:
    """How watched servers stand against the objectives of the file, as they run today."""
    kept: list[str] = []
    missed: list[str] = []
    for name, entry in file.tenants.items():
        for objective in entry.slo or () if name in served else ():
            value = served[name].quantiles_ms.get(objective.label) if objective.metric == "latency" else None
            if value is not None:
                side = kept if value <= objective.limit_ms else missed
                side.append(f"{name} {objective.label} {figure(value)} of {figure(objective.limit_ms)} ms")
    if missed:
        return [f"as they run today, {listed(missed)} misses its objective"]
    if not kept:
        return []
    seen = f"as they run today, every objective that can be seen is kept ({listed(kept)})"
    return [f"{seen}: leave it, unless the plan costs less"]


def _shown(load: "Load | ServingTenant") -> str:
    """`20.0/s`, with its burstiness if that isn't close to Poisson's."""
    bursts = f" (cv {load.cv:.1f})" if abs(load.cv - 1) >= BURSTS_SHOWN else ""
    return f"{figure(load.rate_rps or 0.0)}/s{bursts}"
