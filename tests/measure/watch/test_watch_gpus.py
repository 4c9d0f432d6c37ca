"""Watching a GPU through its driver: who is on it, in which way, and how long each one's kernels ran."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.analyse.neighbours.watching import grant_sentence
from cotenant.devices.nvidia.nvml import find
from cotenant.devices.nvidia.process_use import ProcessUse, occupants
from cotenant.errors import DeviceError
from cotenant.measure.watch.watch_session import WatchSession
from tests.support import pace


@pytest.fixture
def process():
    """Starts processes that wait, with variables of their own."""
    running = []

    def start(**variables):
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, **variables}))
        return running[-1].pid

    yield start
    for one in running:
        one.kill()
        one.wait()
        one.stdin.close()


def session_of(tmp_path, *words, device="cuda:1"):
    return WatchSession([str(word) for word in words], device=device, every_s=1.0, histograms=(), root=tmp_path)


def test_time_on_the_gpu_by_process(mock_nvml, process):
    one, two = process(), process()
    mock_nvml.occupy(1, one, memory_bytes=1 << 30, load=0.6)
    mock_nvml.occupy(1, two, memory_bytes=2 << 30, load=0.2)
    use = ProcessUse(find(1))
    pace.until(lambda: use.read() or use.busy_s.get(one, 0) > 0.5)
    assert use.missing is None
    assert use.busy_s[two] / use.busy_s[one] == pytest.approx(1 / 3, rel=0.05)
    assert {found.pid: found.memory_bytes for found in occupants(find(1))} == {one: 1 << 30, two: 2 << 30}


def test_energy_is_divided_by_the_time_of_kernels(mock_nvml, process, tmp_path):
    one, two = process(), process()
    mock_nvml.occupy(1, one, memory_bytes=1 << 30, load=0.6)
    mock_nvml.occupy(1, two, memory_bytes=2 << 30, load=0.2)
    with session_of(tmp_path, one, two) as session:
        tracks = session.targets.tracks
        pace.until(lambda: all(track.latest().get("energy_j", (0, 0))[1] > 0 for track in tracks))
        joules, seconds = ([track.latest()[role][1] for track in tracks] for role in ("energy_j", "gpu_s"))
    assert joules[1] / joules[0] == pytest.approx(seconds[1] / seconds[0], rel=0.1)
    assert 1 < joules[0] / seconds[0] < 2 * 400  # W: up to the limits of this GPU


def test_an_idle_gpu_and_one_that_was_lost(mock_nvml):
    use = ProcessUse(find(1))
    use.read()
    assert (use.missing, use.busy_s) == (None, {})
    mock_nvml.change(1, lost=1)
    with pytest.raises(DeviceError, match="lost"):
        use.read()


def test_mps_clients_are_known_and_their_granted_share_is_read(mock_nvml, process, tmp_path):
    pid = process(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="40")
    mock_nvml.occupy(1, pid, memory_bytes=1 << 30, load=0.5, mps=True)
    assert [one.mps for one in occupants(find(1))] == [True]
    with session_of(tmp_path, f"chat={pid}") as session:
        pace.until(lambda: session.targets.tracks[0].rate("gpu_s", 1.0))
        watched = session.watched()
    [tenant] = watched.tenants
    [grant] = tenant.grants
    assert (grant.by, grant.granted, grant.got) == ("MPS", 40.0, None)
    assert "granted 40.0 % of the SMs (MPS); what it gets can't be seen here: a profiler" in grant_sentence(
        tenant, grant
    )
    assert tenant.facts["sharing"] == "mps"
    assert 0 < tenant.gpu_share < 1
    assert any("How many SMs" in said for said in watched.unseen)


def test_a_process_of_another_user_is_watched_and_what_it_hides_is_named(mock_nvml, process, tmp_path, monkeypatch):
    pid = process(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="40")
    mock_nvml.occupy(1, pid, memory_bytes=1 << 30, load=0.5, mps=True)
    readable = Path.read_bytes

    def read_bytes(path):
        if path == Path(f"/proc/{pid}/environ"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return readable(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with session_of(tmp_path, f"chat={pid}") as session:
        [track] = session.targets.tracks
        pace.until(lambda: track.latest().get("gpu_s"))
        unseen = session.watched().unseen
    assert track.facts["user"] == os.getuid()
    assert track.totals().grants == ()
    assert unseen[0] == (
        f"The MPS share of process {pid} is in the environment of another user's process; run this as that user to "
        "see it."
    )


def test_mig_instances_are_what_was_granted_and_their_use_is_not_told(mock_nvml, process, tmp_path):
    mock_nvml.change(1, mig=1)
    mock_nvml.add_instance(1, "3g.20gb", sms=42, slices=3, memory_mib=19968)
    mock_nvml.add_instance(1, "2g.10gb", sms=28, slices=2, memory_mib=9856)
    one, two = process(), process()
    mock_nvml.occupy(1, one, memory_bytes=4 << 30, load=0.5, instance=1)
    mock_nvml.occupy(1, two, memory_bytes=12 << 30, load=0.5, instance=2)
    with session_of(tmp_path, f"a={one}", f"b={two}") as session:
        pace.until(lambda: all("sharing" in track.facts for track in session.targets.tracks))
        watched = session.watched()
    a, b = watched.tenants
    assert {grant.what: (grant.by, grant.granted) for grant in a.grants}["SMs"] == ("MIG 3g.20gb", 42)
    memory = next(grant for grant in b.grants if grant.what == "memory")
    assert "more than the 9.62 GiB granted (MIG 2g.10gb)" in grant_sentence(b, memory)
    assert a.gpu_share is None
    assert any("DCGM" in said for said in watched.unseen)


def test_everything_on_the_gpu_is_watched_if_nothing_is_named(mock_nvml, process, tmp_path):
    pid = process()
    mock_nvml.occupy(1, pid, load=0.3)
    with session_of(tmp_path) as session:
        assert pid in {track.facts.get("pid") for track in session.targets.tracks}


def test_a_process_that_is_not_on_the_gpu_is_one_sentence(mock_nvml, process, tmp_path):
    here, elsewhere = process(), process()
    mock_nvml.occupy(1, here, load=0.3)
    with session_of(tmp_path, here, elsewhere) as session:
        notes = session.notes()
    assert any(f"Process {elsewhere} isn't on GPU 1" in note and str(here) in note for note in notes)
    assert len(session.targets.tracks) == 2


def test_processes_of_another_container_are_reported(mock_nvml, process, tmp_path):
    here = process()
    mock_nvml.occupy(1, here, load=0.3)
    mock_nvml.change(1, processes=[(4194303, 1 << 30)])
    with session_of(tmp_path, here) as session:
        unseen = session.watched().unseen
    assert any("4194303" in said and "--pid=host" in said for said in unseen)


def test_a_gpu_lost_while_watched_is_one_sentence_and_the_rest_goes_on(mock_nvml, process, tmp_path):
    pid = process()
    mock_nvml.occupy(1, pid, load=0.3)
    with session_of(tmp_path, pid) as session:
        session.wait(1.5)
        mock_nvml.change(1, lost=1)
        pace.until(lambda: any("is lost" in note for note in session.notes()))
        before = session.targets.tracks[0].latest()["cpu_s"][0]
        pace.until(lambda: session.targets.tracks[0].latest()["cpu_s"][0] > before)


@pytest.mark.parametrize(
    ("device", "said"), [("cuda:9", "no GPU"), ("sim:t4", "can't be watched"), ("rocm:0", "watched")]
)
def test_devices_that_cannot_be_watched_are_refused(mock_nvml, tmp_path, device, said):
    with pytest.raises(DeviceError, match=said):
        session_of(tmp_path, os.getpid(), device=device)
