"""Time to recover from a killed worker: until its tenant is refused with 503, until it is served again, and the others.

    python benchmarks/serving/faults.py [--kills 5] [--rest 60] [--device cpu:1]

Two tenants in processes of their own get a request every 10 ms. One worker is killed with SIGKILL. "Load" is the time
in which a new process imports the worker and builds the model, measured separately. ``--rest``: seconds before each
kill; a spare process is ready about half a minute after a start.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from urllib.request import urlopen

from load import LOST, Connection
from ours import server
from systems import post

TENANTS = """
tenants:
  victim: {workload: bert-base-mini, seq: 16, slo: 5s, isolation: process}
  other: {workload: bert-base-mini, seq: 16, slo: 5s, isolation: process}
"""
PERIOD_S = 0.01
BACK_S = 60.0
LOAD = """
from cotenant.serving.processes import child
from cotenant.serving.workers.servable import build_servable
from cotenant.workloads.protocol import WorkloadSpec
build_servable(WorkloadSpec(name="bert-base-mini", seq=16), device="cpu", dtype="float32")
"""
Answer = tuple[float, float, int]
"""When it was sent and answered, and its status."""


def load_s() -> float:
    """Time to import and build in a new process."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", LOAD], check=True)
    return time.perf_counter() - began


def worker_of(host: str, port: int, tenant: str) -> int | None:
    """The process of a tenant's worker."""
    with urlopen(f"http://{host}:{port}/status", timeout=30) as answer:
        workers = json.load(answer)["workers"]
    found: int | None = next(one["pid"] for one in workers if tenant in one["tenants"])
    return found


async def ask(where: tuple[str, int], tenant: str, answers: list[Answer], ends: asyncio.Event) -> None:
    """One request every few milliseconds, whether or not the last was answered."""
    ids = list(range(20, 36))
    body = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 16], "data": ids}]}
    wire = post(f"/v2/models/{tenant}/infer", json.dumps(body).encode())
    idle: list[Connection] = []
    running: set[asyncio.Task[None]] = set()

    async def one() -> None:
        connection = idle.pop() if idle else Connection(*where)
        sent = time.perf_counter()
        try:
            status = await connection.send(wire)
        except (OSError, EOFError):
            status = LOST
            connection.close()
        else:
            idle.append(connection)
        answers.append((sent, time.perf_counter(), status))

    while not ends.is_set():
        task = asyncio.create_task(one())
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(PERIOD_S)
    await asyncio.gather(*running)
    for connection in idle:
        connection.close()


async def kill_once(where: tuple[str, int]) -> dict[str, float]:
    """Kill the victim's worker under load."""
    seen: dict[str, list[Answer]] = {"victim": [], "other": []}
    ends = asyncio.Event()
    load = [asyncio.create_task(ask(where, name, answers, ends)) for name, answers in seen.items()]
    await asyncio.sleep(1.0)
    pid = await asyncio.to_thread(worker_of, *where, "victim")
    assert pid is not None
    killed = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while time.perf_counter() < killed + BACK_S:
        await asyncio.sleep(0.05)
        refused = [at for _, at, status in seen["victim"] if status == 503 and at > killed]
        back = [at for sent, at, status in seen["victim"] if status == 200 and refused and sent > refused[0]]
        if back:
            break
    ends.set()
    await asyncio.gather(*load)
    around = [at - sent for sent, at, _ in seen["other"] if sent > killed - 0.2]
    return {
        "refused_ms": 1e3 * (refused[0] - killed),
        "back_s": back[0] - killed,
        "other_worst_ms": 1e3 * max(around),
        "other_failed": sum(status != 200 for _, _, status in seen["other"]),
        "lost": sum(status == LOST for _, _, status in seen["victim"]),
    }


async def main(where: tuple[str, int], kills: int, rest_s: float) -> None:
    """Several kills, then the medians and the worst."""
    alone_s = statistics.median(load_s() for _ in range(3))
    rows = []
    for _ in range(kills):
        await asyncio.sleep(rest_s)
        rows.append(await kill_once(where))
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"{name}: median {statistics.median(values):.3g}, worst {max(values):.3g}")
    print(f"load: {alone_s:.2f} s; back after load: {statistics.median(row['back_s'] for row in rows) - alone_s:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rest", type=float, default=60.0)
    parser.add_argument("--device", default="cpu:1")
    chosen = parser.parse_args()
    with server(TENANTS, chosen.device) as (host, port, _):
        asyncio.run(main((host, port), chosen.kills, chosen.rest))
