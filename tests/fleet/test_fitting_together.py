"""What is said before the first trial: addresses, versions, clocks, tokens, and devices that two nodes have."""

import io
import os
import socket
import tarfile

import pytest

from cotenant import __version__
from cotenant.errors import DeviceBusy, FleetError, StudyError
from cotenant.fleet import wire
from cotenant.fleet.cluster import (
    ClusterAddress,
    Node,
    _require_token,
    _stderr_to,
    _unreachable,
    named,
    parse,
    require_open_port,
)
from cotenant.fleet.cluster_bench import role_of
from cotenant.fleet.selection import select
from cotenant.fleet.surveying import Surveyed, differences, held_back, require_alike
from cotenant.study.model import Study


def node(name="n1", *, devices=("cpu",), labels=None, behind_s=0.0, **facts):
    keys = {"cpu": ["cpu:0", "cpu:1"], "cuda:0": [f"GPU-{name}"], "cuda:1": [f"GPU-{name}-1"]}
    whole = {
        "versions": {"cotenant": __version__, "torch": "2.13.0", "ray": "2.60.0", "python": "3.11.7"},
        "machine": f"boot of {name}",
        "auth": "token",
        "niceness": 0,
        "devices": [
            {
                "name": one,
                "identity": keys[one][0] if one.startswith("cuda") else None,
                "model": "V100" if one.startswith("cuda") else "EPYC",
                "keys": keys[one],
                "driver": facts.pop("driver", None),
            }
            for one in devices
        ],
    }
    return Surveyed(Node(f"id {name}", name, "10.0.0.1", labels or {}), whole | facts, behind_s)


class TestAddresses:
    def test_forms(self, monkeypatch):
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        assert parse("ray") == ClusterAddress()
        assert parse("ray://head") == ClusterAddress("head", 6379)
        assert str(parse("ray://10.0.0.7:6400")) == "ray://10.0.0.7:6400"
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.7:6400")
        assert parse("ray") == ClusterAddress("10.0.0.7", 6400)

    @pytest.mark.parametrize("wrong", ["", "dask", "ray://", "http://head:1", "ray://head:port", "ray://head/path"])
    def test_others_are_refused_with_the_forms(self, wrong):
        with pytest.raises(FleetError, match="is not the address of a cluster") as refused:
            parse(wrong)
        assert "ray://HOST:PORT" in refused.value.hint

    def test_the_port_for_outsiders_is_explained(self):
        with pytest.raises(FleetError, match="outside the cluster"):
            parse("ray://head:10001")

    def test_nothing_listens(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        with pytest.raises(FleetError, match="no Ray cluster at") as refused:
            require_open_port(ClusterAddress("127.0.0.1", port))
        assert "ray start --head" in refused.value.hint


class TestTokens:
    def test_an_open_cluster_is_refused_unless_asked_for(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(FleetError, match="without token authentication") as refused:
            _require_token(insecure=False)
        assert "--insecure" in refused.value.hint
        _require_token(insecure=True)
        monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
        _require_token(insecure=False)

    def test_a_node_without_tokens_is_refused(self):
        with pytest.raises(FleetError, match="n2 has no token authentication"):
            require_alike([node(), node("n2", auth="")], insecure=False)
        require_alike([node(), node("n2", auth="")], insecure=True)


class TestNodes:
    def test_another_cotenant(self):
        with pytest.raises(FleetError, match=r"node n2 has cotenant 0\.0\.9") as refused:
            require_alike([node(), node("n2", versions={"cotenant": "0.0.9"})], insecure=False)
        assert f"pip install 'cotenant[ray]=={__version__}'" in refused.value.hint

    @pytest.mark.parametrize(("behind_s", "way"), [(7.0, "behind"), (-7.0, "ahead of")])
    def test_a_clock_that_differs(self, behind_s, way):
        with pytest.raises(FleetError, match=rf"clock of node n2 is 7\.0 s {way}") as refused:
            require_alike([node(), node("n2", behind_s=behind_s)], insecure=False)
        assert "chronyc makestep" in refused.value.hint

    def test_versions_that_may_differ_are_said(self):
        other = {"cotenant": __version__, "torch": "2.12.0", "ray": "2.60.0", "python": "3.11.7"}
        assert list(differences([node(), node("n2")])) == []
        assert list(differences([node(), node("n2", versions=other)])) == [
            "nodes differ in torch: 2.13.0 on n1, 2.12.0 on n2"
        ]
        drivers = [node(devices=("cuda:0",), driver="535.1"), node("n2", devices=("cuda:0",), driver="550.2")]
        assert list(differences(drivers)) == ["nodes differ in the GPU driver: 535.1 on n1, 550.2 on n2"]

    def test_workers_that_stand_back_are_said(self):
        [sentence] = held_back([node(), node("n2", niceness=15)])
        assert "n2" in sentence
        assert "RAY_worker_niceness=0" in sentence

    def test_nodes_of_one_name_go_by_their_address(self):
        rows = [
            {"NodeID": "1", "NodeManagerHostname": "vm", "NodeManagerAddress": "127.0.0.2"},
            {"NodeID": "2", "NodeManagerHostname": "vm", "NodeManagerAddress": "127.0.0.3"},
            {"NodeID": "3", "NodeManagerHostname": "box", "NodeManagerAddress": "127.0.0.4"},
        ]
        assert [one.name for one in named(rows)] == ["127.0.0.2", "127.0.0.3", "box"]


class TestSelection:
    nodes = (
        node("n1", devices=("cpu", "cuda:0", "cuda:1"), labels={"rack": "r1"}),
        node("n2", devices=("cpu",), labels={"rack": "r2"}),
    )

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ("all", ["n1/cuda:0", "n1/cuda:1", "n2/cpu"]),
            ("cuda:*", ["n1/cuda:0", "n1/cuda:1"]),
            ("cpu", ["n1/cpu", "n2/cpu"]),
            ("n2/*", ["n2/cpu"]),
            ("rack=r1", ["n1/cuda:0", "n1/cuda:1"]),
            ("n1/cuda:1, n2/cpu", ["n1/cuda:1", "n2/cpu"]),
        ],
    )
    def test_forms(self, wanted, found):
        assert [host.name for host in select(wanted, self.nodes)] == found

    def test_gpus_go_by_their_uuid(self):
        assert [host.identities for host in select("cuda:*", self.nodes)] == [("GPU-n1",), ("GPU-n1-1",)]

    def test_nothing_fits(self):
        with pytest.raises(FleetError, match=r"no device of the cluster matches 'cuda:7'") as refused:
            select("cuda:7", self.nodes)
        assert "devices --on ray" in refused.value.hint

    def test_two_nodes_with_one_device(self):
        with pytest.raises(FleetError, match="n2/cpu and n1/cpu are the same device") as refused:
            select("cpu", [node("n1", machine="one"), node("n2", machine="one")])
        assert "one Ray node per machine" in refused.value.hint

    def test_a_simulated_fleet_shares_a_few_actors(self):
        hosts = select("sim:v100-sxm2-16gb*10", self.nodes)
        assert [len(host.members) for host in hosts] == [2, 3, 3, 2]
        assert [host.node.name for host in hosts] == ["n1", "n2", "n1", "n2"]
        assert [member for host in hosts for member in host.members] == [f"sim:v100-sxm2-16gb#{n}" for n in range(10)]


