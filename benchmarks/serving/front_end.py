"""Cost of the front end: CPU time per request of the server's own process, with a simulated device behind it.

    python benchmarks/serving/front_end.py [--requests 300]

A small request in JSON, an image of 150 KB as numbers in JSON, and the same image as binary data. Excludes the workers'
side: a simulated GPU has none.
"""

import argparse
import asyncio
import json
import random
import statistics
import time

import psutil
from load import Connection
from machine import spent_s
from ours import server

TENANTS = """
tenants:
  bert: {workload: bert-base-mini, seq: 64, slo: 60s}
  conv: {workload: resnet18-mini, params: {image: 112}, dtype: float32, slo: 60s}
"""
SIDE = 112


def cpu_s(pid: int) -> float:
    """CPU time of a process and its children so far: a command runs in a child of its watcher."""
    top = psutil.Process(pid)
    return sum(spent_s(one.pid) for one in (top, *top.children(recursive=True)))


def wire(host: str) -> dict[str, bytes]:
    """The three requests."""
    numbers = random.Random(1)  # noqa: S311
    image = [numbers.gauss(0, 1) for _ in range(3 * SIDE * SIDE)]
    tensor = {"name": "pixel_values", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE]}
    ids = {"name": "input_ids", "datatype": "INT64", "shape": [1, 64], "data": list(range(64))}
    size = 4 * len(image)
    header = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": size}}]}).encode()

    def post(model: str, body: bytes, header: bytes = b"") -> bytes:
        head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + header + b"\r\n" + body

    return {
        "64 ids, JSON": post("bert", json.dumps({"inputs": [ids]}).encode()),
        "150 KB, JSON": post("conv", json.dumps({"inputs": [{**tensor, "data": image}]}).encode()),
        "150 KB, binary": post("conv", header + bytes(size), b"Inference-Header-Content-Length: %d\r\n" % len(header)),
    }


async def measure(host: str, port: int, pid: int, count: int) -> None:
    """One request at a time; CPU per request and the median time."""
    costs: dict[str, float] = {}
    for name, request in wire(host).items():
        connection = Connection(host, port)
        for _ in range(20):
            assert await connection.send(request) == 200, name
        before, times = cpu_s(pid), []
        for _ in range(count):
            began = time.perf_counter()
            await connection.send(request)
            times.append(time.perf_counter() - began)
        costs[name] = (cpu_s(pid) - before) / count
        print(f"{name}: {1e6 * costs[name]:.0f} us of CPU, p50 {1e3 * statistics.median(times):.2f} ms")
    print(
        f"150 KB as binary data costs {costs['150 KB, JSON'] / costs['150 KB, binary']:.1f} times less CPU than as JSON"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300)
    options = parser.parse_args()
    with server(TENANTS, "sim:a100-sxm4-40gb") as (host, port, pid):
        asyncio.run(measure(host, port, pid, options.requests))
