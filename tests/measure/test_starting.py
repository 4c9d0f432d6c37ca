"""Tenant processes are forks of one process that has loaded what they import."""

import os
import signal
import socket
from pathlib import Path

import pytest

import cotenant
from cotenant.errors import TenantFailed
from cotenant.measure.tenants import starting
from cotenant.measure.tenants.reaper import Reaper

STUDY = """name: starting
tenants:
  a: {workload: sleep, params: {ms: 2}}
  b: {workload: sleep, params: {ms: 3}}
mixes: [pairs]
sharing: [processes, threads]
window: 100ms
lead: 20ms
blocks: 1
"""


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_all_processes_of_a_study_are_forks_of_one_server_and_none_outlives_the_run(tmp_path, monkeypatch):
    (tmp_path / "study.yaml").write_text(STUDY)
    parents = {}
    fork = starting.ForkServer.fork

    def watched(server, wanted):
        started = fork(server, wanted)
        parents[started.process.pid] = parent_of(started.process.pid)
        return started

    monkeypatch.setattr(starting.ForkServer, "fork", watched)
    result = cotenant.run(tmp_path / "study.yaml", out=tmp_path / "runs")
    serving = {
        pid for (pid,) in cotenant.sql("select distinct pid from tenants where tenant != 'null'", result.folder).rows
    }
    assert serving <= set(parents)
    assert len(set(parents.values())) == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in {*parents, *parents.values()})


def test_a_server_that_dies_while_it_loads_modules_is_named(tmp_path, monkeypatch):
    (tmp_path / "fatal_import.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    server = starting.ForkServer({}, "0" * 16)
    ours, theirs = socket.socketpair()
    wanted = starting.TenantStart(True, {}, "0" * 33, ("fatal_import",), theirs, 2, ())
    with ours, theirs, pytest.raises(TenantFailed, match="loads fatal_import for the tenants ended with exit code 7"):
        server.fork(wanted)
    server.close()


def test_a_server_that_hangs_while_it_loads_modules_is_named_and_killed(tmp_path, monkeypatch):
    (tmp_path / "endless_import.py").write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    server = starting.ForkServer({}, "0" * 16)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        first = server.fork(starting.TenantStart(True, {}, "0" * 33, (), theirs, 2, ()))
        monkeypatch.setattr(starting, "LOAD_S", 0.2)
        wanted = starting.TenantStart(True, {}, "0" * 33, ("endless_import",), theirs, 2, ())
        with pytest.raises(TenantFailed, match=r"loads endless_import for the tenants was not ready after 0\.2 s"):
            server.fork(wanted)
        assert first.process.wait() == -signal.SIGKILL
    assert not server.alive
    server.close()


def test_the_reaper_ends_although_a_fork_of_the_runner_holds_its_pipe():
    reaper = Reaper()
    fork = os.fork()
    if fork == 0:
        signal.pause()
    try:
        reaper.close()
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitpid(fork, 0)


def test_a_profiler_sees_programs_and_not_forks(tmp_path, monkeypatch):
    monkeypatch.setenv(starting.PROFILE, "ranges")
    monkeypatch.setattr(starting, "ForkServer", None)
    (tmp_path / "study.yaml").write_text(STUDY.replace("[processes, threads]", "[processes]"))
    cotenant.run(tmp_path / "study.yaml", out=tmp_path / "runs")
