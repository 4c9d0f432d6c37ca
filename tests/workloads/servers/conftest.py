"""A server with known timing, in a separate process."""

import json
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.support import pace


class Running:
    """A running scripted server."""

    def __init__(self, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "cotenant.workloads.servers.scripted", "--port", str(self.port), *options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{self.port}"
        pace.until(self._answers)

    def _answers(self) -> bool:
        try:
            self.get("/health")
        except OSError:
            return False
        return True

    def get(self, path: str):
        with urllib.request.urlopen(self.address + path, timeout=pace.seconds(5)) as answer:
            return json.load(answer)


@pytest.fixture
def scripted():
    running = []

    def start(*options: str) -> Running:
        running.append(Running(*options))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.process.wait()
