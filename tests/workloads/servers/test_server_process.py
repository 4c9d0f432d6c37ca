"""A server started by cotenant: ready or abandoned, and gone with all its children, however it behaves."""

import sys

import psutil
import pytest

from cotenant.errors import WorkloadError
from cotenant.workloads.servers import process as server_process
from cotenant.workloads.servers.process import ServerProcess
from cotenant.workloads.servers.spec import ServerSpec

READY = """
import http.server, signal, subprocess, sys, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *a): pass
"""
SERVE = "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()"


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(server_process, "PATIENCE_S", 0.3)
    started = []

    def start(code: str, **options) -> ServerProcess:
        script = tmp_path / "serve.py"
        script.write_text(code)
        started.append(ServerProcess(ServerSpec(start=f"{sys.executable} {script} {{port}}", **options)))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def refusal(call) -> str:
    with pytest.raises(WorkloadError) as refused:
        call()
    return refused.value.message


def test_it_is_ready_when_its_path_answers(server):
    assert server(READY + SERVE).wait_until_ready() > 0


def test_a_server_that_never_listens_is_abandoned_with_the_end_of_its_log(server):
    code = "import time\nprint('loading weights', flush=True)\ntime.sleep(60)"
    message = refusal(server(code, ready_within_s=3).wait_until_ready)
    assert "was not ready after" in message
    assert message.endswith("nothing answered at /health; its log ends: loading weights")


def test_a_server_that_ends_while_starting_is_reported_with_its_log(server):
    message = refusal(server("print('one')\nprint('two')\nraise SystemExit('no such model')").wait_until_ready)
    assert message == "the server ended with exit code 1; its log ends: one / two / no such model"


def test_a_server_that_ignores_sigterm_is_killed(server):
    running = server(READY + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVE)
    running.wait_until_ready()
    running.stop()
    assert not psutil.pid_exists(running.pid)


@pytest.mark.parametrize("own_session", [False, True])
def test_its_children_are_stopped_too(server, own_session):
    spawn = f"subprocess.Popen(['sleep', '60'], start_new_session={own_session})\n"
    running = server(READY + spawn + SERVE)
    running.wait_until_ready()
    [child] = children(running.pid)
    running.stop()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_missing_program_is_refused():
    spec = ServerSpec(start="no-such-server --port {port}")
    assert refusal(lambda: ServerProcess(spec)) == "there is no program `no-such-server` to start the server with"
