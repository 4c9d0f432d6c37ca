"""Studies on Ray nodes of this machine: speed-up over nodes, cost per trial against a local run, and a large fleet."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from ray_nodes import NODES, RayNodes, ray_nodes

SLEEPY = """
name: sleepy
tenants:
  a: {workload: sleep, params: {ms: 4}}
  b: {workload: sleep, params: {ms: 6}}
mixes: [solo]
window: 400ms
lead: 100ms
blocks: 30
"""
"""60 trials in 30 blocks, which 1, 2 and 3 nodes can share evenly."""
DIES = """
name: dies
tenants: {g: {workload: resnet50, batch: 8}}
mixes: [solo]
window: 200ms
blocks: 10
spread: each
"""
FLEET = "sim:v100-sxm2-16gb*1000"
QUESTIONS = (("db", "gpus"), ("db", "anomalies"))
MEASURED = (0, 2, 3)
"""Exit codes of a run that measured everything, whatever it found."""
ROUNDS = int(os.environ.get("ROUNDS", "2"))


def measure(parts: Iterable[str]) -> dict[str, Any]:
    """The parts named, on one cluster of three nodes."""
    with ray_nodes(len(NODES)) as nodes:
        return {key: value for part in parts for key, value in PARTS[part](nodes).items()}


def _speed_up(nodes: RayNodes) -> dict[str, Any]:
    """Medians over rounds in which local and every number of nodes take turns."""
    study = nodes.home / "sleepy.yaml"
    study.write_text(SLEEPY)
    rounds: dict[int, list[float]] = {count: [] for count in range(len(NODES) + 1)}
    for number in range(ROUNDS):
        for count, spans in rounds.items():
            out = nodes.home / f"{count}-{number}"
            where = ["--on", nodes.address, "--devices", ",".join(f"{node}/cpu" for node in NODES[:count])]
            _ended(nodes.cotenant("run", study, "--out", out, "-q", *(where if count else [])))
            spans.append(_span_s(next(out.glob("*/*/manifest.json")).parent))
    local, *fleet = (statistics.median(spans) for spans in rounds.values())
    return {
        "trials": 60,
        "rounds": ROUNDS,
        "local_s": local,
        "nodes": {
            count: {"seconds": seconds, "speed_up": fleet[0] / seconds, "of_linear": fleet[0] / seconds / count}
            for count, seconds in enumerate(fleet, 1)
        },
    }


def _span_s(run: Path) -> float:
    """From the first trial's start to the last one's end; nodes of one machine have the same clock."""
    from cotenant.store.reading import open_runs

    with open_runs([run]) as runs:
        count, span_ns = runs.con.execute(
            "SELECT count(*), max(window_start_ns + window_s * 1e9) - min(start_ns) FROM trials WHERE block >= 0"
        ).fetchone()
    assert count == 60, f"{run} has {count} trials"
    return float(span_ns) / 1e9


def _large_fleet(nodes: RayNodes) -> dict[str, Any]:
    study = nodes.home / "dies.yaml"
    study.write_text(DIES)
    before = _memory(nodes)
    begin, peak = time.monotonic(), 0
    run = nodes.cotenant("run", study, "--on", nodes.address, "--devices", FLEET, "-q", "--out", nodes.home / "large")
    while run.poll() is None:
        peak = max(peak, _memory(nodes))
        time.sleep(0.5)
    _ended(run)
    seconds = time.monotonic() - begin
    folder = next((nodes.home / "large").glob("*/*/manifest.json")).parent
    db = ["--db", str(nodes.home / "large.db")]
    asked, cpu = {}, {}
    for words in (("db", "add", str(folder)), *QUESTIONS):
        begin, used = time.monotonic(), _children_cpu_s()
        _ended(nodes.cotenant(*words, *db, "--json"))
        verb = " ".join(words[:2])
        asked[verb], cpu[verb] = time.monotonic() - begin, _children_cpu_s() - used
    return {
        "devices": 1000,
        "trials": json.loads((folder / "manifest.json").read_text())["trials"],
        "seconds": seconds,
        "peak_mib": (peak - before) / 2**20,
        "cluster_mib": before / 2**20,
        "database_s": asked,
        "database_cpu_s": cpu,
    }


def _children_cpu_s() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _memory(nodes: RayNodes) -> int:
    """Of all processes of the cluster and its commands: what would be free without them."""
    total = 0
    for one in nodes.processes():
        try:
            total += one.memory_full_info().uss
        except psutil.Error:
            continue
    return total


def _ended(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate()
    if process.returncode not in MEASURED:
        sys.exit(f"{process.args} ended with {process.returncode}:\n{out[-1000:]}\n{err[-3000:]}")


PARTS = {"speed_up": _speed_up, "large": lambda nodes: {"fleet": _large_fleet(nodes)}}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:] or PARTS), indent=2))
