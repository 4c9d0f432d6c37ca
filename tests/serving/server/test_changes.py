"""A server whose workers are replaced under load, by a new version of the file."""

import os
import signal
import threading
import time

import pytest

from tests.serving.server.conftest import serving
from tests.support import pace

pytestmark = pytest.mark.slow
IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}
TENANTS = "threads: 1\ntenants:\n  bert: {workload: bert-base-mini, seq: 16, slo: 60s, at_once: %d}\n"


class Asking(threading.Thread):
    """A client that repeats requests."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.answers, self.enough = server, [], threading.Event()

    def run(self):
        while not self.enough.is_set():
            self.answers.append((time.monotonic(), self.server.ask("/v2/models/bert/infer", IDS)[0]))

    def end(self):
        self.enough.set()
        self.join(pace.seconds(120))
        return self.answers


def test_reloading_on_sighup_loses_no_request(tmp_path):
    with serving(tmp_path, TENANTS % 1) as server:
        before = server.worker_of("bert")
        clients = [Asking(server) for _ in range(3)]
        for client in clients:
            client.start()
        (tmp_path / "tenants.yaml").write_text(TENANTS % 2)
        server.process.send_signal(signal.SIGHUP)
        pace.until(lambda: server.worker_of("bert") != before)
        changed = time.monotonic()
        pace.until(lambda: all(client.answers[-1][0] > changed for client in clients))
        answers = [answer for client in clients for answer in client.end()]
        pace.until(lambda: not os.path.exists(f"/proc/{before}"))  # noqa: PTH110
        (tmp_path / "tenants.yaml").write_text("tenants: {bert: {workload: bert-base-mini}}")
        status, _, refused = server.ask("/reload", {})
        assert server.ask("/v2/models/bert/infer", IDS)[0] == 200
    assert {status for _, status in answers} == {200}
    assert status == 409
    assert "serve needs an objective" in refused["error"]
