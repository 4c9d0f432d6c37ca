"""Overhead of a request over HTTP: a model that does nothing, behind cotenant, Triton and Mosec, round by round.

    python benchmarks/serving/no_op.py --envs ENVS [--rounds 6] [--requests 300] [--within 240]

64 numbers in JSON, one request at a time, then 16 in flight. Front ends and the client share one core, models have the
other. Prints the median time and the CPU time per request of the server and its workers, and of the server's first
process alone: of each round as it ends, then the medians. Ends after ``--within`` seconds with the rounds it has. See
peers/README.md.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil
from load import Connection
from machine import spent_s
from systems import HERE, HOST, Ground, System, free_port, launched, post, start, wait_ready

NAME = "nothing"
IN_FLIGHT = 16
LONGEST_S = 2.0
"""Of a round with several in flight: a server that is slow at it must not hold up the others."""
PATIENCE_S = 15.0
NUMBERS = list(range(20, 84))


def ours(ground: Ground) -> System:
    """`cotenant serve` with a worker that has no model."""
    port, file = free_port(), ground.work / "nothing.yaml"
    file.write_text(f"tenants:\n  {NAME}: {{workload: bert-base-mini, seq: 64, slo: 60s}}\n")
    command = [sys.executable, str(HERE / "empty_server.py"), str(file), str(port), f"cpu:{ground.core}"]
    tensor = f'{{"name":"input_ids","datatype":"INT64","shape":[1,64],"data":{NUMBERS}}}'
    wire = post(f"/v2/models/{NAME}/infer", f'{{"inputs":[{tensor}]}}'.encode())
    return System("cotenant", {NAME: (HOST, port)}, {NAME: wire}, [launched(command, "cotenant", ground, pinned=False)])


def cpu_s(system: System) -> tuple[float, float]:
    """CPU time so far of all processes of a server, and of the first one."""
    top = [psutil.Process(process.pid) for process in system.processes]
    every = {one.pid for parent in top for one in (parent, *parent.children(recursive=True))}
    return sum(map(spent_s, every)), spent_s(top[0].pid)


async def bounded(system: System, requests: int) -> dict[str, float]:
    """A round; a server that doesn't answer ends the benchmark."""
    try:
        return await asyncio.wait_for(measure(system, requests), PATIENCE_S + LONGEST_S)
    except TimeoutError:
        raise SystemExit(f"{system.name} didn't answer {requests} requests within {PATIENCE_S:.0f} s") from None


async def measure(system: System, requests: int) -> dict[str, float]:
    """One request at a time, then several."""
    place, wire = system.where[NAME], system.wire[NAME]
    connections = [Connection(*place) for _ in range(IN_FLIGHT)]
    for connection in connections:
        await connection.send(wire)
    before, times = cpu_s(system), []
    for _ in range(requests):
        began = time.perf_counter()
        assert await connections[0].send(wire) == 200, system.name
        times.append(time.perf_counter() - began)
    between = cpu_s(system)

    async def several(connection: Connection) -> int:
        for done in range(requests // 4):
            if time.perf_counter() - began > LONGEST_S:
                return done
            await connection.send(wire)
        return requests // 4

    began = time.perf_counter()
    many = sum(await asyncio.gather(*(several(connection) for connection in connections)))
    took, after = time.perf_counter() - began, cpu_s(system)
    for connection in connections:
        connection.close()
    return {
        "p50_us": 1e6 * statistics.median(times),
        "cpu_us": 1e6 * (between[0] - before[0]) / requests,
        "first_cpu_us": 1e6 * (between[1] - before[1]) / requests,
        "cpu_us_16": 1e6 * (after[0] - between[0]) / many,
        "first_cpu_us_16": 1e6 * (after[1] - between[1]) / many,
        "per_s_16": many / took,
    }


def main(options: argparse.Namespace) -> None:
    """Start all servers, then measure them in turn."""
    end = time.monotonic() + options.within
    os.sched_setaffinity(0, {options.front})
    os.environ["TENANTS"] = NAME
    seen: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as work:
        ground = Ground(options.envs, Path(work), Path(work), options.core, options.front, {NAME: 1.0})
        standing = [ours(ground), *(start(name, ground, (NAME,)) for name in options.peers)]
        try:
            for system in standing:
                wait_ready(system)
                system.suspend()
            for number in range(options.rounds):
                if time.monotonic() > end:
                    print(f"{options.within:.0f} s are over after {number} of {options.rounds} rounds", flush=True)
                    break
                for system in standing:
                    system.resume()
                    found = asyncio.run(bounded(system, options.requests))
                    system.suspend()
                    for name, value in found.items():
                        seen[system.name][name].append(value)
                    print(f"round {number + 1}: {line(system.name, found)}", flush=True)
        finally:
            for system in standing:
                system.stop()
    for name, rows in seen.items():
        middle = {key: statistics.median(values) for key, values in rows.items()}
        over = statistics.median(a / b for a, b in zip(seen["cotenant"]["p50_us"], rows["p50_us"], strict=True))
        print(f"{line(name, middle)}; cotenant's p50 is {over:.2f} of it", flush=True)


def line(name: str, found: dict[str, float]) -> str:
    """The figures of a server as text."""
    return (
        f"{name:<9} p50 {found['p50_us']:.0f} us, CPU {found['cpu_us']:.0f} us "
        f"({found['first_cpu_us']:.0f} in the first process); 16 in flight: CPU {found['cpu_us_16']:.0f} us "
        f"({found['first_cpu_us_16']:.0f}), {found['per_s_16']:.0f}/s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=Path, required=True, help="Folder with one environment per peer.")
    parser.add_argument("--peers", nargs="*", default=["triton", "mosec"])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--within", type=float, default=240.0, help="Seconds after which no round begins.")
    parser.add_argument("--core", type=int, default=1, help="The core that acts as the device.")
    parser.add_argument("--front", type=int, default=0, help="The core of front ends and of the client.")
    main(parser.parse_args())
