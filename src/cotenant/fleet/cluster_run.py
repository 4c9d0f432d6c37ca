"""Run a study on the devices of a cluster into one run folder."""

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cotenant import interruption
from cotenant.devices.group import described_together
from cotenant.errors import RunFolderError, StudyError
from cotenant.fleet.cluster import connected
from cotenant.fleet.cluster_bench import ClusterBench, Division, laid_out, role_of
from cotenant.fleet.crew import DeviceActors
from cotenant.fleet.selection import ALL, Host, select
from cotenant.fleet.surveying import Survey, differences, held_back, survey
from cotenant.measure import provenance
from cotenant.measure.events import Listener, Noticed, Preparing
from cotenant.measure.locking import device_lock
from cotenant.measure.run_plan import RunPlan
from cotenant.measure.session import conduct, started
from cotenant.store.folder import RunFolder, new_run_path
from cotenant.store.integrity import set_damaged_aside
from cotenant.study.files import study_from_text
from cotenant.study.model import Study
from cotenant.study.spread import Role


def carry_out(
    study: Study,
    *,
    on: str,
    devices: str | None,
    out: Path,
    listener: Listener,
    insecure: bool = False,
    folder: RunFolder | None = None,
) -> Path:
    """Start or resume a run on a cluster; return its folder.

    Args:
        study: What to measure.
        on: `ray` or `ray://host:port`.
        devices: Which of the cluster's; None: all GPUs, or all CPUs on nodes without one.
        out: Parent folder of a new run folder.
        listener: Receives progress events.
        insecure: Accept a cluster without tokens.
        folder: A run to resume.

    Raises:
        CotenantError: It can't be carried out. Finished measurements are kept.
    """
    if study.fresh == "trial":
        raise StudyError(
            "`fresh: trial` can't be run on a cluster", hint="run it on one machine, or write `fresh: block`"
        )
    path = folder.path if folder else new_run_path(out, study.name)
    listener(Preparing("querying the nodes of the cluster"))
    with interruption.heard(), connected(on, insecure=insecure) as cluster:
        found = survey(cluster, insecure=insecure)
        for sentence in (*differences(found.nodes), *held_back(found.nodes)):
            listener(Noticed(sentence))
        hosts = select(devices or ALL, found.nodes)
        role = role_of(study, hosts)
        members = _members(folder, hosts)
        run = folder.run if folder else path.name
        with device_lock([f"run {run}"], run=str(path)):
            crew = DeviceActors(cluster, hosts, found.agents)
            try:
                session = len(folder.manifest.get("sessions", [])) if folder else 0
                listener(Preparing(f"taking {_counted(hosts)}"))
                replies = crew.open(_orders(study, hosts, run=run, session=session))
                plan = laid_out(_plan(study, replies), role, members)
                if folder is None:
                    folder = RunFolder.create(path, {"run": run, **_manifest(plan, hosts, replies, role=role)})
                    resumed = False
                else:
                    folder, resumed = RunFolder.open(path), True
                folder.resume()
                set_damaged_aside(folder)
                fleet = _fleet(hosts, found, role=role) | {"on": str(cluster.address), "devices": devices or ALL}
                fleet["members"] = list(members)
                turns = _turns(study, hosts)
                bench = ClusterBench(crew, Division(hosts, role), folder, turns=turns, listener=listener)
                bench.gather({host: reply["staged"] for host, reply in replies.items()})
                sessions = [*folder.manifest.get("sessions", []), provenance.session()]
                folder.update_manifest(sessions=sessions, state="running", why=None, fleet=fleet)
                name, simulated = str(folder.manifest["device"]), hosts[0].simulated
                listener(started(plan, name, folder, resumed=resumed, simulated=simulated))
                conduct(plan, bench, folder, listener)
            finally:
                crew.kill()
    return path


def _turns(study: Study, hosts: Sequence[Host]) -> dict[str, str]:
    """Hosts of nodes with the same label, if the study has them take turns."""
    label = study.turns
    return {} if label is None else {
        host.name: host.node.labels[label] for host in hosts if label in host.node.labels
    }  # fmt: skip


