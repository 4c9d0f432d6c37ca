"""A real cluster of three nodes on this machine: three `ray start`, each with locks and a disk of its own."""

import os
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

HERE = Path(sys.executable).parent
NODES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


class Nodes:
    """What was started, and how to lose some of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "token").write_text(secrets.token_hex(16))
        self.port = _free_port()
        self.env = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(home / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": "5",
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_raylet_start_wait_time_s": "200",  # machines that run tests are busy
        }
        self.env.pop("RAY_ADDRESS", None)

    @property
    def address(self) -> str:
        return f"ray://{NODES[0]}:{self.port}"

    def start(self) -> None:
        first = ["--head", f"--port={self.port}", "--include-dashboard=false", f"--temp-dir={self.home / 'r'}"]
        self._ray_start(NODES[0], first).wait(240)
        others = [self._ray_start(node, [f"--address={NODES[0]}:{self.port}"]) for node in NODES[1:]]
        codes = [other.wait(240) for other in others]
        assert codes == [0, 0], (self.home / "start.log").read_text()[-2000:]

    def _ray_start(self, node: str, how: list[str]) -> subprocess.Popen:
        own = {"COTENANT_LOCKS": str(self.home / f"locks-{node}"), "XDG_STATE_HOME": str(self.home / f"state-{node}")}
        command = [
            str(HERE / "ray"), "start", f"--node-ip-address={node}", "--num-cpus=4",
            "--object-store-memory=80000000", "--disable-usage-stats", "--include-log-monitor=false", *how,
        ]  # fmt: skip
        with (self.home / "start.log").open("ab") as log:
            return subprocess.Popen(command, env=self.env | own, stdout=log, stderr=log)

    def lose(self, node: str) -> None:
        """Kill a node's raylet, as a machine that goes away would: its workers become orphans."""
        found = [one for one in self._ours() if one.name() == "raylet" and f"--node_ip_address={node}" in _line(one)]
        assert found, f"no raylet of {node}"
        for one in found:
            one.send_signal(signal.SIGKILL)

    def lose_head(self) -> None:
        self.lose(NODES[0])
        for one in self._ours():
            if one.name() == "gcs_server":
                one.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        for _ in range(3):
            for one in self._ours():
                try:
                    one.kill()
                except psutil.Error:
                    continue

    def _ours(self) -> list[psutil.Process]:
        mark = str(self.home)
        found = []
        for one in psutil.process_iter():
            try:
                if one.environ().get("RAY_AUTH_TOKEN_PATH", "").startswith(mark) and one.pid != os.getpid():
                    found.append(one)
            except psutil.Error:
                continue
        return found

    def cotenant(self, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "cotenant.cli.main", *map(str, words)]
        return subprocess.Popen(
            command, env=self.env, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((NODES[0], 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    pytest.importorskip("ray", reason="ray isn't installed: pip install 'cotenant[ray]'")
    # A short path: Ray's sockets live below it, and their names are limited to 107 bytes.
    cluster = Nodes(tmp_path_factory.mktemp("ray"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
