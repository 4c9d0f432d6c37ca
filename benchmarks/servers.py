"""Accuracy of the client of servers, against a scripted server that records what it did, and against peers.

The scripted server records when it received each request and sent each token. A tool's times to first token and between
tokens are compared with that, at equal, constant rates: the difference is the kernel's transfer between processes plus
the tool's overhead. The schedule error is the distance of arrivals from a constant grid. The cost of a tool is the CPU
time of its processes between the first and last request, without start-up. Peers (`AIPerf`, `vllm bench serve`) run in
their own environments, if given:

    AIPERF=ENV/bin/aiperf VLLM=ENV/bin/vllm TOKENIZER=MODEL_FOLDER python benchmarks/servers.py
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

RATES = (10, 100, 500)
SECONDS = 5.0
TOKENS = 8
TTFT_S, ITL_S = 0.02, 0.005
LOOK_S = 0.1
PEER_LIMIT_S = 150.0


class Server:
    """A server; the scripted one also has records."""

    def __init__(self, port: int, model: str = "scripted") -> None:
        self.address, self.model = f"http://127.0.0.1:{port}", model

    def get(self, path: str) -> Any:
        """A page of it."""
        with urllib.request.urlopen(self.address + path, timeout=10) as answer:  # noqa: S310 - our own server
            return json.load(answer)


@contextmanager
def scripted() -> Iterator[Server]:
    """A server for the duration of a block of code."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "cotenant.workloads.servers.scripted", "--port", str(port), "--note"]
    command += ["--ttft", str(TTFT_S), "--itl", str(ITL_S)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(200):
                with socket.socket() as trial:
                    if trial.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield Server(port)
        finally:
            process.kill()


Tool = Callable[[Server, float], dict[str, Any]]


class CpuWatch:
    """CPU time of a process and its children, while requests are sent."""

    def __init__(self, pid: int, server: Server, requests: int) -> None:
        self._process, self._server, self._requests = psutil.Process(pid), server, requests
        self._seen: list[tuple[int, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def seconds_per_request(self) -> float | None:
        """CPU time between the first and last request; None if there were too few samples."""
        self._over.set()
        self._thread.join()
        inside = [(served, cpu) for served, cpu in self._seen if 0 < served < self._requests]
        if len(inside) < 3:
            return None
        (first, begin), (last, end) = inside[0], inside[-1]
        return (end - begin) / (last - first) if last > first else None

    def _run(self) -> None:
        known: dict[int, float] = {}
        while not self._over.wait(LOOK_S):
            try:
                served = self._server.get("/stats")["served"]
                for one in (self._process, *self._process.children(recursive=True)):
                    known |= _thread_seconds(one.pid)
            except (psutil.Error, OSError):
                continue
            self._seen.append((served, sum(known.values())))


def _thread_seconds(pid: int) -> dict[int, float]:
    """CPU time of each thread of a process, as the scheduler has it: in ticks of 10 ms it would be too coarse."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {int(one.name): int((one / "schedstat").read_text().split()[0]) / 1e9 for one in tasks}


def truth(server: Server, rate: float) -> dict[str, Any]:
    """The server's record of the last measurement."""
    noted = server.get("/noted")
    received = np.array([one["received_ns"] for one in noted]) / 1e6
    sent = [np.array(one["sent_ns"]) / 1e6 for one in noted]
    ttft = np.array([times[0] - begin for times, begin in zip(sent, received, strict=True)])
    gaps = np.concatenate([np.diff(times) for times in sent])
    order = np.sort(received)
    grid = order - np.arange(order.size) * 1e3 / rate
    late = grid - np.median(grid)
    return {
        "requests": len(noted),
        "ttft_ms": _quantiles(ttft),
        "itl_ms": _quantiles(gaps),
        "schedule_error_ms": {"p99": float(np.quantile(np.abs(late), 0.99))},
    }


def _quantiles(values: Any) -> dict[str, float]:
    return {"p50": float(np.quantile(values, 0.5)), "p99": float(np.quantile(values, 0.99)), "n": int(np.size(values))}


def ours(server: Server, rate: float, api: str = "chat") -> dict[str, Any]:
    """The real client in a real window, in a separate process."""
    command = [sys.executable, __file__, "--one", str(rate), server.address, api]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch = CpuWatch(process.pid, server, int(rate * SECONDS))
    out, _ = process.communicate(timeout=PEER_LIMIT_S)
    return {**json.loads(out), "cpu_s_per_request": watch.seconds_per_request()}


def one_window(rate: float, address: str, api: str = "chat") -> dict[str, Any]:
    """A window of requests at a constant rate: token times as recorded."""
    from cotenant.measure.tenants.arena import ANSWER_COLUMNS, Board, opened, shared_memory_fd
    from cotenant.measure.tenants.concurrent import serve_concurrently
    from cotenant.measure.tenants.serving import SeatOrder, usage_of
    from cotenant.workloads.protocol import WorkloadSpec
    from cotenant.workloads.yours import recognise

    name = f"openai:{address}"
    workload = recognise(name)
    assert workload is not None
    spec = WorkloadSpec(name=name, tokens=TOKENS, params={"api": api})
    client = workload.build(spec, None).client  # type: ignore[arg-type]
    assert client is not None
    requests = int(rate * SECONDS)
    board_fd, arena_fd = shared_memory_fd("board"), shared_memory_fd("arena")
    board, loop = Board(board_fd), asyncio.new_event_loop()
    start = time.monotonic_ns() + 200_000_000
    end = start + int(SECONDS * 1e9)
    order = SeatOrder(
        index=0,
        seats=1,
        start_ns=start,
        window_start_ns=start,
        window_end_ns=end,
        deadline_ns=end + 5_000_000_000,
        outstanding=0,
        scheduled=requests,
        synchronised=False,
        own_process=True,
    )
    with opened(arena_fd, capacity=requests, slots=len(client.slots) + len(ANSWER_COLUMNS)) as arena:
        part = arena.part(0, requests)
        part.intended[:] = start + (np.arange(requests) * 1e9 / rate).astype(np.int64)
        served, _ = serve_concurrently(client, loop, order, part, board.page(0), lambda: usage_of(order))
        ok = np.array(part.ok == 1)
        ttft = np.array(part.first - part.started)[ok] / 1e6
        gaps = np.diff(np.array(part.slot_ends[:TOKENS])[:, ok], axis=0).ravel() / 1e6
        late = np.array(part.started - part.intended) / 1e6
        del part
    return {
        "requests": served.recorded,
        "ok": int(ok.sum()),
        "ttft_ms": _quantiles(ttft),
        "itl_ms": _quantiles(gaps),
        "sent_late_ms": _quantiles(late),
    }


def aiperf(program: str, tokenizer: str, server: Server, rate: float) -> dict[str, Any]:
    """NVIDIA's AIPerf; with `HF_HUB_OFFLINE` it takes a tokenizer's folder for a name in the hub."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "profile", "--model", server.model, "--url", server.address, "--endpoint-type", "chat"]
        command += ["--streaming", "--request-rate", str(rate), "--arrival-pattern", "constant"]
        command += ["--request-count", str(int(rate * SECONDS)), "--tokenizer", tokenizer, "--isl", "64"]
        command += ["--osl", str(TOKENS), "--artifact-dir", folder, "--ui", "none"]
        command += ["--extra-inputs", "ignore_eos:true"]
        watch = _peer(command, server, rate)
        found = json.loads(next(Path(folder).rglob("profile_export_aiperf.json")).read_text())
    return {
        "ttft_ms": {name: found["time_to_first_token"][name] for name in ("p50", "p99")},
        "itl_ms": {name: found["inter_token_latency"][name] for name in ("p50", "p99")},
        "cpu_s_per_request": watch.seconds_per_request(),
    }


def vllm_bench(program: str, tokenizer: str, server: Server, rate: float) -> dict[str, Any]:
    """`vllm bench serve`, without chat: there it takes the chunk that only names the role for the first token."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "bench", "serve", "--backend", "openai", "--base-url", server.address]
        command += ["--endpoint", "/v1/completions", "--model", server.model, "--tokenizer", tokenizer]
        command += ["--dataset-name", "random", "--random-input-len", "64", "--random-output-len", str(TOKENS)]
        command += ["--request-rate", str(rate), "--burstiness", "1e9", "--num-prompts", str(int(rate * SECONDS))]
        command += ["--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99", "--disable-tqdm"]
        command += ["--ignore-eos", "--ready-check-timeout-sec", "0"]
        command += ["--save-result", "--result-dir", folder, "--result-filename", "found.json"]
        watch = _peer(command, server, rate, HF_HUB_OFFLINE="1")
        found = json.loads((Path(folder) / "found.json").read_text())
    return {
        "ttft_ms": {name: found[f"{name}_ttft_ms"] for name in ("p50", "p99")},
        "itl_ms": {name: found[f"{name}_itl_ms"] for name in ("p50", "p99")},
        "cpu_s_per_request": watch.seconds_per_request(),
    }


def _peer(command: Sequence[str], server: Server, rate: float, **more: str) -> CpuWatch:
    env = {**os.environ, **more}
    env.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        watch = CpuWatch(process.pid, server, int(rate * SECONDS))
        if process.wait(timeout=PEER_LIMIT_S):
            log.seek(0)
            raise RuntimeError(f"{command[0]} failed: {log.read()[-1500:].decode(errors='replace')}")
    return watch


def measured(tool: Tool, rate: float) -> dict[str, Any]:
    """One tool at one rate: its report, the server's record, and the difference."""
    with scripted() as server:
        found, true = tool(server, rate), truth(server, rate)
    errors = {
        f"{metric}_error_ms": {
            name: found[f"{metric}_ms"][name] - true[f"{metric}_ms"][name] for name in ("p50", "p99")
        }
        for metric in ("ttft", "itl")
    }
    return {"rate_rps": rate, "reported": found, "noted": true, **errors}


def installed() -> dict[str, Tool]:
    """Ours, and the peers that the environment names."""
    tools: dict[str, Tool] = {"cotenant": ours}
    tokenizer = os.environ.get("TOKENIZER", "")
    for name, variable, tool in (("AIPerf", "AIPERF", aiperf), ("vllm bench serve", "VLLM", vllm_bench)):
        if program := os.environ.get(variable):
            tools[name] = partial(tool, program, tokenizer)
    return tools


def main() -> None:
    """Every rate and tool in turn, as JSON on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        sys.stdout.write(json.dumps(one_window(float(given.one[0]), *given.one[1:])))
        return
    tools = installed()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tools}
    for rate in RATES:
        for name, tool in tools.items():  # one after the other, so that a change of the machine affects all
            try:
                found[name].append(measured(tool, rate))
            except (RuntimeError, OSError, KeyError, subprocess.TimeoutExpired, StopIteration) as error:
                found[name].append({"rate_rps": rate, "failed": f"{type(error).__name__}: {error}"[-1500:]})
    document = {"tools": found, "tokens": TOKENS, "seconds": SECONDS, "cores": os.cpu_count()}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
