"""Is a server's client a good clock? Held against a scripted server that writes down when it sent each token.

The truth is the server's own `sent_ns`, on the same clock. The error of a token is the client's mark less that:
it holds the kernel's way from one process to the other, and whatever the client adds. Also the schedule: how long after
it was due a request was sent, and what a request costs the client in CPU time.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

RATES = (10, 100, 500)
SECONDS = 4.0
TOKENS = 4
TTFT_S, ITL_S = 0.02, 0.005
SEED = 1


def measure(rate: float, port: int) -> dict[str, Any]:  # noqa: PLR0915 - one measurement, step by step
    """One rate: an open loop of Poisson arrivals through the real client and the real window."""
    from cotenant.measure.tenants.arena import ANSWER_COLUMNS, Board, opened, shared_memory_fd
    from cotenant.measure.tenants.concurrent import serve_concurrently
    from cotenant.measure.tenants.serving import SeatOrder, usage_of
    from cotenant.tenancy.arrivals import arrivals_ns
    from cotenant.tenancy.load import Load
    from cotenant.workloads.protocol import WorkloadSpec
    from cotenant.workloads.servers import generation
    from cotenant.workloads.yours import recognise

    name = f"openai:http://127.0.0.1:{port}"
    workload = recognise(name)
    assert workload is not None
    client = workload.build(WorkloadSpec(name=name, tokens=TOKENS), None).client  # type: ignore[arg-type]
    assert client is not None
    sent: list[int] = []
    marked: list[int] = []
    carries_text = generation.carries_text

    def watched(chunk: Any) -> bool:
        """What the client does anyway, and the truth beside it."""
        text = carries_text(chunk)
        if text:
            marked.append(time.monotonic_ns())
        return text

    original = generation._object  # noqa: SLF001 - the truth travels in the chunks, which nobody else looks at

    def read(data: bytes) -> dict[str, Any]:
        document = original(data)
        if "sent_ns" in document:
            sent.append(document["sent_ns"])
        return document

    generation.carries_text, generation._object = watched, read  # noqa: SLF001
    offsets = arrivals_ns(Load(kind="poisson", rate_rps=rate), seed=SEED, horizon_s=SECONDS + 1)
    board_fd, arena_fd = shared_memory_fd("board"), shared_memory_fd("arena")
    board, loop = Board(board_fd), asyncio.new_event_loop()
    start = time.monotonic_ns() + 50_000_000
    order = SeatOrder(
        index=0,
        seats=1,
        start_ns=start,
        window_start_ns=start + 500_000_000,
        window_end_ns=start + int((SECONDS + 0.5) * 1e9),
        deadline_ns=start + int((SECONDS + 5) * 1e9),
        outstanding=0,
        scheduled=offsets.size,
        synchronised=False,
        own_process=True,
    )
    try:
        with opened(arena_fd, capacity=offsets.size, slots=len(client.slots) + len(ANSWER_COLUMNS)) as arena:
            part = arena.part(0, offsets.size)
            part.intended[: offsets.size] = offsets + start
            before = usage_of(order)
            served, _ = serve_concurrently(client, loop, order, part, board.page(0), lambda: usage_of(order))
            used = usage_of(order).since(before)
            late = (part.started - part.intended)[: served.recorded] / 1e3
            ok = int(part.ok[: served.recorded].sum())
            late = np.array(late)
            del part
    finally:
        generation.carries_text, generation._object = carries_text, original  # noqa: SLF001
        loop.run_until_complete(client.close())
        loop.close()
        board.close()
        os.close(board_fd)
        os.close(arena_fd)
    error_ms = (np.array(marked) - np.array(sent)) / 1e6
    return {
        "rate_rps": rate,
        "requests": served.recorded,
        "ok": ok,
        "token_error_ms": _quantiles(error_ms),
        "schedule_error_us": _quantiles(late),
        "client_cpu_us_per_request": used.cpu_time_ns / max(served.recorded, 1) / 1e3,
    }


def _quantiles(values: Any) -> dict[str, float]:
    return {"p50": float(np.quantile(values, 0.5)), "p99": float(np.quantile(values, 0.99)), "n": int(np.size(values))}


def main(rates: Sequence[float] = RATES) -> None:
    """Every rate in turn, as JSON on stdout."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "cotenant.workloads.servers.scripted", "--port", str(port)]
    command += ["--ttft", str(TTFT_S), "--itl", str(ITL_S)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        found = [measure(rate, port) for rate in rates]
    finally:
        server.kill()
        server.wait()
    sys.stdout.write(json.dumps({"rates": found, "tokens": TOKENS, "cores": os.cpu_count()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