def reopened(path: Path) -> tuple[RunFolder, Study, Mapping[str, Any]]:
    """A run on a cluster to resume: its folder, its study, and its cluster. Raises RunFolderError."""
    folder = RunFolder.open(path)
    text, fleet = folder.manifest.get("study"), folder.manifest.get("fleet")
    if not isinstance(text, str) or not isinstance(fleet, dict):
        raise RunFolderError(f"{path} is not a run on a cluster", hint=f"cotenant run --resume {path}, without --on")
    return folder, study_from_text(text, source=str(path / "manifest.json")), fleet


def _orders(study: Study, hosts: Sequence[Host], *, run: str, session: int) -> dict[str, dict[str, Any]]:
    device = device_name(hosts)
    return {
        host.name: {
            "run": run,
            "study": study.to_yaml(),
            "host": host.name,
            "device": device,
            "local": host.device,
            "members": host.members,
            "identities": host.identities,
            "simulated": host.simulated,
            "session": session,
            "owner": f"{socket.gethostname()}:{os.getpid()} {run}",
        }
        for host in hosts
    }


def device_name(hosts: Sequence[Host]) -> str:
    """The run's name for all of its devices together."""
    if hosts[0].simulated:
        return hosts[0].device
    return hosts[0].name if len(hosts) == 1 else f"{len(hosts)} devices on Ray"


def _plan(study: Study, replies: Mapping[str, Mapping[str, Any]]) -> RunPlan:
    """What all devices can do of the study: `sharing: all` is what they all support."""
    plans = [reply["plan"] for reply in replies.values()]
    modes = [mode for mode in plans[0]["modes"] if all(mode in plan["modes"] for plan in plans)]
    left_out = dict.fromkeys(sentence for plan in plans for sentence in plan["left_out"])
    skipped = sorted({tuple(pair) for plan in plans for pair in plan["skipped"]})
    return RunPlan.from_json(study, (), {**plans[0], "modes": modes, "left_out": left_out, "skipped": skipped})


def _manifest(
    plan: RunPlan, hosts: Sequence[Host], replies: Mapping[str, Mapping[str, Any]], *, role: Role
) -> dict[str, Any]:
    first = dict(next(iter(replies.values()))["manifest"])
    if hosts[0].simulated:
        described: Any = first["device_description"]
    else:
        described = described_together(
            {host.name: replies[host.name]["manifest"]["device_description"] for host in hosts},
            {host.name: host.identities[0] for host in hosts},
        )
    name = device_name(hosts)
    recorded = plan.study.model_copy(
        update={"device": name, "devices": role, "spread": None if role == "workers" else "each"}
    )
    return {
        **first,
        "study": recorded.to_yaml(),
        "device": name,
        "modes": list(plan.modes),
        "left_out": list(plan.left_out),
        "device_description": described,
    }


def _fleet(hosts: Sequence[Host], found: Survey, *, role: Role) -> dict[str, Any]:
    return {
        "role": role,
        "hosts": [{"host": host.name, "node": host.node.name, "devices": len(host.members)} for host in hosts],
        "versions": {surveyed.node.name: dict(surveyed.versions) for surveyed in found.nodes},
    }


def _members(folder: RunFolder | None, hosts: Sequence[Host]) -> tuple[str, ...]:
    """The devices that the run began with: a resumed run keeps its numbering, whichever devices are there now."""
    known = folder.manifest.get("fleet", {}).get("members") if folder else None
    return tuple(map(str, known)) if known else tuple(member for host in hosts for member in host.members)


def _counted(hosts: Sequence[Host]) -> str:
    count, nodes = sum(len(host.members) for host in hosts), len({host.node.id for host in hosts})
    return f"{count} device{'s'[: count != 1]} on {nodes} node{'s'[: nodes != 1]}"


def resume(path: Path, on: str | None, *, insecure: bool, listener: Listener) -> Path:
    """Resume a run on its cluster, or on another. Returns the run's folder. Raises CotenantError."""
    folder, study, where = reopened(path)
    return carry_out(
        study,
        on=on or str(where["on"]),
        devices=str(where["devices"]),
        out=path.parent,
        listener=listener,
        insecure=insecure,
        folder=folder,
    )
