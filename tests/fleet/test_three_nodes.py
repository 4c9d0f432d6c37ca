"""A cluster of three nodes: the answer of one machine, every node asked, and no trial lost or doubled by a dead one."""

import json
import signal
import time
from collections import Counter

import pytest

import cotenant
from benchmarks.ray_nodes import NODES
from cotenant.store.folder import RunFolder
from cotenant.store.integrity import standing
from cotenant.store.reading import open_runs

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

STUDY = """
name: sleepy
tenants:
  a: {workload: sleep, params: {ms: 4}}
  b: {workload: sleep, params: {ms: 6}}
mixes: [solo, pairs]
window: 100ms
lead: 20ms
"""
MEASURED = (0, 2)
"""2: measured, but unstable; three nodes on one machine disturb each other."""


def ended(process, *, codes=MEASURED):
    out, err = process.communicate()
    assert process.returncode in codes, (process.returncode, out[-500:], err[-3000:])
    return out, err


def wait_for(what, meanwhile):
    """What comes while a process goes on; it fails with what the process said if that ends first."""
    while not (found := what()):
        if meanwhile.poll() is not None:
            ended(meanwhile, codes=())
        time.sleep(0.1)
    return found


def runs_of(nodes):
    return sorted((nodes.home / "runs" / "sleepy").glob("*/manifest.json"))


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


@pytest.fixture(scope="module")
def first(nodes, study):
    """A run over all three nodes."""
    ended(nodes.cotenant("run", study, "--set", "blocks=8", "--on", nodes.address, "--devices", "cpu", "-q"))
    [manifest] = runs_of(nodes)
    return manifest.parent


def test_three_nodes_give_the_answer_of_one_machine(first, study, tmp_path):
    assert numbers(first) == Counter(range(24))
    assert not standing(RunFolder.open(first)).damaged
    found = members_by_block(first)
    assert all(len(members) == 1 for members in found.values()), "a block is never divided over devices"
    assert {member for [member] in found.values()} == {f"{node}/cpu" for node in NODES}

    alone = cotenant.run(study, overrides=["blocks=8"], out=tmp_path)
    both = list(zip(alone.tenants, cotenant.show(first).tenants, strict=True))
    assert len(both) == 4, "two tenants, alone and together"
    for here, there in both:
        assert (here.cell.mix, here.tenant) == (there.cell.mix, there.tenant)
        if here.slowdown is not None:
            assert here.slowdown.lo <= there.slowdown.hi
            assert there.slowdown.lo <= here.slowdown.hi


def test_every_node_is_asked_and_gives_its_runs_to_one_database(nodes, first):
    db = nodes.home / "all.db"
    asked = {
        "devices": nodes.cotenant("devices", "--on", nodes.address, "--json"),
        "doctor": nodes.cotenant("doctor", "--on", nodes.address, "--json"),
        "db": nodes.cotenant("db", "add", first.parent, "--on", nodes.address, "--db", db, "--json"),
    }
    said = {verb: json.loads(ended(process)[0]) for verb, process in asked.items()}
    assert {one["name"] for one in said["devices"]} == {f"{node}/cpu" for node in NODES}
    subjects = [finding["subject"].split()[0] for finding in said["doctor"]["findings"]]
    assert set(subjects) == {"cluster", *NODES}
    assert [one["how"] for one in said["db"]] == ["added", "known", "known"], "all three see the same disk"
    for node in NODES:
        [copy] = (nodes.home / "gathered" / node).glob("*/manifest.json")
        assert numbers(copy.parent) == numbers(first)


def begun(nodes, study, blocks):
    """A run that goes on, some of whose trials are safe."""
    before = set(runs_of(nodes))
    driver = nodes.cotenant("run", study, "--set", f"blocks={blocks}", "--on", nodes.address, "--devices", "cpu")
    [manifest] = wait_for(lambda: set(runs_of(nodes)) - before, driver)
    wait_for(lambda: len(RunFolder.open(manifest.parent).committed()) >= 15, driver)
    return driver, manifest.parent


def test_a_second_driver_learns_who_is_measuring(nodes, study):
    driver, run = begun(nodes, study, 1500)
    _, said = ended(nodes.cotenant("run", study, "--on", nodes.address, "--devices", "cpu", "-q"), codes=(1,))
    assert "is being measured by process" in said
    assert run.name in said, "the error names the owner"
    driver.send_signal(signal.SIGINT)
    ended(driver, codes=(130,))


def test_a_dead_node_costs_no_trial(nodes, study):
    driver, run = begun(nodes, study, 40)
    nodes.lose(NODES[2])
    _, said = ended(driver)
    assert f"{NODES[2]}/cpu is lost" in said
    assert numbers(run) == Counter(range(120)), "nothing lost, nothing doubled"
    assert all(len(members) == 1 for members in members_by_block(run).values())


def test_selftest_asks_the_nodes_that_are_left(nodes):
    """Last, when a node is dead: it isn't asked, and two self-tests take less of the machine than three."""
    said = json.loads(ended(nodes.cotenant("selftest", "--on", nodes.address, "--json"))[0])["nodes"]
    assert {one["device"] for one in said} == {f"{node}/cpu" for node in nodes.up}
    assert all(one["checks"] for one in said)
