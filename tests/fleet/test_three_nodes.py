"""A cluster of three nodes: the answer of one machine, every node asked, and no trial lost or doubled by a dead one."""

import contextlib
import json
import signal
import time
from collections import Counter
from types import SimpleNamespace

import pytest

import cotenant
from benchmarks.ray_nodes import NODES
from cotenant.store.folder import RunFolder
from cotenant.store.integrity import standing
from cotenant.store.reading import open_runs
from tests.fleet.clients import Client

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
    """A run over all three nodes, in a folder of its own."""
    nodes.start(3)
    out = nodes.home / "first"
    where = ["--on", nodes.address, "--devices", "cpu", "--out", out]
    ended(nodes.cotenant("run", study, "--set", "blocks=8", *where, "-q"))
    [manifest] = out.glob("*/*/manifest.json")
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
    nodes.start(3)
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
    """A run on the nodes that are up, some of whose trials are safe."""
    before = set(runs_of(nodes))
    driver = nodes.cotenant("run", study, "--set", f"blocks={blocks}", "--on", nodes.address, "--devices", "cpu")
    [manifest] = wait_for(lambda: set(runs_of(nodes)) - before, driver)
    wait_for(lambda: len(RunFolder.open(manifest.parent).committed()) >= 15, driver)
    return driver, manifest.parent


def test_a_second_driver_learns_who_is_measuring(nodes, study):
    nodes.start(1)
    driver, run = begun(nodes, study, 1500)
    _, said = ended(nodes.cotenant("run", study, "--on", nodes.address, "--devices", "cpu", "-q"), codes=(1,))
    assert "is being measured by process" in said
    assert run.name in said, "the error names the owner"
    driver.send_signal(signal.SIGINT)
    ended(driver, codes=(130,))


def test_a_dead_node_costs_no_trial(nodes, study):
    nodes.start(3)
    driver, run = begun(nodes, study, 40)
    nodes.lose(NODES[2])
    _, said = ended(driver)
    assert f"{NODES[2]}/cpu is lost" in said
    assert numbers(run) == Counter(range(120)), "nothing lost, nothing doubled"
    assert all(len(members) == 1 for members in members_by_block(run).values())


def test_selftest_asks_the_nodes_that_are_up(nodes):
    """Several, as a single one is called by its host name."""
    nodes.start(2)
    said = json.loads(ended(nodes.cotenant("selftest", "--on", nodes.address, "--json"))[0])["nodes"]
    assert {one["device"] for one in said} == {f"{node}/cpu" for node in nodes.up}
    assert all(one["checks"] for one in said)


PLAN = """
plan: 2
devices:
  - {name: "sim:t4", tenants: {bert: {runs: {workload: bert-base}, expected: {p99: {limit_ms: 60000}}}}}
  - {name: "sim:l4", tenants: {rerank: {runs: {workload: bert-base}, expected: {p99: {limit_ms: 60000}}}}}
"""


def first_json(stream):
    """The JSON that a command prints first."""
    text = ""
    for line in stream:
        text += line
        with contextlib.suppress(ValueError):
            return json.loads(text)
    raise AssertionError(text)


@pytest.fixture(scope="module")
def lost_while_serving(nodes):
    """Clients of a plan on two devices, after the node of one was killed and its tenant moved to another."""
    nodes.start(2)
    plan = nodes.home / "plan.yaml"
    plan.write_text(PLAN)
    serving = nodes.cotenant("serve", plan, "--on", nodes.address, "--port", 0, "--json")
    opened = first_json(serving.stdout)
    assert set(opened["urls"]) == set(nodes.up), "a front end on each node"
    place = {tenant: device for device, one in opened["devices"].items() for tenant in one["tenants"]}
    moving = next(tenant for tenant, device in place.items() if not device.startswith(NODES[0]))
    lost = place[moving].partition("/")[0]
    before = [Client(url, tenant).start() for url in opened["urls"].values() for tenant in place]
    wait_for(lambda: all(len(one.answers) >= 5 for one in before), serving)
    nodes.lose(lost)
    said = ""
    while f"{moving}: served by" not in said:
        said += serving.stderr.readline()
    after = Client(opened["urls"][NODES[0]], moving).start()
    wait_for(lambda: len(after.answers) >= 5, serving)
    for one in (*before, after):
        one.stop()
    serving.send_signal(signal.SIGTERM)
    ended(serving, codes=(0,))
    return SimpleNamespace(moving=moving, lost=lost, place=place, said=said, before=before, after=after, opened=opened)


def test_a_plan_is_served_by_two_nodes_and_by_one_when_the_other_is_lost(lost_while_serving):
    seen = lost_while_serving
    assert list(seen.place) == ["bert", "rerank"]
    assert all([one.status for one in client.answers[:5]] == [200] * 5 for client in seen.before), (
        "each front end reaches the devices of all nodes"
    )
    assert f"{seen.place[seen.moving]} is lost" in seen.said
    assert NODES[0] in seen.said.partition(f"{seen.moving}: served by")[2]
    assert {one.status for one in seen.after.answers} == {200}
    [stayed] = [one for one in seen.before if one.tenant != seen.moving and one.url == seen.after.url]
    assert {one.status for one in stayed.answers} == {200}, "the tenant of the other device noticed nothing"


def test_no_request_is_answered_twice_when_a_node_is_lost(lost_while_serving):
    seen = lost_while_serving
    clients = [*seen.before, seen.after]
    answers = [one for client in clients for one in client.answers]
    assert max(Counter(one.id for one in answers).values()) == 1
    assert [one for one in answers if one.status == 200 and one.echoed != one.id] == [], (
        "an answer belongs to its request"
    )
    assert not any(client.left_over for client in clients), "no answer came without a request"
    refused = [one for one in answers if one.status not in (200, None)]
    assert refused, "between the loss and the move"
    assert {(one.tenant, one.status, one.retry_after) for one in refused} == {(seen.moving, 503, "1")}
    unanswered = [one for client in clients if client.url == seen.after.url for one in client.answers if not one.status]
    assert not unanswered, "a front end whose node is up answers everything"


def test_a_run_whose_head_died_is_resumed_on_a_new_cluster(nodes, study):
    nodes.start(1)
    driver, run = begun(nodes, study, 40)
    nodes.lose_head()
    _, said = ended(driver, codes=(1,))
    assert "Traceback" not in said
    assert "every node is gone" in RunFolder.open(run).manifest["why"]
    nodes.start(1)
    _, said = ended(nodes.cotenant("run", "--resume", run))
    assert numbers(run) == Counter(range(120)), "nothing lost, nothing doubled"
    assert not standing(RunFolder.open(run)).damaged
