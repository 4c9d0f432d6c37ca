"""Real servers to watch."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.measure.watch.app import App
from tests.measure.watch.driving import free_port

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


@pytest.fixture
def prometheus(tmp_path):
    """Debian's Prometheus, scraping every second, with rules in files."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus isn't installed")
    running = []

    def start(*rules, **jobs):
        port = free_port()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in rules],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [url.removeprefix("http://")]}]}
                for job, url in jobs.items()
            ],
        }
        file = tmp_path / "prometheus.json"  # JSON is YAML
        file.write_text(json.dumps(config))
        process = subprocess.Popen(
            [program, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        running.append(process)
        return process, f"http://127.0.0.1:{port}"

    yield start
    for process in running:
        process.kill()
        process.wait()
