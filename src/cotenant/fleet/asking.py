"""Send the same request to every node of a cluster, and combine the replies."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotenant.devices.catalogue import DeviceInfo
from cotenant.devices.protocol import Finding, SharingMode
from cotenant.errors import FleetError
from cotenant.fleet import wire
from cotenant.fleet.cluster import connected
from cotenant.fleet.surveying import Survey, differences, held_back, survey
from cotenant.fleet.wire import put_in_place
from cotenant.measure.selftest import SelfCheck, SelfTest

SELFTEST_S = 1800.0
LONG_S = 600.0


def list_devices(on: str, *, insecure: bool = False) -> tuple[DeviceInfo, ...]:
    """The devices of all nodes, named NODE/DEVICE. Raises FleetError."""
    with connected(on, insecure=insecure) as cluster:
        found = survey(cluster, insecure=insecure)
        return tuple(
            DeviceInfo(
                f"{node}/{device['name']}", device["meaning"], tuple(SharingMode(**mode) for mode in device["sharings"])
            )
            for node, said in _asked(found, "devices")
            for device in said
        )


def doctor(on: str, device: str | None, *, insecure: bool = False) -> tuple[Finding, ...]:
    """The doctor's findings on all nodes, and whether the nodes are compatible. Raises FleetError."""
    with connected(on, insecure=insecure) as cluster:
        found = survey(cluster, insecure=insecure)
        apart = [*differences(found.nodes), *held_back(found.nodes)]
        together = [Finding("cluster", "warning", sentence) for sentence in apart] or [
            Finding("cluster", "ok", f"{len(found.nodes)} nodes with the same versions, clocks within a second")
        ]
        findings = [
            replace(Finding(**finding), subject=f"{node} {finding['subject']}")
            for node, said in _asked(found, "doctor", device)
            for finding in said
        ]
        return (*together, *findings)


def selftest(on: str, device: str, *, insecure: bool = False) -> tuple[SelfTest, ...]:
    """The self-test of one device on every node. Raises FleetError, or the error of a node that could not run it."""
    with connected(on, insecure=insecure) as cluster:
        found = survey(cluster, insecure=insecure)
        return tuple(
            SelfTest(
                f"{node}/{said['selftest']['device']}",
                said["selftest"]["facts"],
                tuple(SelfCheck(**check) for check in said["selftest"]["checks"]),
                said["selftest"]["seconds"],
            )
            for node, said in _asked(found, "selftest", device, within_s=SELFTEST_S)
        )


def gather(on: str, folder: Path, into: Path, *, insecure: bool = False) -> tuple[Path, ...]:
    """Copy the runs below a folder of every node to this machine; return their folders.

    Args:
        on: The cluster.
        folder: The folder on each node.
        into: A local folder; each node's runs go into a subfolder.
        insecure: Accept a cluster without tokens.

    Raises:
        FleetError: No node has a run there, or one arrived damaged.
    """
    import ray

    brought = []
    with connected(on, insecure=insecure) as cluster:
        found = survey(cluster, insecure=insecure)
        for node, runs in _asked(found, "runs", str(folder)):
            for run in runs:
                data = bytes(ray.get(found.agents[node].fetch_run.remote(wire.packed(run)), timeout=LONG_S))
                if data.startswith(b"{"):
                    wire.raise_problem(wire.unpacked(data), node)
                brought.append(put_in_place(data, into / node, Path(run).name))
    if not brought:
        raise FleetError(
            f"no node has a run below {folder}", hint="name the folder that contains the runs on the nodes"
        )
    return tuple(brought)


def _asked(found: Survey, method: str, *argument: Any, within_s: float = LONG_S) -> Iterator[tuple[str, Any]]:
    """Every node's reply; all are asked at once."""
    import ray

    words = [wire.packed(word) for word in argument]
    asked = {node: getattr(agent, method).remote(*words) for node, agent in found.agents.items()}
    for node, reply in asked.items():
        try:
            said = wire.unpacked(ray.get(reply, timeout=within_s))
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError:
            raise FleetError(f"node {node} was lost before it replied", hint="check it: ray status") from None
        if isinstance(said, dict):
            wire.raise_problem(said, node)
        yield node, said
