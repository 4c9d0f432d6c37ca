"""Watching back in time, from a Prometheus server that scrapes real servers."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

import cotenant
from cotenant.clients import prometheus as client
from cotenant.clients.address import read_address
from cotenant.clients.prometheus import PrometheusServer
from cotenant.errors import WatchError
from tests.measure.watch.driving import free_port, traffic
from tests.support import pace

METRIC = "http_request_duration_seconds"
SERVED = """
threads: 1
tenants:
  net: {workload: resnet18-mini, slo: 60s}
"""


@pytest.fixture
def serve(tmp_path):
    """`cotenant serve` with one small model."""
    file = tmp_path / "tenants.yaml"
    file.write_text(SERVED)
    command = [sys.executable, "-m", "cotenant.cli.main", "serve", str(file), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    yield process.stdout.readline().strip()
    process.terminate()
    process.wait(pace.seconds(60))
    process.stdout.close()


def scraped(url, query, at_least):
    """Whether Prometheus has so many samples."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?query={query}", timeout=pace.seconds(5)) as answer:
            found = json.load(answer)["data"]["result"]
    except (OSError, ValueError):
        return False
    return any(float(one["value"][1]) >= at_least for one in found)


@pytest.mark.slow
def test_real_servers_through_a_real_prometheus(prometheus, serve, app_process, tmp_path):
    _, url = app_process()
    _, server = prometheus(web=url, models=serve)
    with traffic(url):
        pace.until(lambda: scraped(server, f"count_over_time({METRIC}_count[5m])", 6), 120)
        pace.until(lambda: scraped(server, "count_over_time(cotenant_latency_seconds_count[5m])", 4), 120)
    found = cotenant.watch(prometheus=server, seconds=600, histograms=[METRIC], out=tmp_path / "runs")
    tenants = {one.tenant: one for one in found.tenants}
    assert set(tenants) == {"web", "net"}
    assert tenants["web"].requests > 20
    assert tenants["web"].mean_ms >= 5
    assert tenants["net"].software == "cotenant"
    assert cotenant.show_watched(found.folder).tenants[0].requests == found.tenants[0].requests


@pytest.mark.slow
def test_a_gap_is_unknown_and_a_restart_is_counted(prometheus, app_process, tmp_path):
    process, url = app_process()
    port = int(url.rpartition(":")[2])
    _, server = prometheus(web=url)
    counted = f"count_over_time({METRIC}_count[5m])"
    with traffic(url):
        pace.until(lambda: scraped(server, counted, 6), 120)
        process.kill()
        process.wait()
        time.sleep(5)  # longer than several scrapes: this is the gap
        app_process(port)
        pace.until(lambda: scraped(server, counted, 14), 120)
    [tenant] = cotenant.watch(prometheus=server, seconds=600, histograms=[METRIC], out=tmp_path / "runs").tenants
    assert tenant.restarts == 1
    assert tenant.unknown_s > 4


def test_a_prometheus_that_is_down_is_one_sentence(tmp_path):
    with pytest.raises(WatchError, match="doesn't answer"):
        cotenant.watch(prometheus=f"http://127.0.0.1:{free_port()}", out=tmp_path)


@pytest.mark.slow
def test_a_prometheus_without_known_servers_says_what_to_do(prometheus, app_process, tmp_path):
    _, url = app_process()
    _, server = prometheus(web=url)
    pace.until(lambda: scraped(server, "count_over_time(up[5m])", 2), 120)
    with pytest.raises(WatchError, match="recorded nothing of servers that are known") as raised:
        cotenant.watch(prometheus=server, out=tmp_path)
    assert "--histogram" in raised.value.hint


@pytest.fixture
def imitation():
    """Something that answers queries as told."""
    running = []

    def start(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                query = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, body = answer(urllib.parse.parse_qs(query))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def success(result):
    return 200, json.dumps({"status": "success", "data": {"result": result}}).encode()


def test_a_clock_that_differs_is_noted_and_its_times_are_used(imitation, tmp_path):
    ahead = time.time() + 600

    def answer(query):
        if query["query"] == ["time()"]:
            return success([ahead, str(ahead)])
        labels = {"job": "web", "instance": "gpu7:8000"}
        values = [(ahead - 100 + 2 * at, str(10 * at)) for at in range(50)]
        return success([
            {"metric": {"__name__": f"{METRIC}_count", **labels}, "values": values},
            {"metric": {"__name__": f"{METRIC}_sum", **labels}, "values": [(t, str(float(n) / 50)) for t, n in values]},
        ])  # fmt: skip

    found = cotenant.watch(prometheus=imitation(answer), seconds=600, histograms=[METRIC], out=tmp_path)
    assert any("10 min ahead of this machine's" in note for note in found.notes)
    assert found.since_s == pytest.approx(ahead - 100)
    assert found.tenants[0].rate_rps == pytest.approx(5.0)
    assert found.tenants[0].mean_ms == pytest.approx(20.0)


def test_an_answer_that_is_too_large_is_asked_for_in_parts(imitation, monkeypatch):
    monkeypatch.setattr(client, "LARGEST_ANSWER", 1500)
    asked = []

    def answer(query):
        [until_s], seconds = query["time"], int(query["query"][0].rpartition("[")[2][:-2])
        asked.append(seconds)
        first = float(until_s) - seconds
        values = [(first + at, "1") for at in range(seconds + 1)]
        return success([{"metric": {"__name__": "up"}, "values": values}])

    [one] = PrometheusServer(read_address(imitation(answer))).recorded(["up"], 1000, 1200)
    assert max(asked) == 200
    assert min(asked) < 100
    assert list(one.t_s) == [float(1000 + at) for at in range(201)]  # each sample once


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, b"<html>a page</html>"), "isn't a Prometheus server"),
        ((404, b"nothing here"), "isn't a Prometheus server"),
        (
            (400, b'{"status": "error", "error": "invalid matcher"}'),
            "refuses the query with status 400: invalid matcher",
        ),
    ],
)
def test_what_is_not_prometheus_or_refuses_is_one_sentence(imitation, tmp_path, answer, said):
    with pytest.raises(WatchError, match=said):
        cotenant.watch(prometheus=imitation(lambda _: answer), out=tmp_path)
