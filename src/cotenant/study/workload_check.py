"""Check that every tenant's workload exists and can run as the study says."""

from collections.abc import Mapping
from typing import Any

from cotenant import extras
from cotenant.errors import StudyError, WorkloadError
from cotenant.study.model import Study
from cotenant.tenancy.document import Path
from cotenant.tenancy.words import shown
from cotenant.text import amount
from cotenant.workloads.protocol import ExecutesToCheck, WorkloadSpec
from cotenant.workloads.servers import OPENAI, SERVERS


def check_workloads(study: Study, *, execute: bool = True, simulated: bool = False) -> tuple[str, ...]:
    """Find and check the workload of every tenant; return a sentence for each that could not be checked fully.

    Args:
        study: The study.
        execute: Allow running code that the study names, in a separate process, to check it.
        simulated: The device is simulated, so servers and commands can't run on it.

    Raises:
        StudyError: with a problem for each tenant that can't run.
        MissingExtra: A package that a workload needs isn't installed.
    """
    from cotenant import workloads
    from cotenant.workloads.catalogue import require_packages
    from cotenant.workloads.yours.command import PREFIX as COMMAND

    if execute and simulated:
        extras.require("numba", "simulating a device")
    problems: list[str] = []
    unknown: list[str] = []
    missing = False
    for name, entry in study.tenants.items():
        spec = entry.spec()
        if simulated and spec.name.startswith((*SERVERS, COMMAND)):
            sentence = f"{shown(spec.name)} can't run on a simulated device: name a real one, e.g. --device cpu"
            problems.append(study.places.describe(("tenants", name, "workload"), sentence))
            continue
        try:
            workload = workloads.find(spec.name)
        except WorkloadError as error:
            missing = True
            problems.append(study.places.describe(("tenants", name, "workload"), _sentence(error)))
            continue
        try:
            if not execute and isinstance(workload, ExecutesToCheck):
                unknown.append(f"tenant {shown(name)}: {workload.check_unexecuted(spec)}")
            else:
                workload.check(spec)
        except WorkloadError as error:
            problems.append(study.places.describe(("tenants", name), _sentence(error)))
            continue
        if any(objective.metric != "latency" for objective in entry.slo) and not _times_tokens(spec):
            sentence = f"{shown(spec.name)} has no tokens that are timed: give a latency instead, such as p99: 300ms"
            problems.append(study.places.describe(("tenants", name, "slo"), sentence))
        if execute and not simulated:
            require_packages(spec.name)
    if problems:
        source = study.places.source or f"study {study.name}"
        raise StudyError(
            f"{source} has {amount(len(problems), 'problem')} with its workloads",
            problems=tuple(problems),
            hint="`cotenant workloads` lists the available ones" if missing else None,
        )
    return tuple(unknown)


def _times_tokens(spec: WorkloadSpec) -> bool:
    """False for servers and commands whose answers come as a whole; what models do depends on their mode."""
    from cotenant.workloads.servers import times_tokens
    from cotenant.workloads.yours.command import PREFIX as COMMAND

    if spec.name.startswith(OPENAI):
        return times_tokens(spec)
    return not spec.name.startswith((*SERVERS, COMMAND))


def unknown_workloads(tenants: Any) -> list[tuple[Path, str]]:
    """Tenants whose workload doesn't exist; entries, or the data of a file that may have other errors."""
    from cotenant import workloads

    problems: list[tuple[Path, str]] = []
    for name, entry in tenants.items() if isinstance(tenants, Mapping) else ():
        asked = entry.get("workload") if isinstance(entry, Mapping) else getattr(entry, "workload", None)
        if not isinstance(asked, str) or not asked.strip():
            continue
        try:
            workloads.find(asked)
        except WorkloadError as error:
            problems.append((("tenants", name, "workload"), _sentence(error)))
    return problems


def _sentence(error: WorkloadError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
