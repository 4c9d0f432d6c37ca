"""Serving on a cluster, piece by piece: routing, fencing, headroom, placement, and a front end before two devices."""

import asyncio
import json
import threading
import time
from types import SimpleNamespace

import pytest

from cotenant.errors import FleetError, ServingError, StudyError
from cotenant.fleet.cluster import Node
from cotenant.fleet.serving.cluster_serve import FOR_S, Headroom, OnCluster, _apply, _keep, _offer, next_step
from cotenant.fleet.serving.fence import EPOCH, LOADS, SECRET, Fence, Ownership
from cotenant.fleet.serving.front import Front
from cotenant.fleet.serving.loads import SILENT_S, DeviceLoad, TenantLoad, choose
from cotenant.fleet.serving.placing import place
from cotenant.fleet.serving.served_fleet import Fleet, _joined
from cotenant.fleet.surveying import Surveyed
from cotenant.serving.http.access import new_key
from cotenant.serving.tenants_file import read_tenants
from tests.serving.http.front import Client, served
from tests.serving.http.front import front as service_app
from tests.support import pace


def load(backlog_s=0.0, *, share=1.0, request_s=0.01, objective_s=0.1, ready=True, at=0.0):
    one = DeviceLoad()
    one.report({"bert": TenantLoad(ready, backlog_s, share, request_s, objective_s)}, at)
    return one


def test_a_request_goes_to_the_fullest_device_that_keeps_its_deadline():
    devices = {"idle": load(), "half": load(0.04), "late": load(0.2)}
    assert choose(devices, "bert", 0.0) == "half"
    assert choose(devices, "bert", 0.0, within_s=0.03) == "idle", "the client's deadline counts"
    assert choose(devices, "bert", 0.0, without=["half"]) == "idle"
    assert choose({"late": load(0.2), "later": load(0.3)}, "bert", 0.0) == "late", (
        "none is in time: the first to finish"
    )
    assert choose(devices, "gpt", 0.0) is None


def test_silent_and_unready_devices_get_nothing():
    assert choose({"a": load()}, "bert", SILENT_S + 0.01) is None
    assert choose({"a": load(ready=False)}, "bert", 0.0) is None
    gone = load()
    gone.lost()
    assert choose({"a": gone}, "bert", 0.0) is None


def test_what_was_sent_since_the_last_report_counts():
    one = load(0.02)
    one.sent_s += 0.05
    assert one.backlog_s == pytest.approx(0.07)
    one.report(one.tenants, 0.1)
    assert one.backlog_s == pytest.approx(0.05), "a report includes what was sent before it"
    one.sent_s = 0.0
    assert one.backlog_s == 0.0


def test_a_share_bounds_the_wait_behind_other_tenants():
    one = DeviceLoad()
    one.report({"bert": TenantLoad(True, 0.0, 0.5, 0.01, 0.1), "gpt": TenantLoad(True, 5.0, 0.5, 1.0, 9.0)}, 0.0)
    assert one.finish_s("bert") == pytest.approx(0.02)


def test_an_owner_answers_within_its_lease_and_epoch_only():
    now = [100.0]
    mine = Ownership(3, 102.0, clock=lambda: now[0])
    assert mine.why_not("3") is None
    assert "epoch" in mine.why_not("2")
    assert "epoch" in mine.why_not(None)
    now[0] = 102.1
    assert "lease" in mine.why_not("3")
    mine.renew(101.0)  # held up on its way
    assert "lease" in mine.why_not("3")
    mine.renew(104.0)
    assert mine.why_not("3") is None


def test_headroom_is_offered_after_seconds_without_it():
    state = {"devices": [{"device": "a/cpu", "up": True, "tenants": {
        "bert": {"finish_s": 0.09, "objective_s": 0.1, "not_served": 0}}}]}  # fmt: skip
    room = Headroom()
    assert room.short(state, 0.0) == []
    assert room.short(state, FOR_S - 0.1) == []
    assert room.short(state, FOR_S) == ["bert"]
    assert room.short(state, FOR_S + 1) == [], "offered once"
    state["devices"][0]["tenants"]["bert"]["finish_s"] = 0.01
    assert room.short(state, 100.0) == []
    state["devices"][0]["tenants"]["bert"]["not_served"] = 7
    assert room.short(state, 101.0) == [], "refusals count as no headroom, but not at once"
    assert next_step("bert", state, ["b/cpu"])["device"] == "b/cpu"
    assert next_step("bert", state, [])["step"] == "add a node"


