"""Studies on three real nodes: the same answer as one machine, and nothing lost or doubled whatever dies."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest

import cotenant
from cotenant.store.folder import RunFolder
from cotenant.store.integrity import standing
from cotenant.store.reading import open_runs
from tests.fleet.conftest import NODES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STUDY = """
name: sleepy
tenants:
  a: {workload: sleep, params: {ms: 4}}
  b: {workload: sleep, params: {ms: 6}}
mixes: [solo, pairs]
window: 100ms
lead: 20ms
"""
SIMULATED = """
name: dies
tenants: {g: {workload: resnet50, batch: 8}}
mixes: [solo]
window: 200ms
blocks: 2
spread: each
"""


MEASURED = (0, 2)
"""Three nodes on one machine disturb each other, so that trials may well be unstable: that is 2."""


def ended(process, *, codes=MEASURED, within_s=400):
    out, err = process.communicate(timeout=within_s)
    assert process.returncode in codes, (process.returncode, out[-500:], err[-3000:])
    return out, err


def folder_of(home: Path, study="sleepy") -> Path:
    return max((home / "runs" / study).iterdir())


def wait_for(what, within_s=240):
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, "it didn't come"
        time.sleep(0.1)


def numbers(folder):
    with open_runs([folder]) as runs:
        rows = runs.con.execute("SELECT trial FROM trials WHERE block >= 0").fetchall()
    return Counter(trial for (trial,) in rows)


def members_by_block(folder):
    with open_runs([folder]) as runs:
        return dict(
            runs.con.execute(
                "SELECT block, list(DISTINCT member ORDER BY member) FROM trials JOIN tenants USING (run, trial) "
                "WHERE block >= 0 GROUP BY block"
            ).fetchall()
        )


@pytest.fixture(scope="module")
def study(nodes):
    path = nodes.home / "sleepy.yaml"
    path.write_text(STUDY)
    return path


def test_three_nodes_give_the_answer_of_one_machine(nodes, study):
    ended(nodes.cotenant("run", study, "--set", "blocks=12", "--on", nodes.address, "--devices", "cpu", "-q"))
    run = folder_of(nodes.home)
    assert numbers(run) == Counter(range(36))
    found = members_by_block(run)
    assert all(len(members) == 1 for members in found.values()), "a block is never divided over devices"
    assert {member for [member] in found.values()} == {f"{node}/cpu" for node in NODES}
    whole = standing(RunFolder.open(run))
    assert not whole.damaged
    assert RunFolder.open(run).manifest["fleet"]["role"] == "workers"

    alone = cotenant.run(study, overrides=["blocks=12"], out=nodes.home / "alone")
    for here, there in zip(alone.tenants, cotenant.show(run).tenants, strict=True):
        assert (here.cell.mix, here.tenant) == (there.cell.mix, there.tenant)
        if here.slowdown is not None and there.slowdown is not None:
            assert here.slowdown.lo <= there.slowdown.hi
            assert there.slowdown.lo <= here.slowdown.hi


def test_a_simulated_fleet_gives_the_same_records_as_on_one_machine(nodes):
    path = nodes.home / "dies.yaml"
    path.write_text(SIMULATED)
    ended(nodes.cotenant("run", path, "--on", nodes.address, "--devices", "sim:v100-sxm2-16gb*6", "-q"))
    cotenant.run(path, devices="sim:v100-sxm2-16gb*6", out=nodes.home / "alone")
    query = (
        "SELECT trial, member, tenant, count(*), min(done_ns), max(done_ns) FROM requests JOIN tenants "
        "USING (run, trial, tenant) GROUP BY ALL ORDER BY ALL"
    )
    both = []
    for run in (folder_of(nodes.home, "dies"), max((nodes.home / "alone" / "dies").iterdir())):
        with open_runs([run]) as runs:
            both.append(runs.con.execute(query).fetchall())
    assert both[0] == both[1]
    assert len(both[0]) == 12


def test_a_node_that_dies_costs_its_unfinished_block_and_a_second_driver_is_told_who_is_there(nodes, study):
    first = nodes.cotenant("run", study, "--set", "blocks=60", "--on", nodes.address, "--devices", "cpu")
    before = {path.name for path in (nodes.home / "runs" / "sleepy").iterdir()}
    wait_for(lambda: {path.name for path in (nodes.home / "runs" / "sleepy").iterdir()} - before)
    run = folder_of(nodes.home)
    wait_for(lambda: len(RunFolder.open(run).committed()) >= 15)

    _, said = ended(nodes.cotenant("run", study, "--on", nodes.address, "--devices", "cpu", "-q"), codes=(1,))
    assert "is being measured by process" in said
    assert run.name in said, "the error names the owner"

    nodes.lose(NODES[2])
    _, said = ended(first)
    assert f"{NODES[2]}/cpu is lost" in said
    assert numbers(run) == Counter(range(180)), "nothing lost, nothing doubled"
    assert all(len(members) == 1 for members in members_by_block(run).values())


def test_after_the_head_died_a_new_cluster_goes_on(nodes, study):
    process = nodes.cotenant("run", study, "--set", "blocks=60", "--on", nodes.address, "--devices", "cpu", "-q")
    before = {path.name for path in (nodes.home / "runs" / "sleepy").iterdir()}
    wait_for(lambda: {path.name for path in (nodes.home / "runs" / "sleepy").iterdir()} - before)
    run = folder_of(nodes.home)
    wait_for(lambda: len(RunFolder.open(run).committed()) >= 15)
    nodes.lose_head()
    process.communicate(timeout=240)
    assert process.returncode != 0
    nodes.stop()
    kept = numbers(run)
    assert 15 <= len(kept) < 180

    nodes.start()
    ended(nodes.cotenant("run", "--resume", run, "-q"))
    assert numbers(run) == Counter(range(180))
    manifest = json.loads((run / "manifest.json").read_text())
    assert len(manifest["sessions"]) == 2
    assert manifest["state"] == "complete"
