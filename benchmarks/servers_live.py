"""Whether other tools measure the same on a real server: cotenant and each peer in turn, several rounds.

`difference` is the tool's median minus ours over the same API in the same round, with a 95 % interval over the rounds:
it should contain 0. The tools are given as for `servers.py`, the server by its start line:

    LIVE='llama-server --model MODEL_FOLDER/model.gguf --host 127.0.0.1 --port {port}' python benchmarks/servers_live.py
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from servers import Server, Tool, installed, ours

RATE_RPS = 8.0
ROUNDS = 4
METRICS = ("ttft_ms", "itl_ms")
APIS = {"AIPerf": "chat", "vllm bench serve": "completions"}
"""What each peer requests."""


@contextmanager
def live(start: str) -> Iterator[Server]:
    """A real server for the duration of a block of code."""
    from cotenant.workloads.servers.process import ServerProcess
    from cotenant.workloads.servers.spec import ServerSpec

    process = ServerProcess(ServerSpec(start=start))
    try:
        process.wait_until_ready()
        server = Server(process.port)
        server.model = server.get("/v1/models")["data"][0]["id"]
        yield server
    finally:
        process.stop()


def compared(server: Server, peers: Mapping[str, Tool]) -> dict[str, Any]:
    """Medians of each tool by round, and its differences from ours."""
    found = {}
    for name, peer in peers.items():
        pair: dict[str, Tool] = {"cotenant": partial(ours, api=APIS[name]), name: peer}
        seen: dict[str, list[dict[str, Any]]] = {tool: [] for tool in pair}
        for number in range(ROUNDS):
            order = list(pair.items())
            for tool, measure in order if number % 2 == 0 else reversed(order):
                seen[tool].append(measure(server, RATE_RPS))
        found[name] = {metric: _compared(seen["cotenant"], seen[name], metric) for metric in METRICS}
    return {"rate_rps": RATE_RPS, "rounds": ROUNDS, "peers": found}


def _compared(mine: list[dict[str, Any]], theirs: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    medians = [[one[metric]["p50"] for one in rounds] for rounds in (mine, theirs)]
    difference = _interval(np.subtract(medians[1], medians[0]))
    return {"cotenant": medians[0], "peer": medians[1], "difference": difference}


def _interval(differences: Any) -> dict[str, float]:
    mean, error = float(np.mean(differences)), float(stats.sem(differences))
    half = float(stats.t.ppf(0.975, len(differences) - 1)) * error
    return {"mean": mean, "low": mean - half, "high": mean + half}


def main() -> None:
    """The comparison, as JSON on stdout."""
    found: dict[str, Any] = {}
    if start := os.environ.get("LIVE"):
        with live(start) as server:
            peers = {name: tool for name, tool in installed().items() if name in APIS}
            found = {"program": Path(start.split()[0]).name, **compared(server, peers)}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
