"""A Ray cluster of several nodes on one machine: one `ray start` each, on addresses of the loopback network.

Each node has its own folder for locks and state, so cotenant takes the nodes for different machines.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

NODES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
"""Not 127.0.0.1: Ray replaces it by the machine's address."""
START_S = 120.0
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    # A killed raylet refuses connections and fails three checks within 2 s; a slow one has time to answer.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "20000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # by default a driver waits for a lost head for a minute
    "RAY_raylet_start_wait_time_s": str(round(START_S)),
}


class NodesFailed(Exception):
    """The cluster did not start; the message holds what `ray start` printed."""


class RayNodes:
    """The nodes of one cluster, and ways to lose some of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._sessions = home / "r"
        token = home / "token"
        token.write_text(secrets.token_hex(16))
        self.port = _free_port()
        self.up: list[str] = []
        """Nodes that were started and not lost since."""
        self.env = {**os.environ, **SETTINGS, "RAY_AUTH_TOKEN_PATH": str(token)}
        self.env.pop("RAY_ADDRESS", None)

    @property
    def address(self) -> str:
        """As `--on` takes it."""
        return f"ray://{NODES[0]}:{self.port}"

    def start(self, count: int) -> None:
        """Start those of the first ``count`` nodes that are not up, the head first. Raises NodesFailed."""
        if NODES[0] not in self.up:
            self.stop()  # nodes don't outlive their head
            head = ["--head", f"--port={self.port}", "--include-dashboard=false", f"--temp-dir={self._sessions}"]
            self._ray_start(NODES[0], head)
        for node in NODES[1:count]:  # not at once: nodes on one machine share a session folder and may pick one port
            if node not in self.up:
                self._ray_start(node, [f"--address={NODES[0]}:{self.port}"])

    def lose(self, node: str) -> None:
        """Kill a node's raylet; its workers stay behind as orphans for a while, as after a network split."""
        found = [
            one for one in self.processes() if one.name() == "raylet" and f"--node_ip_address={node}" in one.cmdline()
        ]
        assert found, f"{node} has no raylet"
        for one in found:
            one.send_signal(signal.SIGKILL)
        self.up.remove(node)

    def lose_head(self) -> None:
        """Kill the head: the process that knows all nodes and actors, and its node."""
        for one in self.processes():
            if one.name() == "gcs_server":
                one.send_signal(signal.SIGKILL)
        self.lose(NODES[0])

    def stop(self) -> None:
        """Kill every process of the cluster; some start others while they are being killed."""
        while left := [one for one in self.processes() if one.status() != psutil.STATUS_ZOMBIE]:
            for one in left:
                one.kill()
            psutil.wait_procs(left, timeout=5)
        self.up.clear()

    def processes(self) -> list[psutil.Process]:
        """Those that carry this cluster's token, apart from the caller, and their children.

        Ray's agents write their title over their environment, so that only their parent gives them away.
        """
        mark = self.env["RAY_AUTH_TOKEN_PATH"]
        found: dict[int, psutil.Process] = {}
        for one in psutil.process_iter():
            try:
                if one.environ().get("RAY_AUTH_TOKEN_PATH") == mark and one.pid != os.getpid():
                    found |= {each.pid: each for each in (one, *one.children(recursive=True))}
            except psutil.Error:
                continue
        return list(found.values())

    def cotenant(self, *words: object) -> subprocess.Popen[str]:
        """A command of cotenant on the first node."""
        command = [sys.executable, "-m", "cotenant.cli.main", *map(str, words)]
        out = subprocess.PIPE
        return subprocess.Popen(
            command,
            env=self.env | self._own(NODES[0]),
            cwd=self.home,
            stdout=out,
            stderr=out,
            text=True,
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 (one thread)
        )

    def _own(self, node: str) -> dict[str, str]:
        return {"COTENANT_LOCKS": str(self.home / f"locks-{node}"), "XDG_STATE_HOME": str(self.home / f"state-{node}")}

    def _ray_start(self, node: str, how: list[str]) -> None:
        command = [
            str(Path(sys.executable).parent / "ray"), "start", f"--node-ip-address={node}", "--num-cpus=0",
            "--object-store-memory=80000000", "--disable-usage-stats", "--include-log-monitor=false", *how,
        ]  # fmt: skip
        with (self.home / "start.log").open("w+") as log:  # not a pipe: the node's processes would keep it open
            if subprocess.run(command, env=self.env | self._own(node), stdout=log, stderr=log, check=False).returncode:
                log.seek(0)
                raise NodesFailed(log.read()[-2000:])
        self.up.append(node)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((NODES[0], 0))
        return int(found.getsockname()[1])


@contextmanager
def ray_nodes(count: int) -> Iterator[RayNodes]:
    """A cluster of ``count`` nodes, gone at the end."""
    # Ray's sockets live below this folder, and the path of a socket is limited to 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="rn", dir="/tmp"))
    nodes = RayNodes(home)
    try:
        nodes.start(count)
        yield nodes
    finally:
        nodes.stop()
        shutil.rmtree(home, ignore_errors=True)


def _hear_ctrl_c() -> None:
    """A shell starts what runs in its background deaf to SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
