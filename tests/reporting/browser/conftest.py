"""A folder of runs, and a server over it."""

import http.client
import threading
from dataclasses import replace

import pytest

from cotenant.reporting.browser.server import LIMITS, ViewServer
from cotenant.reporting.browser.site import site_over
from tests.reporting.browser.view_runs import write_run
from tests.support import pace


class Browserless:
    """Sends requests to a server over a real socket, without state."""

    def __init__(self, server, index):
        self.server, self.index = server, index
        self.url = server.url

    def ask(self, path, method="GET", host=None, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=pace.seconds(60))
        try:
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", f"127.0.0.1:{self.server.port}" if host is None else host)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders(body)
            answer = connection.getresponse()
            answer.text = answer.read().decode()
            return answer
        finally:
            connection.close()

    def key(self, name):
        """The key of a run in URLs."""
        [found] = [listed.entry.key for listed in self.index.all() if listed.entry.name == name]
        return found


@pytest.fixture
def serve():
    """Start a server over a folder; all are stopped with the test."""
    running = []

    def start(root, **limits):
        site, index = site_over(root)
        index.watch()
        server = ViewServer(0, site, replace(LIMITS, **limits))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        running.append((server, index, thread))
        return Browserless(server, index)

    yield start
    for server, index, thread in running:
        index.close()
        with server:
            server.stop()
            thread.join(pace.seconds(60))


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two runs of one study, the later one slower; one simulated; one that can't be read."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "pairs" / "monday", day=1)
    write_run(root / "pairs" / "tuesday", day=2, slow=1.3)
    write_run(root / "solo-sim", day=3, study="other", device="sim:a100", simulated=True, verdict="unstable", blocks=1)
    (root / "broken").mkdir()
    (root / "broken" / "manifest.json").write_text("{")
    return root


@pytest.fixture
def site(serve, runs):
    return serve(runs)
