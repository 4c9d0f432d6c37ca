"""Whether other tools measure the same on a real server: cotenant and each peer in turn, several rounds.

`difference` is the tool's median minus ours, with a 95 % interval over the rounds: it should contain 0. The tools are
given as for `servers.py`, the server by its start line:

    LIVE='llama-server --model MODEL_FOLDER/model.gguf --host 127.0.0.1 --port {port}' python benchmarks/servers_live.py
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from servers import Server, Tool, installed

RATE_RPS = 8.0
ROUNDS = 4
METRICS = ("ttft_ms", "itl_ms")


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


def compared(server: Server, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Medians of each tool by round, and the differences from ours."""
    medians: dict[str, dict[str, list[float]]] = {name: {metric: [] for metric in METRICS} for name in tools}
    for number in range(ROUNDS):
        order = list(tools.items())
        for name, tool in order if number % 2 == 0 else reversed(order):
            found = tool(server, RATE_RPS)
            for metric in METRICS:
                medians[name][metric].append(found[metric]["p50"])
    ours_ms = medians["cotenant"]
    return {
        "rate_rps": RATE_RPS,
        "rounds": ROUNDS,
        "medians_ms": {name: {one: float(np.mean(seen)) for one, seen in of.items()} for name, of in medians.items()},
        "difference_ms": {
            name: {one: _interval(np.subtract(medians[name][one], ours_ms[one])) for one in METRICS}
            for name in tools
            if name != "cotenant"
        },
    }


def _interval(differences: Any) -> dict[str, float]:
    mean, error = float(np.mean(differences)), float(stats.sem(differences))
    half = float(stats.t.ppf(0.975, len(differences) - 1)) * error
    return {"mean": mean, "low": mean - half, "high": mean + half}


def main() -> None:
    """The comparison, as JSON on stdout."""
    found: dict[str, Any] = {}
    if start := os.environ.get("LIVE"):
        with live(start) as server:
            found = {"program": Path(start.split()[0]).name, **compared(server, installed())}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