def node(name, *devices):
    facts = {
        "machine": name,
        "devices": [{"name": one, "identity": None, "model": one, "keys": [one]} for one in devices],
    }
    return Surveyed(Node(name, name, "127.0.0.9"), facts, 0.0)


TENANTS = "tenants: {bert: {workload: bert-base-mini, slo: 60s, share: 60%}}"
PLAN = """
plan: 2
devices:
  - {name: cpu, tenants: {bert: {runs: {workload: bert-base-mini}, expected: {p99: {limit_ms: 100}}}}}
  - {name: b/cpu, tenants: {conv: {runs: {workload: resnet18-mini}, expected: {p99: {limit_ms: 100}}}}}
"""


def test_every_device_serves_a_tenants_file_and_a_plan_names_its_devices(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text(TENANTS)
    placed, spare = place(file, None, [node("a", "cpu"), node("b", "cpu")])
    assert [one.name for one in placed] == ["a/cpu", "b/cpu"]
    assert not spare
    file.write_text(PLAN)
    placed, spare = place(file, None, [node("b", "cpu"), node("a", "cpu"), node("c", "cpu")])
    tenants = {one.name: list(one.file.tenants) for one in placed}
    assert tenants == {"a/cpu": ["bert"], "b/cpu": ["conv"]}, "a named device goes to its own tenants"
    assert [one.name for one in spare] == ["c/cpu"]
    with pytest.raises(FleetError, match="none left"):
        place(file, None, [node("a", "cpu")])
    with pytest.raises(StudyError, match="can't be read"):
        place(tmp_path / "missing.yaml", None, [node("a", "cpu")])


def test_tenants_of_a_lost_device_join_others_without_a_share_where_shares_dont_fit(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text(TENANTS)
    one = read_tenants(file)
    joined = _joined(one, {"twin": one.tenants["bert"]})
    assert joined.tenants["twin"].share is None
    assert joined.tenants["bert"].share == 60


class LosingTwo(Fleet):
    """Loses its two devices at once; each is replaced only while the other is."""

    def __init__(self, placements, spare, said):
        nodes = {one.node.id: one.node for one in spare}
        cluster = SimpleNamespace(nodes=lambda: tuple(nodes.values()))
        super().__init__(cluster, spare, secret="", drain_s=0.0, owner="", say=said.append)
        self._to_lose = list(placements)
        self._both = threading.Barrier(2, timeout=pace.seconds(30))
        self.taken = {}

    def lost(self, wait_s):
        if len(self.taken) == 2 and not [one for one in threading.enumerate() if one.name.startswith("move ")]:
            raise KeyboardInterrupt
        gone, self._to_lose = self._to_lose, []
        return gone

    def _take_over(self, placement):
        self._both.wait()
        self.taken[placement.name] = list(placement.file.tenants)

    def route(self, *, wait=True):
        pass


def test_devices_of_a_lost_node_are_replaced_at_the_same_time(tmp_path):
    file, said = tmp_path / "plan.yaml", []
    file.write_text(PLAN)
    placed, _ = place(file, None, [node("a", "cpu"), node("b", "cpu")])
    _, spare = place(file, None, [node("a", "cpu"), node("b", "cpu"), node("c", "cpu"), node("d", "cpu")])
    fleet = LosingTwo(placed, spare, said)
    with pytest.raises(KeyboardInterrupt):
        _keep(fleet, file, OnCluster("ray"), said.append)
    assert sorted(fleet.taken) == ["c/cpu", "d/cpu"], "each takes a free device of its own"
    assert sorted(fleet.taken.values()) == [["bert"], ["conv"]]
    assert fleet.spare == []
    assert said[:2] == ["a/cpu is lost", "b/cpu is lost"]
    assert sorted(line.partition(": served by")[0] for line in said[2:]) == ["bert", "conv"]


class Device:
    """A device's server in this process, behind its fence, on a port of its own."""

    def __init__(self, application, service, epoch=1):
        self.ownership = Ownership(epoch, time.time() + 3600)
        self.serving = served(Fence(application, service, "secret", self.ownership))

    async def start(self):
        self.server = await self.serving.__aenter__()
        self.port = self.server.port
        return self

    async def stop(self):
        if self.server is not None:
            self.server.grace_s = 0.0  # as when its process dies
            self.server = None
            await self.serving.__aexit__(None, None, None)


async def ask(app, path, body=None, headers=()):
    """Status and body of an answer."""
    status, _, said = await answer(app, path, body, headers)
    return status, said


async def answer(app, path, body=None, headers=()):
    """The same with its headers."""
    got = await Client(app, None).ask("GET" if body is None else "POST", path, body or b"", dict(headers))
    return got.status, got.headers, got.body


async def until(true):
    while not true():
        await asyncio.sleep(0.01)


def owners(devices, epoch=1):
    return {f"d{n}": ("127.0.0.1", device.port, epoch) for n, device in enumerate(devices)}


INFER = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 3], "data": [9, 10, 11]}]}


