"""Real servers to watch."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.measure.watch.app import App

APP = Path(__file__).with_name("app.py")


@pytest.fixture
def app():
    """Starts applications with a histogram in this process."""
    running = []

    def start(port=0):
        server = App(("127.0.0.1", port))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def app_process():
    """Starts the application in processes of its own; gives the process and its address."""
    running = []

    def start(port=0):
        process = subprocess.Popen([sys.executable, str(APP), str(port)], stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()