class TestRoles:
    def study(self, **keys):
        return Study.model_validate({"tenants": {"a": {"workload": "sleep"}}, "mixes": ["solo"], **keys})

    def test_a_matrix_is_divided_and_a_spread_is_repeated(self):
        hosts = select("cpu", [node("n1"), node("n2")])
        assert role_of(self.study(), hosts) == "workers"
        assert role_of(self.study(spread="each"), hosts) == "replicates"

    def test_unequal_devices_are_only_compared(self):
        hosts = select("all", TestSelection.nodes)
        with pytest.raises(FleetError, match="EPYC and V100"):
            role_of(self.study(), hosts)
        assert role_of(self.study(devices="compare"), hosts) == "compare"

    def test_one_trial_over_many_machines_is_refused(self):
        with pytest.raises(StudyError, match="a trial each"):
            role_of(self.study(spread="together"), select("cpu", [node()]))


class TestWire:
    def test_errors_keep_their_kind_and_say_where(self):
        said = wire.unpacked(wire.problem(DeviceBusy("cpu:0 is being measured by process 7", hint="wait")))
        with pytest.raises(DeviceBusy, match="n2: cpu:0 is being measured by process 7"):
            wire.raise_problem(said, "n2")

    def test_a_parcel_holds_plain_files_only(self, tmp_path):
        (tmp_path / "000001").mkdir()
        (tmp_path / "000001" / "seal.json").write_bytes(b"{}")
        data = wire.parcel(tmp_path / "000001")
        assert wire.opened(data) == {"000001": {"seal.json": b"{}"}}
        (tmp_path / "000001" / "link").symlink_to("/etc/passwd")
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w") as archive:
            archive.add(tmp_path / "000001" / "link", arcname="000001/link")
        with pytest.raises(FleetError, match="not a file of trials"):
            wire.opened(whole.getvalue())


def test_what_rays_library_prints_says_why_a_cluster_refuses(tmp_path, capfd):
    with (tmp_path / "log").open("wb+") as log:
        with _stderr_to(log.fileno()):
            os.write(2, b"Unauthenticated: RPC error: InvalidAuthToken: Authentication token is missing or incorrect\n")
        os.write(2, b"after\n")
        log.seek(0)
        refused = _unreachable(parse("ray://head:6379"), f"Failed to connect {log.read().decode()}")
    assert "no token in common" in refused.message
    assert capfd.readouterr().err == "after\n", "a user reads one sentence instead of many lines"
