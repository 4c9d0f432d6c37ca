"""A run on a cluster goes through the loop of every run: windows of each trial, rests of precise cells, and reasons.

The workers live in this process instead of actors: everything but Ray's transport is the product's.
"""

from contextlib import nullcontext
from types import GeneratorType

import pytest

import cotenant
from cotenant.errors import DoesNotFit, FleetError
from cotenant.fleet import cluster_run, wire
from cotenant.fleet.cluster import ClusterAddress, Node
from cotenant.fleet.cluster_bench import ClusterBench
from cotenant.fleet.selection import Host
from cotenant.fleet.surveying import Survey
from cotenant.fleet.worker import DeviceWorker
from cotenant.measure.events import silent
from cotenant.store.folder import RunFolder
from cotenant.study.files import study_from

NODE = Node("id", "n1", "127.0.0.1")
HOST = Host(NODE, "sim:t4", ("sim:t4",), ("sim:t4",), "sim:t4", simulated=True)
STUDY = {
    "name": "loop",
    "device": "sim:t4",
    "tenants": {
        "quick": {"workload": "bert-base-mini"},
        "slow": {"workload": "bert-large", "batch": 32, "seq": 512},
        "large": {"workload": "llama-3.2-3b", "dtype": "float32", "seq": 64},
    },
    "mixes": [{"groups": {"two": ["quick", "slow"], "too-much": ["large", "large"]}}, "solo"],
    "sharing": ["processes", "mps"],
    "until": {"interval": 0.03},
    "blocks": {"min": 2, "max": 12},
    "seed": 5,
}


class WorkersHere:
    """The crew of a run, without actors."""

    def __init__(self, cluster, hosts, agents):
        del cluster, agents
        self.hosts = {host.name: host for host in hosts}
        self._workers = {host.name: DeviceWorker() for host in hosts}
        self._said: dict[str, GeneratorType] = {}

    def open(self, orders):
        replies = {}
        for name, order in orders.items():
            replies[name] = wire.unpacked(self._workers[name].open(wire.packed(order)))
            wire.raise_problem(replies[name], NODE.name)
        return replies

    def start(self, host, method, order):
        self._said[host] = getattr(self._workers[host], method)(wire.packed(order))

    def said(self, wait_s):
        del wait_s
        for host, messages in list(self._said.items()):
            data = next(messages, None)
            if data is None:
                del self._said[host]
            yield host, data

    def close(self):
        for worker in self._workers.values():
            worker.close()

    def kill(self):
        pass


@pytest.fixture
def on_a_cluster(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    cluster = type("Cluster", (), {"address": ClusterAddress()})()
    monkeypatch.setattr(cluster_run, "connected", lambda *_, **__: nullcontext(cluster))
    monkeypatch.setattr(cluster_run, "survey", lambda *_, **__: Survey((), {}))
    monkeypatch.setattr(cluster_run, "select", lambda *_: (HOST,))
    monkeypatch.setattr(cluster_run, "DeviceActors", WorkersHere)
    return lambda study: cluster_run.carry_out(study, on="ray", devices=None, out=tmp_path / "far", listener=silent)


def windows_of(folder):
    """By mix and way to share: the lengths of its windows, but for the long one that each block has."""
    rows = cotenant.sql("SELECT mix, sharing, min(window_s) FROM trials GROUP BY ALL", folder).rows
    return {(mix, sharing): window_s for mix, sharing, window_s in rows}


def test_a_cluster_s_trials_have_windows_of_their_own_and_reasons_and_rest_when_precise(on_a_cluster, tmp_path):
    """As on one machine, whatever the tenants take."""
    study = study_from(STUDY)
    far = RunFolder.open(on_a_cluster(study))
    here = RunFolder.open(cotenant.run(study, out=tmp_path / "here", quiet=True).folder)
    assert windows_of(far.path) == windows_of(here.path)
    assert len(set(windows_of(far.path).values())) > 1
    refused = "SELECT reasons FROM trials WHERE verdict = 'invalid' AND mix = 'too-much' LIMIT 1"
    [(reasons,)] = cotenant.sql(refused, far.path).rows
    assert any("ran out of memory" in reason for reason in reasons)
    assert any(visit["cells"] for visit in far.manifest["precise"])
    assert any(visit["relaxed"] for visit in far.manifest["precise"]) == any(
        visit["relaxed"] for visit in here.manifest["precise"]
    )


def test_what_a_worker_refuses_is_the_reason_of_the_driver(on_a_cluster):
    impossible = {**STUDY, "tenants": {"a": {"workload": "llama-3.1-8b"}}, "mixes": ["solo"]}
    with pytest.raises(DoesNotFit, match='n1: mix "a" needs'):
        on_a_cluster(study_from(impossible))


def test_a_run_that_fails_before_its_loop_is_not_said_to_be_running(on_a_cluster, monkeypatch, tmp_path):
    def damaged(self, staged):
        raise FleetError("a parcel arrived damaged")

    monkeypatch.setattr(ClusterBench, "gather", damaged)
    with pytest.raises(FleetError, match="damaged"):
        on_a_cluster(study_from({**STUDY, "tenants": {"a": {"workload": "bert-base-mini"}}, "mixes": ["solo"]}))
    [manifest] = (tmp_path / "far").rglob("manifest.json")
    assert RunFolder.open(manifest.parent).manifest.get("state") != "running"
