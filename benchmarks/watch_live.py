"""`watch` beside `run`: two real servers on this machine, measured by one and watched by the other at the same time.

`run` drives both servers, alone and together, in random order. `watch` knows nothing of that and reads only what the
servers publish. Both say how much the second server is slowed by the first; their intervals should overlap.

    python -m benchmarks.watch_live --times 3
"""

import argparse
import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil

METRIC = "http_request_duration_seconds"
BOUNDS = (0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1.0)
ROUNDS = 120_000
"""Of a hash, on each of two threads, without Python's lock: long enough for the kernel to divide cores evenly, and for
the way between client and server, which only `run` sees, to matter little."""
STUDY = """
name: watch-live
device: cpu
tenants:
  heavy: {{workload: "http://127.0.0.1:{heavy}/work", load: closed(2)}}
  light: {{workload: "http://127.0.0.1:{light}/work", rate: 5/s}}
mixes: [solo, pairs]
sharing: [processes]
window: {window}s
blocks: {blocks}
budget: null
seed: {seed}
"""


class Server(ThreadingHTTPServer):
    """Computes on both cores; publishes a histogram of its request times."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.pool, self.lock = ThreadPoolExecutor(2), threading.Lock()
        self.count, self.sum, self.buckets = 0, 0.0, [0] * len(BOUNDS)

    def work(self) -> None:
        """One request."""
        begin = time.perf_counter()
        for part in [self.pool.submit(hashlib.pbkdf2_hmac, "sha256", b"x", b"y", ROUNDS) for _ in range(2)]:
            part.result()
        seconds = time.perf_counter() - begin
        with self.lock:
            self.count += 1
            self.sum += seconds
            self.buckets = [old + (seconds <= bound) for old, bound in zip(self.buckets, BOUNDS, strict=True)]

    def page(self) -> str:
        """The metrics."""
        with self.lock:
            rows = zip((*BOUNDS, "+Inf"), (*self.buckets, self.count), strict=True)
            lines = [f"# TYPE {METRIC} histogram", *(f'{METRIC}_bucket{{le="{bound}"}} {n}' for bound, n in rows)]
            return "\n".join([*lines, f"{METRIC}_sum {self.sum}", f"{METRIC}_count {self.count}", ""])


class Handler(BaseHTTPRequestHandler):
    """`/work` and `/metrics`."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Metrics, or work for a client that sends no body."""
        if self.path == "/work":
            self.server.work()
        self.answer(self.server.page() if self.path == "/metrics" else "done\n")

    def do_POST(self) -> None:
        """Work."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.work()
        self.answer("done\n")

    def answer(self, text: str) -> None:
        """Send it."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


def started() -> tuple[subprocess.Popen[str], int]:
    """A server in a process of its own, and its port."""
    process = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def used(process: psutil.Process) -> tuple[float, float]:
    """CPU seconds and MiB of a process and its children, those that ended included."""
    family = [process, *process.children(recursive=True)]
    return sum(sum(p.cpu_times()[:4]) for p in family), sum(p.memory_full_info().pss for p in family) / 2**20


def once(seed: int, *, window_s: float, blocks: int, out: Path) -> bool:
    """One comparison; true if the intervals overlap."""
    servers = [started() for _ in range(2)]
    folder = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-", dir=out))
    try:
        return _compared(folder, [port for _, port in servers], seed, window_s, blocks)
    finally:
        for process, _ in servers:
            process.kill()
            process.wait()


def _compared(folder: Path, ports: list[int], seed: int, window_s: float, blocks: int) -> bool:
    import cotenant

    study = folder / "study.yaml"
    study.write_text(STUDY.format(heavy=ports[0], light=ports[1], window=window_s, blocks=blocks, seed=seed))
    words = [f"heavy=127.0.0.1:{ports[0]}", f"light=127.0.0.1:{ports[1]}", "--histogram", METRIC]
    command = [
        str(Path(sys.executable).with_name("cotenant")),
        "watch",
        *words,
        "--every",
        "1",
        "--out",
        str(folder),
        "--json",
    ]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        time.sleep(3)
        begin, (cpu_before, _) = time.monotonic(), used(psutil.Process(watching.pid))
        result = cotenant.run(study, device="cpu", out=folder, quiet=True)
        cpu_after, memory = used(psutil.Process(watching.pid))
        share = (cpu_after - cpu_before) / (time.monotonic() - begin)
    finally:
        watching.send_signal(signal.SIGINT)
        told = json.loads(watching.communicate(timeout=120)[0])
    [influence] = [pair for pair in told["influences"] if (pair["neighbour"], pair["tenant"]) == ("heavy", "light")]
    watched, measured = influence["busy"], _slowdown(result)
    overlap = watched["est"] is not None and watched["lo"] <= measured[2] and measured[1] <= watched["hi"]
    print(
        f"seed {seed}: run {measured[0]:.2f} [{measured[1]:.2f}, {measured[2]:.2f}]; watch {influence['verdict']} "
        f"{watched['est'] and round(watched['est'], 2)} [{watched['lo'] and round(watched['lo'], 2)}, "
        f"{watched['hi'] and round(watched['hi'], 2)}] in {told['minutes']:.1f} min; "
        f"{'they overlap' if overlap else 'THEY DO NOT OVERLAP'}; watch took {share:.2%} of a core, {memory:.0f} MiB; "
        f"it says: {' '.join(told['answer'])}",
        flush=True,
    )
    return overlap


def _slowdown(result: object) -> tuple[float, float, float]:
    """Of the light server beside the heavy one, by `run`: mean latency in the pair over that alone, within blocks."""
    for row in result.rows():  # type: ignore[attr-defined]
        if row["tenant"] == "light" and row["sharing"] != "alone":
            return row["slowdown"], row["slowdown_lo"], row["slowdown_hi"]
    raise SystemExit("run has no slowdown of the light server")


def main() -> None:
    """Compare as often as asked; exit code 1 unless all overlap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first comparison")
    parser.add_argument("--window", type=float, default=9.0)  # three of the intervals that `watch` compares
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where the records of both are kept")
    given = parser.parse_args()
    if given.serve:
        server = Server(0)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job ignores it, and so would `watch`
    seeds = range(given.seed, given.seed + given.times)
    given.out.mkdir(exist_ok=True)
    agreed = [once(seed, window_s=given.window, blocks=given.blocks, out=given.out) for seed in seeds]
    print(f"{sum(agreed)} of {len(agreed)} overlap")
    sys.exit(0 if all(agreed) else 1)


if __name__ == "__main__":
    main()
