"""A real server: `cotenant serve` in a process with worker processes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.support import pace

PATIENCE_S = pace.seconds(120)
TENANTS = """
threads: 1
tenants:
  bert: {workload: bert-base-mini, seq: 16, slo: 60s, at_once: 2, group: encoders}
  conv: {workload: resnet18-mini, slo: 60s, group: encoders}
  gpt:
    {workload: distilgpt2-mini, seq: 8, mode: generate, tokens: 6, slo: {ttft: 60s, tpot: 5s}, at_once: 2,
     isolation: process}
"""


class Server:
    """A server under test."""

    def __init__(self, process, url):
        self.process = process
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.grpc = None

    def ask(self, path, body=None, headers=None, timeout=PATIENCE_S):
        """Status, headers and JSON of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.headers, _json(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, error.headers, _json(error.read())

    def worker_of(self, tenant):
        """The process that serves a tenant, as reported by the server."""
        workers = self.ask("/status")[2]["workers"]
        return next(one["pid"] for one in workers if tenant in one["tenants"])


def _json(body):
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


@contextlib.contextmanager
def serving(folder, tenants=TENANTS, *options, locks=None):
    """Start a server, and stop it; it shares a device with servers of other tests, unless they have the same locks."""
    file = folder / "tenants.yaml"
    file.write_text(tenants)
    process = subprocess.Popen(
        [sys.executable, "-m", "cotenant.cli.main", "serve", str(file), "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COTENANT_LOCKS": str(locks or folder / "locks")},
    )
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http"), "the server didn't start"
        yield Server(process, url)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(pace.seconds(40))
            except subprocess.TimeoutExpired:
                process.kill()
        process.stdout.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serving(tmp_path_factory.mktemp("server"), TENANTS, "--grpc-port", str(port)) as running:
        running.grpc = f"127.0.0.1:{port}"
        yield running
