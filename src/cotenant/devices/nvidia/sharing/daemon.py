"""A private MPS control daemon in its own directory: only our processes use it, and they use no other."""

import logging
import os
import shutil
import signal
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.nvidia import tools

log = logging.getLogger(__name__)

CONTROL = "nvidia-cuda-mps-control"
ANSWER_S = 10.0
COMMANDS = "2"
"""The command version used here; newer daemons also know 3, which a user's environment may select."""
LONGEST_PATH = 60
"""The daemon creates sockets below its directory, and a socket path is limited to 107 characters."""


def private_directory() -> Path:
    """A name for a daemon's directory; nothing is created yet."""
    base = Path(tempfile.gettempdir())
    if len(str(base)) > LONGEST_PATH:
        base = Path("/tmp")  # noqa: S108 - the directory itself is private
    return base / f"cotenant-mps-{os.geteuid()}-{os.urandom(6).hex()}"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A control daemon, identified by its directory."""

    directory: Path
    gpu: str
    """UUID of the GPU it serves."""

    @property
    def env(self) -> dict[str, str]:
        """The environment through which processes find it."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.directory / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.directory / "log"),
            "CUDA_MPS_PROTOCOL_VERSION": COMMANDS,
        }

    def start(self, *, static: bool = False) -> str | None:
        """Start it in the background; return its error message if it fails."""
        for part in ("", "pipe", "log"):
            (self.directory / part).mkdir(mode=0o700, exist_ok=True)
        log.info("starting an MPS daemon in %s", self.directory)
        command = [CONTROL, "-d", *(["-S"] if static else [])]
        result = tools.run(command, env={**self.env, "CUDA_VISIBLE_DEVICES": self.gpu}, timeout_s=ANSWER_S)
        if not result.ok:
            return result.reason or "no error message"
        until = time.monotonic() + ANSWER_S
        while not self.answers():
            if time.monotonic() > until:
                return f"it started but does not answer; its log is {self.directory / 'log'}"
            time.sleep(0.05)
        return None

    def ask(self, command: str) -> str | None:
        """Its answer to a command; None if there is none."""
        result = tools.run([CONTROL], text=f"{command}\n", env=self.env, timeout_s=ANSWER_S)
        return result.out if result.ok else None

    def answers(self) -> bool:
        """True if it answers."""
        return self.ask("get_server_list") is not None

    def servers(self) -> list[int]:
        """Pids of its servers."""
        return _numbers(self.ask("get_server_list"))

    def clients(self) -> set[int]:
        """Pids attached to any of its servers."""
        return {pid for server in self.servers() for pid in _numbers(self.ask(f"get_client_list {server}"))}

    def percentage(self, server: int) -> float | None:
        """The largest share of threads a server gives any client, in percent."""
        try:
            return float((self.ask(f"get_active_thread_percentage {server}") or "").split()[-1])
        except (IndexError, ValueError):
            return None

    def end(self) -> bool:
        """Ask it to quit, kill it after a while, and remove its directory; return True if it was running."""
        pid = self._pid()
        if pid is not None:
            self.ask("quit")
            until = time.monotonic() + ANSWER_S / 2
            while _is_daemon(pid) and time.monotonic() < until:
                time.sleep(0.05)
            for server in (*self.servers(), pid) if _is_daemon(pid) else ():
                log.warning("killing MPS process %d, which did not exit", server)
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(server, signal.SIGKILL)
        with suppress(OSError):
            if stat.S_ISDIR(self.directory.lstat().st_mode) and self.directory.lstat().st_uid == os.geteuid():
                shutil.rmtree(self.directory)
        return pid is not None

    def _pid(self) -> int | None:
        try:
            pid = int((self.directory / "pipe" / f"{CONTROL}.pid").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return pid if _is_daemon(pid) else None


def _is_daemon(pid: int) -> bool:
    """True if that process is a control daemon: its pid may have been reused."""
    try:
        return CONTROL.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _numbers(text: str | None) -> list[int]:
    return [int(word) for word in (text or "").split() if word.isdecimal()]
