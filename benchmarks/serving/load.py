"""Three tenants under open-loop Poisson load against a running server: within objective, goodput, steal.

    cotenant serve benchmarks/serving/tenants.yaml --device cpu:1 &
    python benchmarks/serving/load.py http://127.0.0.1:8700 --scenario S3 --seeds 10

Costs are measured first, one request at a time with gaps (spaced). Objectives have to be set in the file before the
server starts: `--suggest` prints them as three times what it measures. Rates follow from the measured costs: S1 asks
for 20 % of the device each, S2 for 15 % beside a flood of 120 % by conv, S3 for 45 % each. A request counts when its
answer came within the objective, from the time at which it was due to be sent.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from pathlib import Path

LOADS = {
    "S1": {"bert": 0.20, "conv": 0.20, "gpt": 0.20},
    "S2": {"bert": 0.15, "conv": 1.20, "gpt": 0.15},
    "S3": {"bert": 0.45, "conv": 0.45, "gpt": 0.45},
}
SPACED = 15


class Connection:
    """One keep-alive connection; requests go out as bytes that were made before."""

    def __init__(self, host: str, port: int) -> None:
        self._where = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> int:
        """The status of the answer; the body is read and dropped."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._where)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith(b"content-length:"))
        await reader.readexactly(length)
        return int(lines[0].split()[1])


def requests(host: str) -> dict[str, bytes]:
    """One request of each tenant, in the tensors' own bytes where there are many."""

    def post(path: str, body: bytes, header: bytes = b"") -> bytes:
        return b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n%s" % (
            path.encode(), host.encode(), len(body), header, body,
        )  # fmt: skip

    ids = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 64], "data": list(range(20, 84))}]}
    raw = bytes(4 * 3 * 160 * 160)
    told = json.dumps(
        {
            "inputs": [
                {
                    "name": "pixel_values",
                    "datatype": "FP32",
                    "shape": [1, 3, 160, 160],
                    "parameters": {"binary_data_size": len(raw)},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    return {
        "bert": post("/v2/models/bert/infer", json.dumps(ids).encode()),
        "conv": post("/v2/models/conv/infer", told + raw, b"Inference-Header-Content-Length: %d\r\n" % len(told)),
        "gpt": post("/v2/models/gpt/infer", json.dumps(ids).encode()),
    }


def steal_s() -> float:
    """Seconds that the hypervisor took from this machine's cores so far."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / 100


async def spaced(host: str, port: int, wire: dict[str, bytes]) -> dict[str, float]:
    """Median time of a request alone, after a gap."""
    times: dict[str, float] = {}
    for name, request in wire.items():
        connection, seen = Connection(host, port), []
        for _ in range(SPACED):
            await asyncio.sleep(0.05)
            before = time.perf_counter()
            status = await connection.send(request)
            seen.append(time.perf_counter() - before)
            assert status == 200, f"{name} answers {status}"
        times[name] = statistics.median(seen)
    return times


async def offered(
    host: str, port: int, wire: dict[str, bytes], rates: dict[str, float], *, seconds: float, seed: int
) -> dict[str, list[tuple[float, int]]]:
    """Latency from the intended time, and status, of every request."""
    numbers = random.Random(seed)  # noqa: S311
    idle: list[Connection] = []
    answers: dict[str, list[tuple[float, int]]] = {name: [] for name in wire}
    plan = []
    for name, rate in rates.items():
        due = numbers.expovariate(rate)
        while due < seconds:
            plan.append((due, name))
            due += numbers.expovariate(rate)
    plan.sort()
    begin = time.perf_counter() + 0.2

    async def one(due: float, name: str) -> None:
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        connection = idle.pop() if idle else Connection(host, port)
        status = await connection.send(wire[name])
        answers[name].append((time.perf_counter() - begin - due, status))
        idle.append(connection)

    await asyncio.gather(*(one(due, name) for due, name in plan))
    return answers


async def main(options: argparse.Namespace) -> None:
    """Measure, then offer load seed by seed."""
    host, _, port_text = options.url.removeprefix("http://").rpartition(":")
    port, wire = int(port_text), requests(host)
    costs = await spaced(host, port, wire)
    print("spaced, ms:", {name: round(1e3 * cost, 2) for name, cost in costs.items()})
    if options.suggest:
        print("objectives:", {name: f"{3e3 * cost:.1f}ms" for name, cost in costs.items()})
        return
    rates = {name: part / costs[name] for name, part in LOADS[options.scenario].items()}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        stolen, began = steal_s(), time.perf_counter()
        answers = await offered(host, port, wire, rates, seconds=options.seconds, seed=seed)
        took = time.perf_counter() - began
        row: dict[str, float] = {}
        worth = 0.0
        for name, seen in answers.items():
            met = sum(status == 200 and late <= options.times * costs[name] for late, status in seen)
            row[name] = round(met / len(seen), 3) if seen else 1.0
            worth += met * costs[name]
        row["goodput"] = round(worth / options.seconds, 3)
        row["steal"] = round((steal_s() - stolen) / took, 4)
        print(json.dumps({"scenario": options.scenario, "seed": seed, **row}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--scenario", choices=LOADS, default="S3")
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--times", type=float, default=3.0, help="The objective, in spaced costs.")
    parser.add_argument("--suggest", action="store_true", help="Only measure, and print objectives.")
    asyncio.run(main(parser.parse_args()))
