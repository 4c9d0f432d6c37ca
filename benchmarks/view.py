"""Response times of `view` over a thousand runs: a server in a separate process, queried over a socket."""

import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RUNS = 1000
TRIALS = 9
ROUNDS = 30
SETTLED_S = 1.5
"""Anything changed within the last second is reread by every answer; a real folder of a thousand runs isn't that
fresh."""


def measure() -> dict[str, Any]:
    """Milliseconds of each kind of answer (median and slowest of the rounds), and the start-up time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, RUNS)
        time.sleep(SETTLED_S)
        begin = time.perf_counter()
        command = [sys.executable, "-m", "cotenant.cli.main", "view", str(folder), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            try:
                port = int(server.stdout.readline().rstrip("/\n").rpartition(":")[2])
                ready_s = time.perf_counter() - begin
                first_ms = _ms(port, "/")
                counted_s = _counted(port, begin)
                rows = [_row(title, port, path) for title, path in _addresses(port).items()]
            finally:
                server.terminate()
    return {
        "runs": RUNS,
        "trials": RUNS * TRIALS,
        "rounds": ROUNDS,
        "ready_s": ready_s,
        "first_ms": first_ms,
        "counted_s": counted_s,
        "rows": rows,
    }


def make(folder: Path, runs: int) -> None:
    """Write this many runs of a few trials each: one is written, the others are copies with their own identity."""
    from synthetic_run import make as make_run

    first = folder / "study-0" / "run-0000"
    make_run(first, TRIALS, 20, seed=1)
    manifest = json.loads((first / "manifest.json").read_text("utf-8"))
    for number in range(runs):
        path = folder / f"study-{number % 10}" / f"run-{number:04d}"
        if number:
            shutil.copytree(first, path)
        identity = {
            "run": f"r{number:04d}",
            "study_name": f"study {number % 10}",
            "device": "cpu" if number % 3 else "sim:a100-sxm4-40gb",
            "state": "complete" if number % 7 else "interrupted",
            "sessions": [{"started_utc": f"2030-01-{1 + number % 28:02d}T10:00:00+00:00"}],
        }
        (path / "manifest.json").write_text(json.dumps(manifest | identity), "utf-8")


def _addresses(port: int) -> dict[str, str]:
    runs = json.loads(_ask(port, "/runs.json"))["runs"]
    return {
        "the list": "/",
        "the last page of the list": "/?page=10",
        "filtered by three words": "/?q=study+3+cpu",
        "what a watched list asks for": "/runs.json",
        "progress of one run": f"/run/{runs[0]['key']}/progress.json",
        "a report that was opened before": f"/run/{runs[0]['key']}",
    }


def _row(title: str, port: int, path: str) -> dict[str, Any]:
    _ask(port, path)
    times = [_ms(port, path) for _ in range(ROUNDS)]
    return {"what": title, "median_ms": statistics.median(times), "worst_ms": max(times)}


def _counted(port: int, begin: float) -> float:
    """Seconds until the verdicts of the oldest runs, counted last, are known."""
    while any(run["verdicts"] is None for run in json.loads(_ask(port, "/runs.json?page=10"))["runs"]):
        time.sleep(0.2)
    return time.perf_counter() - begin


def _ms(port: int, path: str) -> float:
    begin = time.perf_counter()
    _ask(port, path)
    return (time.perf_counter() - begin) * 1e3


def _ask(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status)
        return body
    finally:
        connection.close()


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
