"""Faults around a server: dying workers, malformed or stalled clients, signals."""

import contextlib
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.serving.server.conftest import serving
from tests.support import pace

IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_a_killed_worker_is_503_with_retry_after_then_back_and_others_are_served(server):
    os.kill(server.worker_of("gpt"), signal.SIGKILL)
    prompt = {"model": "gpt", "prompt": "a", "max_tokens": 2}
    seen = []

    def paused():
        seen.append(server.ask("/v1/completions", prompt))
        return seen[-1][0] == 503

    pace.until(paused)
    assert int(seen[-1][1]["retry-after"]) >= 1
    assert server.ask("/readyz")[0] == 503
    assert server.ask("/v2/models/bert/infer", IDS)[0] == 200
    pace.until(lambda: server.ask("/v1/completions", prompt)[0] == 200)
    assert server.ask("/readyz")[0] == 200
    restarts = {tuple(one["tenants"]): one["restarts"] for one in server.ask("/status")[2]["workers"]}
    assert restarts[("gpt",)] == 1
    assert restarts[("bert", "conv")] == 0


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\x00\xff" * 500,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v2/models/bert/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v2/models/bert/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /v2/models/%2e%2e%2f/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /v2/models/" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["bytes", "version", "length", "chunks", "path", "long"],
)
def test_malformed_requests_affect_only_their_sender(server, rubbish):
    with socket.create_connection(("127.0.0.1", server.port), timeout=pace.seconds(20)) as connection:
        connection.sendall(rubbish)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert server.ask("/v2/models/bert/infer", IDS)[0] == 200


def test_a_stalled_client_delays_no_one_else(server):
    head = b"POST /v2/models/bert/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", server.port), timeout=pace.seconds(20)) as connection:
        connection.sendall(head)
        assert server.ask("/v2/models/bert/infer", IDS)[0] == 200


def test_a_client_disconnecting_mid_stream_frees_its_request(server):
    body = b'{"model": "gpt", "prompt": "a", "max_tokens": 400, "stream": true}'
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=pace.seconds(60)) as connection:
        connection.sendall(head + body)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    pace.until(lambda: server.ask("/status")[2]["in_flight"] == 0)


def test_sigterm_finishes_accepted_requests_and_refuses_new_ones(tmp_path):
    tenants = (
        "tenants: {gpt: {workload: distilgpt2-mini, seq: 8, mode: generate, tokens: 200, slo: 300s}}\nthreads: 1\n"
    )
    answers = []
    with serving(tmp_path, tenants) as server:
        asking = threading.Thread(
            target=lambda: answers.append(server.ask("/v1/completions", {"model": "gpt", "prompt": "a"}))
        )
        asking.start()
        pace.until(lambda: server.ask("/status")[2]["in_flight"] == 1 or answers)
        server.process.send_signal(signal.SIGTERM)
        asking.join(pace.seconds(100))
        server.process.wait(pace.seconds(60))
    assert answers[0][0] == 200
    assert answers[0][2]["usage"]["completion_tokens"] == 200
    assert server.process.returncode == 0


def test_a_second_sigterm_ends_it_at_once(tmp_path):
    tenants = (
        "tenants: {gpt: {workload: distilgpt2-mini, seq: 8, mode: generate, tokens: 400, slo: 900s}}\nthreads: 1\n"
    )
    with serving(tmp_path, tenants) as server:
        worker = server.worker_of("gpt")
        for _ in range(8):
            threading.Thread(target=lambda: _quietly(server), daemon=True).start()
        pace.until(lambda: server.ask("/status")[2]["in_flight"] >= 4)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(pace.seconds(30)) in (143, 0)
        pace.until(lambda: not _lives(worker))


def _quietly(server):
    with contextlib.suppress(OSError):
        server.ask("/v1/completions", {"model": "gpt", "prompt": "a"})


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
