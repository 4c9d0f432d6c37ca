"""One run at a time per device: the second learns who is first, and dead runs need no cleanup."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.devices import find_device
from cotenant.errors import DeviceBusy
from cotenant.measure.locking import device_lock

STUDY = "name: s\ntenants: {a: {workload: sleep}}\nmixes: [solo]\n"


@pytest.fixture
def locks(tmp_path):
    return tmp_path / "locks"


def hold(directory, *keys, run="runs/mine"):
    return device_lock(keys or ("cpu:0",), run=run, directory=directory)


def test_a_second_run_learns_who_is_measuring(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(STUDY)
    with device_lock(find_device("cpu").lock_keys(), run="runs/the-first"):
        code = main(["run", "s.yaml", "--out", "runs"])
    said = capsys.readouterr()
    assert code == 1
    assert said.out == ""
    assert f"is being measured by process {os.getpid()} (run 'runs/the-first')" in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "runs").exists(), "nothing was begun"


HOLDS = """
import sys
from cotenant.errors import DeviceBusy
from cotenant.measure.locking import device_lock
try:
    with device_lock([sys.argv[1]], run="runs/second"):
        print("held")
except DeviceBusy as busy:
    print(busy.message)
"""


def test_private_temporary_folders_do_not_let_two_runs_share_a_device(tmp_path, monkeypatch):
    """As under PrivateTmp, Slurm and most containers."""
    monkeypatch.delenv("COTENANT_LOCKS")
    key = f"test:{os.getpid()}"

    def elsewhere():
        around = {**os.environ, "TMPDIR": str(tmp_path)}
        command = [sys.executable, "-c", HOLDS, key]
        return subprocess.run(command, env=around, capture_output=True, text=True, check=True).stdout.strip()

    with device_lock([key], run="runs/first"):
        assert elsewhere() == (
            f"{key} is being measured by process {os.getpid()} (run 'runs/first'); "
            "two runs on one device would measure each other"
        )
    assert elsewhere() == "held"


KEEPS = """
import sys
from cotenant.measure.locking import device_lock
with device_lock([sys.argv[1]], run="runs/far"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("user", ["the same user", "another user"])
def test_a_run_in_another_network_namespace_is_found_by_its_processes(monkeypatch, user):
    """As for a service with PrivateNetwork, or a container seen from its host."""
    monkeypatch.delenv("COTENANT_LOCKS")
    key = f"test:{os.getpid()}"
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a network namespace can't be made here")
    as_user = ["setpriv", "--reuid", "65534", "--clear-groups"] if user == "another user" else []
    if as_user and subprocess.run([*as_user, sys.executable, "-c", "import cotenant"], cwd="/", check=False).returncode:
        pytest.skip("another user can't run this Python")
    command = [*apart, sys.executable, "-c", KEEPS, key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as far:
        assert far.stdout.readline() == "held\n"
        here = subprocess.run(
            [*as_user, sys.executable, "-c", HOLDS, key],
            cwd="/",
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert here.stdout.startswith(f"{key} is being measured by process "), here.stderr
        assert "(run 'runs/far') in another network namespace" in here.stdout
        far.stdin.close()
    with device_lock([key], run="runs/mine"):
        pass


def test_a_long_key_is_a_lock_as_well(monkeypatch):
    monkeypatch.delenv("COTENANT_LOCKS")
    key = f"{os.getpid()}:" + "x" * 300
    with device_lock([key], run="r" * 300), pytest.raises(DeviceBusy), device_lock([key], run="r"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change a folder's owner")
def test_a_lock_folder_owned_by_another_user_is_refused(locks):
    locks.mkdir()
    os.chown(locks, 65534, 65534)
    with pytest.raises(DeviceBusy, match="can't be used: it belongs to another user"), hold(locks):
        pass


def test_devices_that_share_a_core_exclude_each_other(locks):
    whole, first = find_device("cpu").lock_keys(), find_device("cpu:0").lock_keys()
    with hold(locks, *first), pytest.raises(DeviceBusy), hold(locks, *whole):
        pass
    with hold(locks, *whole), pytest.raises(DeviceBusy), hold(locks, *first):
        pass
    with hold(locks, *first), hold(locks, "cpu:1"):
        pass


def test_a_run_that_cannot_get_all_cores_holds_none(locks):
    with hold(locks, "cpu:1"):
        with pytest.raises(DeviceBusy), hold(locks, "cpu:0", "cpu:1"):
            pass
        with hold(locks, "cpu:0"):
            pass


@pytest.mark.parametrize("left", [b"", b"\xff\x00 rubbish", b"[1, 2]", b'{"pid": "x"}', b'{"pid": 1, "run": "old"}'])
def test_leftovers_of_a_dead_run_in_the_lock_file_are_ignored(locks, left):
    locks.mkdir()
    (locks / "cpu_0.lock").write_bytes(left)
    with hold(locks):
        assert json.loads((locks / "cpu_0.lock").read_text()) == {"pid": os.getpid(), "run": "runs/mine"}


def test_an_unknown_holder_is_called_another_run(locks):
    with hold(locks):
        (locks / "cpu_0.lock").write_bytes(b"\xff")
        with pytest.raises(DeviceBusy, match="cpu:0 is being measured by another run"), hold(locks):
            pass


def test_a_killed_run_holds_nothing(locks):
    script = (
        "import os, signal, sys; from pathlib import Path; from cotenant.measure.locking import device_lock\n"
        "with device_lock(['cpu:0'], run='r', directory=Path(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(locks)], check=False).returncode == -9
    with hold(locks):
        pass


def test_a_link_in_place_of_the_folder_is_not_followed(locks, tmp_path):
    (tmp_path / "precious").mkdir(mode=0o700)
    locks.symlink_to(tmp_path / "precious")
    with pytest.raises(DeviceBusy, match=f"the lock folder {locks} can't be used: "), hold(locks):
        pass
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "precious").iterdir()) == []


def test_a_link_in_place_of_the_file_is_not_followed(locks, tmp_path):
    (tmp_path / "precious").write_text("keep me")
    locks.mkdir()
    (locks / "cpu_0.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(DeviceBusy, match="can't be opened: too many levels of symbolic links"), hold(locks):
        pass
    assert (tmp_path / "precious").read_text() == "keep me"


def test_a_lock_path_of_the_wrong_kind_is_one_sentence(locks):
    locks.mkdir()
    (locks / "cpu_0.lock").mkdir()
    os.mkfifo(locks / "cpu_1.lock")
    (locks / "file").write_text("")
    for directory, key, reason in (
        (locks, "cpu:0", "is a directory"),
        (locks, "cpu:1", "it is not a regular file"),
        (locks / "file", "cpu:0", "file exists"),
    ):
        with pytest.raises(DeviceBusy, match=reason) as refusal, hold(directory, key):
            pass
        assert refusal.value.hint


AS_SOMEBODY_ELSE = """
import os, sys
from pathlib import Path
from cotenant.errors import DeviceBusy
from cotenant.measure.locking import device_lock
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    with device_lock(["cpu:0"], run="r", directory=Path(sys.argv[1])):
        print("held")
except DeviceBusy as busy:
    print(busy.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_users_share_the_lock_and_those_without_access_get_an_error():
    def somebody_else(directory: Path) -> str:
        command = [sys.executable, "-c", AS_SOMEBODY_ELSE, str(directory)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        locks = Path(place) / "locks"
        with hold(locks):
            assert somebody_else(locks) == (
                f"cpu:0 is being measured by process {os.getpid()} (run 'runs/mine'); "
                "two runs on one device would measure each other"
            )
        assert somebody_else(locks) == "held"
        (locks / "cpu_0.lock").chmod(0o644)
        assert somebody_else(locks) == "held", "a file that can only be read can be locked"
        assert somebody_else(Path(place) / "others") == (
            f"the lock folder {place}/others can't be used: permission denied"
        )
        locks.chmod(0o755)
        (locks / "cpu_0.lock").unlink()
        assert somebody_else(locks).endswith("cpu_0.lock of cpu:0 can't be opened: permission denied")


SERVED = "tenants: {a: {workload: resnet18-mini, slo: 60s}}\n"


def served_by(url="http://127.0.0.1:8700"):
    return device_lock(find_device("cpu").lock_keys(), run=f"serve {url}", purpose="serve")


def test_a_second_server_and_a_run_with_tenants_are_refused_while_a_server_has_the_device(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(STUDY)
    (tmp_path / "t.yaml").write_text(SERVED)
    with served_by():
        codes = [main(["serve", str(tmp_path / "t.yaml"), "--port", "0"]), main(["run", str(tmp_path / "s.yaml")])]
    said = capsys.readouterr().err
    assert codes == [1, 1]
    assert said.count(f"is in use by process {os.getpid()} (serve http://127.0.0.1:8700)") == 2
    assert "a study that only asks servers can run now" in said


def test_a_server_is_refused_while_a_run_measures(tmp_path, capsys):
    (tmp_path / "t.yaml").write_text(SERVED)
    with device_lock(find_device("cpu").lock_keys(), run="runs/mine"):
        assert main(["serve", str(tmp_path / "t.yaml"), "--port", "0"]) == 1
    assert "is being measured by process" in capsys.readouterr().err


def test_servers_share_what_they_do_not_use():
    """A server of backends only, or of a simulated GPU, uses no device here."""
    from cotenant.serving.server import Listening, _device_held
    from cotenant.serving.tenants_file import TenantsFile

    backend = {"v2": "http://127.0.0.1:9", "model": "m"}
    proxy = TenantsFile.model_validate({"tenants": {"a": {"slo": "1s", "backend": backend}}})
    model = {"a": {"workload": "bert-base", "slo": "1s"}}
    simulated = TenantsFile.model_validate({"tenants": model, "device": "sim:a100-sxm4-40gb"})
    real = TenantsFile.model_validate({"tenants": model, "device": "cpu"})
    with served_by():
        for file in (proxy, simulated):
            with _device_held(file, Listening(), "http://127.0.0.1:8701"):
                pass
        with pytest.raises(DeviceBusy), _device_held(real, Listening(), "http://127.0.0.1:8701"):
            pass
    with _device_held(real, Listening(), "http://127.0.0.1:8701"), pytest.raises(DeviceBusy), hold(None):
        pass


def test_whoever_only_asks_servers_measures_beside_a_server_but_not_beside_another_run(locks):
    def asking():
        return device_lock(("cpu:0",), run="runs/asks", directory=locks, purpose="ask")

    with device_lock(("cpu:0",), run="serve http://127.0.0.1:8700", directory=locks, purpose="serve"), asking():
        with pytest.raises(DeviceBusy, match=r"cpu:0 is being measured by .*runs/asks"), asking():
            pass
        with pytest.raises(DeviceBusy), hold(locks):
            pass
    with hold(locks), pytest.raises(DeviceBusy, match="runs/mine"), asking():
        pass
