"""The bench of a run on a cluster: a host for each device there, every one an actor on its node.

An abandoned host is ignored from then on, so an orphan that continues behind a dead node can't add a trial twice.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cotenant import interruption
from cotenant.errors import FleetError, StudyError
from cotenant.fleet import wire
from cotenant.fleet.crew import DeviceActors, Lost
from cotenant.fleet.selection import Host
from cotenant.fleet.worker import READY
from cotenant.measure.bench import Delivery, HostLost, NextStretch, Stretch
from cotenant.measure.calibration import NUMBERS
from cotenant.measure.events import DeviceAt, Listener, Noticed, Preparing, TrialDone
from cotenant.measure.run_plan import RunPlan
from cotenant.store.folder import RunFolder, resume_command, trials_in
from cotenant.store.observe import counted_from
from cotenant.study.model import Study
from cotenant.study.spread import Role
from cotenant.tenancy.nouns import Trial

# --- the trials of a block on a host: pure, and numbered independently of which host carries them out


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


log = logging.getLogger(__name__)

WAIT_S = 0.5
NOTE_S = 2.0
"""Seconds between notes in the manifest of what each device does, for `cotenant view`."""


class ClusterBench:
    """The hosts of a run on a cluster."""

    def __init__(
        self, crew: DeviceActors, division: Division, folder: RunFolder, *, turns: Mapping[str, str], listener: Listener
    ) -> None:
        self._crew, self._division, self._folder, self._listener = crew, division, folder, listener
        self.simulated = next(iter(crew.hosts.values())).simulated
        self.turns = turns
        self._trials = dict.fromkeys(crew.hosts, 0)
        self._parcels: dict[str, list[bytes]] = {host: [] for host in crew.hosts}
        self._delivered: dict[str, list[str]] = {host: [] for host in crew.hosts}
        self._switching: dict[str, Any] = {}
        self._at: dict[str, dict[str, Any]] = {}
        self._noted_at = 0.0

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the devices that are there."""
        return tuple(self._crew.hosts)

    @property
    def divided(self) -> bool:
        """True if each block is done once, by any host."""
        return self._division.divided

    def trials(self, plan: RunPlan, block: int, host: str) -> Sequence[Trial]:
        """The trials of a block that this host would carry out."""
        return self._division.trials(plan, block, host)

    def gather(self, staged: Mapping[str, Sequence[str]]) -> None:
        """Receive trials that hosts kept for a driver that died."""
        for host, names in staged.items():
            for name in names:
                if trials_in(name) and not self._folder.committed().intersection(trials_in(name)):
                    self._adopt(host, [self._crew.fetch(host, name)])

    def get_ready(self, plan: RunPlan, folder: RunFolder) -> None:  # noqa: ARG002 - hosts have the plan of the run
        """Start all tenants, and have one host measure what is needed before the first block, once for all."""
        known = {key: folder.manifest[key] for key in READY if key in folder.manifest}
        measures = None if {"windows", "instrument"} <= set(known) else self.hosts[0]
        for host in self.hosts:
            self._crew.start(host, "get_ready", {"known": known, "measure": host == measures})
            self._tell(host, "getting ready")
        waiting = set(self.hosts)
        while waiting:
            interruption.obey()
            try:
                for host, data in self._crew.said(WAIT_S):
                    if data is None:
                        waiting.discard(host)
                    else:
                        known |= self._readiness(host, data)
            except Lost as lost:
                waiting.discard(lost.host)
                self._listener(Noticed(f"{lost.host} is lost, before the first block"))
                self._drop(lost.host)
                if lost.host == measures:
                    measures = self.hosts[0]
                    self._crew.start(measures, "get_ready", {"known": known, "measure": True})
                    waiting.add(measures)
        folder.update_manifest(**known)

    def carry_out(self, next_stretch: NextStretch, rates: Mapping[str, float]) -> Iterator[Delivery | HostLost]:
        """Carry out stretches on all hosts at the same time until none of them gets another one."""
        busy: set[str] = set()
        while True:
            interruption.obey()
            for host in self.hosts:
                if host not in busy and (stretch := next_stretch(host)) is not None:
                    self._start(host, stretch, rates)
                    busy.add(host)
            if not busy:
                return
            try:
                for host, data in self._crew.said(WAIT_S):
                    delivery = self._delivery(host, data)
                    if delivery is not None:
                        busy.discard(host)
                        yield delivery
                        self._tell(host, "done with a block")
            except Lost as lost:
                busy.discard(lost.host)
                yield HostLost(lost.host)
                self._drop(lost.host)
            self._note_devices()

    def facts(self) -> Mapping[str, Any]:
        """How trials followed each other, by host."""
        return {"switching": self._switching}

    def close(self) -> None:
        """Shut all hosts down in order."""
        self._crew.close()
        self._folder.update_manifest(devices_at={})

    def kill(self) -> None:
        """Kill all hosts at once."""
        self._crew.kill()

    def _start(self, host: str, stretch: Stretch, rates: Mapping[str, float]) -> None:
        delivered, self._delivered[host] = self._delivered[host], []
        self._crew.start(
            host,
            "carry_out",
            {
                "blocks": [stretch.first, stretch.after],
                "begins": stretch.begins,
                "alone": stretch.alone,
                "trials": order(stretch.trials),
                "rates": dict(rates),
                "delivered": delivered,
            },
        )
        log.info("from block %d on: %d trials to %s", stretch.first + 1, len(stretch.trials), host)
        self._tell(host, f"block {stretch.first + 1}")

    def _delivery(self, host: str, data: bytes | None) -> Delivery | None:
        """A host's trials once it has sent all of them: a block is never divided over hosts."""
        if data is None:
            return None
        if not data.startswith(b"{"):
            self._parcels[host].append(data)
            return None
        message = wire.unpacked(data)
        wire.raise_problem(message, host)
        if message.get("event") == "Trial":
            self._tell(host, f"block {int(message['block']) + 1}: {message['mix']}", done=int(message["done"]))
            return None
        if "end" not in message:
            return None
        parcels, self._parcels[host] = self._parcels[host], []
        self._trials[host] += len(message["end"])
        self._switching[host] = message["switching"]
        return Delivery(
            host=host,
            trials=tuple(TrialDone(**{**trial, "reasons": tuple(trial["reasons"])}) for trial in message["end"]),
            observations=counted_from(message["counted"]),
            device_s=float(message["device_s"]),
            complete=True,
            store=lambda folder: self._adopt(host, parcels, folder),
        )

    def _adopt(self, host: str, parcels: Sequence[bytes], folder: RunFolder | None = None) -> None:
        """Store trials in the run folder, unless an earlier driver did so before it died; then the host may delete."""
        folder = folder or self._folder
        committed = folder.committed()
        for data in parcels:
            for name, files in wire.opened(data).items():
                numbers = trials_in(name)
                if not numbers or not committed.issuperset(numbers):
                    folder.adopt(name, files)
                    log.debug("stored trials %s", name)
                self._delivered[host].append(name)

    def _readiness(self, host: str, data: bytes) -> dict[str, Any]:
        """Entries of the manifest from a host that gets ready."""
        if not data.startswith(b"{"):
            if any(number in NUMBERS for name in wire.opened(data) for number in trials_in(name)):
                self._adopt(host, [data])
            return {}
        message = wire.unpacked(data)
        wire.raise_problem(message, host)
        if message.get("event") == "Preparing":
            self._listener(Preparing(f"{host}: {message['text']}"))
        elif message.get("event") == "Noticed":
            self._listener(Noticed(f"{host}: {message['text']}"))
        ready: dict[str, Any] = message.get("ready", {})
        return ready

    def _drop(self, host: str) -> None:
        self._crew.drop(host)
        log.warning("%s is lost", host)
        self._tell(host, "lost", lost=True)
        if not self._crew.hosts:
            raise FleetError(
                f"every node is gone; {len(self._folder.committed())} trials are on disk",
                hint=f"continue when there are nodes again: {resume_command(self._folder.path)}",
            )

    def _tell(self, host: str, doing: str, done: int = 0, *, lost: bool = False) -> None:
        at = DeviceAt(host, doing, self._trials[host] + done, lost=lost)
        self._at[host] = {"doing": doing, "trials": at.trials}
        self._listener(at)

    def _note_devices(self) -> None:
        if time.monotonic() >= self._noted_at + NOTE_S:
            self._noted_at = time.monotonic()
            self._folder.update_manifest(devices_at=self._at)
