"""Open-loop load on a running server: spaced costs, then Poisson arrivals, timed from the due time of each request."""

import asyncio
import json
import random
import statistics
import time

SPACED = 15
PATIENCE_S = 8.0
"""Timeout of a client."""
LOST = 599
"""Status of a request without an answer."""


class Connection:
    """One keep-alive connection for prebuilt requests."""

    def __init__(self, host: str, port: int) -> None:
        self._where = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> int:
        """Send a request; returns the status. The body is read and dropped."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._where)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), None)
        if length is None:  # an error page of Ray's proxy, in chunks
            await reader.readuntil(b"0\r\n\r\n")
        else:
            await reader.readexactly(length)
        return int(lines[0].split()[1])

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def requests(host: str) -> dict[str, bytes]:
    """One request of each tenant, with large tensors as binary data."""

    def post(path: str, body: bytes, header: bytes = b"") -> bytes:
        return b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n%s" % (
            path.encode(), host.encode(), len(body), header, body,
        )  # fmt: skip

    ids = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 64], "data": list(range(20, 84))}]}
    raw = bytes(4 * 3 * 160 * 160)
    header = json.dumps(
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
        "conv": post("/v2/models/conv/infer", header + raw, b"Inference-Header-Content-Length: %d\r\n" % len(header)),
        "gpt": post("/v2/models/gpt/infer", json.dumps(ids).encode()),
    }


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
    """Poisson arrivals at these rates, to one port."""
    numbers = random.Random(seed)  # noqa: S311
    plan = []
    for name, rate in rates.items():
        due = numbers.expovariate(rate)
        while due < seconds:
            plan.append((due, name))
            due += numbers.expovariate(rate)
    return await sent(dict.fromkeys(wire, (host, port)), wire, sorted(plan))


async def sent(
    where: dict[str, tuple[str, int]],
    wire: dict[str, bytes],
    plan: list[tuple[float, str]],
    begin: float | None = None,
) -> dict[str, list[tuple[float, int]]]:
    """Send every request when it is due after ``begin`` (of `time.perf_counter`; default: shortly).

    Returns the latency from that time and the status of each, by tenant.
    """
    idle: dict[tuple[str, int], list[Connection]] = {place: [] for place in where.values()}
    answers: dict[str, list[tuple[float, int]]] = {name: [] for name in wire}
    begin = time.perf_counter() + 0.2 if begin is None else begin

    async def one(due: float, name: str) -> None:
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        place = where[name]
        connection = idle[place].pop() if idle[place] else Connection(*place)
        try:
            status = await asyncio.wait_for(connection.send(wire[name]), PATIENCE_S)
        except (TimeoutError, OSError, EOFError):
            status = LOST
            connection.close()
        else:
            idle[place].append(connection)
        answers[name].append((time.perf_counter() - begin - due, status))

    await asyncio.gather(*(one(due, name) for due, name in plan))
    for connections in idle.values():
        for connection in connections:
            connection.close()
    return answers
