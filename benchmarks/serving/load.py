"""Open-loop load on a running server: spaced costs, then Poisson arrivals, timed from when each was due.

A request counts when its answer came within the objective, from the time at which it was due to be sent. S1 asks for
20 % of the device each, S2 for 15 % beside a flood of 120 % by conv, S3 for 45 % each.
"""

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
