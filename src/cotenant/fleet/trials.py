"""The trials of a block on a host: pure, and numbered independently of which host carries them out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cotenant.errors import FleetError, StudyError
from cotenant.fleet.selection import Host
from cotenant.measure.plan import RunPlan
from cotenant.study.model import Study
from cotenant.study.spread import Role
from cotenant.tenancy.nouns import Trial


def role_of(study: Study, hosts: Sequence[Host]) -> Role:
    """The role of the devices. Raises StudyError or FleetError if they can't fill it."""
    role: Role = study.role or ("workers" if study.spread is None else "replicates")
    if study.spread not in (None, "auto", "each"):
        raise StudyError(
            f"`spread: {study.spread}` needs all devices in one trial, and those of a cluster have a trial each",
            hint="use --set spread=each, or run it on one machine",
        )
    models = sorted({host.model for host in hosts})
    if role != "compare" and len(models) > 1:
        raise FleetError(
            f"the devices differ: {' and '.join(models[:3])}",
            hint="choose equal ones with --devices, or compare them: --set devices=compare",
        )
    return role


MOST_KEPT = 4
"""Number of blocks whose trials are cached."""


class Division:
    """How the trials of a block are divided over the hosts."""

    def __init__(self, hosts: Sequence[Host], role: Role) -> None:
        self.divided = role == "workers"
        self._hosts = {host.name: host for host in hosts}
        self._owners = {member: host.name for host in hosts for member in host.members}
        self._plan: RunPlan | None = None
        self._kept: dict[int, dict[str, list[Trial]]] = {}

    def trials(self, plan: RunPlan, block: int, host: str) -> Sequence[Trial]:
        """The trials of a block that this host would carry out."""
        if self.divided:
            return [_on(trial, self._hosts[host], block) for trial in plan.block(block).trials]
        if plan is not self._plan:
            self._plan, self._kept = plan, {}
        if block not in self._kept:  # all hosts ask for it at about the same time, and it may have thousands
            by_host: dict[str, list[Trial]] = {}
            for trial in plan.block(block).trials:
                owner = self._owners.get(str(trial.tenants[0].member))
                if owner is not None:
                    by_host.setdefault(owner, []).append(trial)
            self._kept[block] = by_host
            if len(self._kept) > MOST_KEPT:
                del self._kept[min(self._kept)]
        return self._kept[block].get(host, [])


def laid_out(plan: RunPlan, role: Role, members: Sequence[str]) -> RunPlan:
    """The plan for hosts in this role.

    Args:
        plan: What all hosts can do of the study.
        role: The role of the hosts.
        members: The devices that the run began with, which determine its trial numbers.
    """
    divided = role == "workers"
    study = plan.study.model_copy(update={"spread": None if divided else "each"})
    return replace(plan.with_study(study), members=() if divided else tuple(members))


def _on(trial: Trial, host: Host, block: int) -> Trial:
    """A worker's trial; with many simulated devices, each takes a block in turn."""
    number = block % len(host.members)
    tenants = tuple(
        tenant.model_copy(update={"name": f"{tenant.name}@{number}", "member": host.members[number]})
        for tenant in trial.tenants
    )
    return trial.model_copy(update={"tenants": tenants})


def order(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """As they travel."""
    return [trial.model_dump(mode="json") for trial in trials]
