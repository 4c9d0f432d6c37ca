"""The calls of Triton's public examples give the same results through us as from Triton itself."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.serving.server.conftest import serving
from tests.serving.server.triton_models import write_models
from tests.support import pace
from tests.support.elsewhere import interpreter

pytestmark = [pytest.mark.slow, pytest.mark.long]
SCRIPT = Path(__file__).parent / "clients" / "triton_examples.py"
TRITON = Path(__file__).parents[2] / "workloads" / "servers" / "peers" / "triton_server.py"
DIFFERENT = {"http_shared_memory", "grpc_shared_memory"}
"""Shared memory isn't offered."""
STRINGS = {"http_strings", "grpc_strings"}
"""The Python backend of nvidia-pytriton 0.7 may die of them; the tests of the gRPC front pass them to an echo."""


def free_ports(count):
    """Ports that nothing listens on."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in holders]
    for one in holders:
        one.close()
    return found


def fetched(url, process, within_s=200):
    """The answer of a server that is starting."""
    end = time.monotonic() + pace.seconds(within_s)
    while True:
        try:
            with urllib.request.urlopen(url, timeout=pace.seconds(10)) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, "it ended"
            assert time.monotonic() < end, "it never answered"
            time.sleep(0.3)


def results(http, grpc):
    """By example."""
    command = [interpreter("tritonclient"), str(SCRIPT), f"127.0.0.1:{http}", f"127.0.0.1:{grpc}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=pace.seconds(200), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tritons_examples_give_the_same_results_through_us(tmp_path):
    python = interpreter("pytriton", "COTENANT_TRITON")
    http, grpc, metrics, our_grpc = free_ports(4)
    names = write_models(tmp_path / "models")
    command = [python, str(TRITON), str(tmp_path), str(http), str(grpc), str(metrics)]
    backends = "".join(
        f"  {name}: {{slo: 20s, backend: {{v2: 'http://127.0.0.1:{http}', model: {name}, cost: 10ms}}}}\n"
        for name in names
    )
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            fetched(f"http://127.0.0.1:{http}/v2/health/ready", process)
            theirs = results(http, grpc)
            with serving(tmp_path, f"tenants:\n{backends}", "--grpc-port", str(our_grpc)) as server:
                ours = results(server.port, our_grpc)
        finally:
            process.kill()
    failed = {name for name, found in theirs.items() if isinstance(found, str)}
    assert failed <= STRINGS
    compared = theirs.keys() - failed
    assert {name for name in compared if ours[name] != theirs[name]} == DIFFERENT
    assert len(compared - DIFFERENT) >= 12