@pytest.fixture
def fleet():
    """Two devices and a front end, as a coroutine that a test body runs in."""

    def run(body):
        async def whole():
            async with service_app() as one, service_app() as two:
                devices = [await Device(app.application, app.service).start() for app in (one, two)]
                front = Front("secret", admin_key=None, locked=False, own=[])
                front.route(owners(devices), ["bert", "gpt"])
                await front.heard(60)
                try:
                    await body(front, devices, (one, two))
                finally:
                    await front.close()
                    for device in devices:
                        await device.stop()

        asyncio.run(asyncio.wait_for(whole(), pace.seconds(60)))

    return run


def test_a_front_end_passes_on_requests_and_uses_another_device_when_one_is_lost_or_fenced(fleet):
    async def body(front, devices, apps):
        status, said = await ask(front, "/v2/models/bert/infer", INFER)
        assert status == 200, said
        assert (await ask(front, "/v2/models/nothing/infer", INFER))[0] == 404
        assert (await ask(front, "/readyz"))[0] == 200
        models = json.loads((await ask(front, "/v1/models"))[1])
        assert "bert" in [one["id"] for one in models["data"]]

        devices[0].ownership._until_utc_s = 0.0  # its lease has ended: an orphan
        for _ in range(4):
            assert (await ask(front, "/v2/models/bert/infer", INFER))[0] == 200
        first = apps[0].service.measures.of("bert").served
        assert first <= 1, "an orphan answers nothing"

        await devices[1].stop()
        status, said = await ask(front, "/v2/models/bert/infer", INFER)
        assert status == 503, said

        devices[0].ownership.renew(time.time() + 3600)
        await until(lambda: front._serving("bert"))
        assert (await ask(front, "/v2/models/bert/infer", INFER))[0] == 200
        devices[1] = await Device(apps[1].application, apps[1].service).start()

    fleet(body)


def test_a_tenant_that_waits_for_another_device_is_refused_for_a_moment(fleet):
    async def body(front, devices, apps):
        async def refused(why):
            status, headers, said = await answer(front, "/v2/models/bert/infer", INFER)
            assert (status, headers["retry-after"]) == (503, "1")
            assert why in said.decode()

        for device in devices:
            device.ownership._until_utc_s = 0.0
        await refused("No device serves bert")
        front.route({}, ["bert"])  # both are lost
        await refused("No device serves bert")
        assert (await ask(front, "/readyz"))[0] == 503
        assert (await ask(front, "/v2/models/gpt/infer", INFER))[0] == 404, "it was taken out of the plan"
        front.draining = True
        await refused("stopping")

    fleet(body)


