"""The compared servers: how each is started in its own environment, and how a tenant is queried.

A server runs on the front end's core; its models pin their thread to the device's core. Inactive servers are suspended.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load import requests
from scenarios import TIMES

HERE = Path(__file__).resolve().parent
NAMES = ("bert", "conv", "gpt")
NUMBERS = list(range(20, 84))
COTENANT = ("cotenant-shares", "cotenant-equal", "edf-chunks", "edf")
PEERS = ("triton", "bentoml", "ray", "litserve", "mosec")
SYSTEMS = (*COTENANT, *PEERS)
HOST = "127.0.0.1"


@dataclass
class Ground:
    """Common configuration of all servers."""

    envs: Path
    models: Path
    work: Path
    core: int
    front: int
    spaced_s: dict[str, float]

    def objective_s(self, name: str) -> float:
        """Objective of a tenant."""
        return TIMES * self.spaced_s[name]


@dataclass
class System:
    """A running server: the address and request bytes of each tenant."""

    name: str
    where: dict[str, tuple[str, int]]
    wire: dict[str, bytes]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    file: Path | None = None
    """The tenants file, for our own server."""
    read: int = 0
    """Chunks read so far."""

    def costs(self) -> dict[str, Any] | None:
        """Costs measured by our server at its start."""
        return self._left(".costs.json")

    def chunks(self) -> list[Any]:
        """Chunks that our server ran since the last call: see `policy_server.py`."""
        path = self.file.with_suffix(".chunks.jsonl") if self.file else None
        if path is None or not path.exists():
            return []
        lines = path.read_text().splitlines()
        new, self.read = lines[self.read :], len(lines)
        return [json.loads(line) for line in new]

    def seen(self) -> dict[str, Any] | None:
        """Records of our server, after its end."""
        return self._left(".seen.json")

    def _left(self, suffix: str) -> dict[str, Any] | None:
        if self.file is None or not self.file.with_suffix(suffix).exists():
            return None
        report: dict[str, Any] = json.loads(self.file.with_suffix(suffix).read_text())
        return report

    def suspend(self) -> None:
        """Stop it from using any CPU; Ray's processes watch each other and stay awake."""
        if self.name != "ray":
            self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stop it, gracefully first."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, number)


def start(name: str, ground: Ground, tenants: tuple[str, ...] = NAMES) -> System:
    """Start a server; it may not be ready yet."""
    if name in COTENANT:
        return _cotenant(name, ground)
    ports = dict.fromkeys(tenants, free_port())
    body = json.dumps({"data": NUMBERS} if name in ("litserve", "bentoml") else NUMBERS).encode()
    paths = {tenant: f"/{tenant}" for tenant in tenants}
    python = str(ground.envs / ("triton-peer" if name == "triton" else name) / "bin" / "python")
    script, port = str(HERE / "peers" / f"{name}_server.py"), ports[tenants[0]]
    match name:
        case "triton":
            timeouts = {one: int(1e6 * (ground.objective_s(one) - ground.spaced_s[one])) for one in tenants}
            folder = tempfile.mkdtemp(dir=ground.work)
            commands = [[python, script, str(port), folder, json.dumps(timeouts)]]
            numbers = {"name": "numbers", "datatype": "INT64", "shape": [1, len(NUMBERS)], "data": [NUMBERS]}
            body = json.dumps({"inputs": [numbers]}).encode()
            paths = {tenant: f"/v2/models/{tenant}/infer" for tenant in tenants}
        case "mosec":
            commands = [[python, script, "--address", HOST, "--port", str(port)]]
        case "bentoml":
            ports = {tenant: free_port() for tenant in tenants}
            paths = dict.fromkeys(tenants, "/predict")
            bento = [python, "-m", "bentoml", "serve", "--host", HOST]
            commands = [
                [
                    *bento,
                    "--port",
                    str(ports[one]),
                    f"bentoml_server:{one.capitalize()}",
                    "--working-dir",
                    str(HERE / "peers"),
                ]
                for one in tenants
            ]
        case _:
            commands = [[python, script, str(port)]]
    wire = {tenant: post(path, body) for tenant, path in paths.items()}
    where = {tenant: (HOST, ports[tenant]) for tenant in tenants}
    return System(name, where, wire, [launched(command, name, ground) for command in commands])


def _cotenant(name: str, ground: Ground) -> System:
    port = free_port()
    fairness = "equal" if name == "cotenant-equal" else "shares"
    file = ground.work / f"{name}.yaml"
    models = {one: str(ground.models / one) for one in ("bert", "gpt")}  # the weights of images fix their size
    slo = {one: f"{1e3 * ground.objective_s(one):.3f}ms" for one in NAMES}
    file.write_text(
        f"fairness: {fairness}\n"
        "tenants:\n"
        f"  bert: {{workload: {models['bert']}, seq: 64, slo: {slo['bert']}, at_once: 4}}\n"
        f"  conv: {{workload: resnet18, params: {{image: 160}}, slo: {slo['conv']}, at_once: 4}}\n"
        f"  gpt: {{workload: {models['gpt']}, seq: 64, mode: generate, tokens: 24, slo: {slo['gpt']}, at_once: 4}}\n"
    )
    command = [sys.executable, str(HERE / "policy_server.py"), name, str(file), str(port), f"cpu:{ground.core}"]
    process = launched(command, name, ground, pinned=False)
    return System(name, dict.fromkeys(NAMES, (HOST, port)), requests(HOST), [process], file)


def post(path: str, body: bytes, header: bytes = b"Content-Type: application/json\r\n") -> bytes:
    """The bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n".encode()
    return head + header + b"\r\n" + body


def launched(command: list[str], name: str, ground: Ground, *, pinned: bool = True) -> subprocess.Popen[bytes]:
    """Start a process of a server, with its output in a log; ``pinned``: to the front end's core."""
    log = (ground.work / f"{name}.log").open("ab")
    environment = {key: value for key, value in os.environ.items() if pinned is False or key != "PYTHONPATH"} | {
        "MODELS": str(ground.models),
        "CORE": str(ground.core),
        "OMP_NUM_THREADS": "1",
        "BENTOML_DO_NOT_TRACK": "true",
        "BENTOML_HOME": str(ground.work / "bentoml"),
        "HF_HUB_OFFLINE": "1",
    }
    cores = str(ground.front) if pinned else f"{ground.front},{ground.core}"
    command = ["taskset", "-c", cores, *command]
    return subprocess.Popen(
        command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=HERE / "peers"
    )


def wait_ready(system: System, within_s: float = 120.0) -> None:
    """Wait until each tenant has answered; otherwise end the benchmark with the log's last lines."""
    end = time.monotonic() + within_s
    for tenant in system.wire:
        while (status := _ask(system, tenant)) != 200:
            if time.monotonic() > end or any(process.poll() is not None for process in system.processes):
                raise RuntimeError(f"{system.name} isn't ready: {tenant} answers {status}")
            time.sleep(0.3)


def _ask(system: System, tenant: str) -> int | None:
    try:
        with closing(socket.create_connection(system.where[tenant], 5)) as connection:
            connection.sendall(system.wire[tenant])
            answer = connection.recv(1 << 16)
        return int(answer.split()[1]) if answer.startswith(b"HTTP/") else None
    except OSError:
        return None


def free_port() -> int:
    """A port that is free now."""
    with closing(socket.socket()) as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])