def test_a_devices_server_refuses_strangers_and_old_epochs(fleet):
    async def body(front, devices, apps):
        del front, devices
        fence = Fence(apps[0].application, apps[0].service, "secret", Ownership(2, time.time() + 60))
        assert (await ask(fence, "/v2/models/bert/infer", INFER))[0] == 401
        secret = (SECRET, "secret")
        assert (await ask(fence, LOADS, headers=[secret, (EPOCH, "1")]))[0] == 503
        assert (await ask(fence, "/v2/models/bert/infer", INFER, [secret, (EPOCH, "1")]))[0] == 503
        assert (await ask(fence, "/v2/models/bert/infer", INFER, [secret, (EPOCH, "2")]))[0] == 200

    fleet(body)


def test_a_new_epoch_replaces_a_devices_connection(fleet):
    async def body(front, devices, apps):
        del apps
        front.route({**owners(devices[:1]), "d1": ("127.0.0.1", devices[1].port, 9)}, ["bert"])
        await asyncio.sleep(0.3)
        assert front.owners["d0"].said
        assert not front.owners["d1"].said, "the device serves epoch 1"
        assert (await ask(front, "/v2/models/bert/infer", INFER))[0] == 200

    fleet(body)


class Servers:
    """Stands for the servers of a fleet: takes changes, or refuses them."""

    def __init__(self, *placements):
        self.servers = {one.name: SimpleNamespace(placement=one) for one in placements}
        self.changed = {}

    def change(self, server, file):
        if any(objective.limit_ms < 10 for tenant in file.tenants.values() for objective in tenant.slo):
            raise ServingError("an objective is too short")
        self.changed[server.placement.name] = file


def test_a_new_version_of_the_file_is_applied_and_a_wrong_one_changes_nothing(tmp_path):
    file, said = tmp_path / "tenants.yaml", []
    file.write_text(TENANTS)
    placed, _ = place(file, None, [node("a", "cpu"), node("b", "cpu")])
    fleet = Servers(*placed)
    _apply(fleet, file, said.append)
    assert not said, "the same tenants"
    file.write_text(TENANTS.replace("60s", "30s"))
    _apply(fleet, file, said.append)
    assert [file.tenants["bert"].slo[0].limit_ms for file in fleet.changed.values()] == [30_000, 30_000]
    assert said == ["a/cpu serves the new tenants.yaml", "b/cpu serves the new tenants.yaml"]
    fleet.changed.clear()
    for wrong in (TENANTS.replace("60s", "1ms"), "tenants: ["):
        said.clear()
        file.write_text(wrong)
        _apply(fleet, file, said.append)
        assert [line.partition(":")[0] for line in said] == ["a/cpu keeps its tenants", "b/cpu keeps its tenants"]
    assert not fleet.changed


def test_the_next_step_goes_to_the_users_command(tmp_path):
    said, got = [], tmp_path / "step.json"
    step = {"tenant": "bert", "step": "use a free device", "device": "c/cpu"}
    _offer(step, ["tee", str(got)], said.append)
    assert json.loads(got.read_text()) == step
    assert said == ["bert has no headroom left; next step: use a free device, c/cpu"]
    _offer(step, [str(tmp_path / "missing")], said.append)
    assert "failed" in said[-1]


def test_a_stream_passes_piece_by_piece_and_only_the_admin_sees_the_status(fleet):
    async def body(front, devices, apps):
        del devices, apps
        chat = {"model": "gpt", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "stream": True}
        status, said = await ask(front, "/v1/chat/completions", chat)
        assert status == 200
        assert said.count(b"data: ") >= 3
        assert said.rstrip().endswith(b"data: [DONE]")
        assert json.loads((await ask(front, "/status"))[1])["devices"][0]["up"]

        key, hashed = new_key()
        locked = Front("secret", admin_key=hashed, locked=True, own=[])
        assert (await ask(locked, "/status"))[0] == 403
        assert (await ask(locked, "/status", headers=[("authorization", f"Bearer {key}")]))[0] == 200

    fleet(body)
