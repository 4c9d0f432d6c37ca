"""Ends every process started by a tenant, so that none keeps the device busy afterwards.

A process started by a workload may leave its process group and be adopted by init. It can't leave its environment,
so each tenant process carries a mark there, which its descendants inherit.

Run as a program, this file waits until the runner is gone (SIGKILL included), then ends every process with the
run's mark. It imports only the standard library, to stay small.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

VARIABLE = "COTENANT_TENANT"
ROUNDS = 20
"""A process that forks during the search is found in the next round."""


def end_marked(mark: str) -> None:
    """Kill every process whose mark starts with this."""
    for _ in range(ROUNDS):
        found = _marked(mark)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _marked(mark: str) -> list[int]:
    """Our processes with that mark; an ended process has no environment."""
    variable = f"{VARIABLE}={mark}".encode()
    own = os.getpid()
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 (names are all that is wanted)
        if not name.isdecimal() or int(name) == own:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 (no pathlib: start-up)
            if any(entry.startswith(variable) for entry in file.read().split(b"\0")):
                found.append(int(name))
    return found


class Reaper:
    """A helper process that ends tenants which outlive the runner."""

    def __init__(self) -> None:
        self.mark = os.urandom(8).hex()
        """Common prefix of the marks of this runner's tenant processes."""
        reading, self._writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, self.mark],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # unaffected by Ctrl-C and a closed terminal
            )
        finally:
            os.close(reading)

    def close(self) -> None:
        """The tenants ended in order: let it check once more and exit."""
        if self._process.returncode is None:
            with contextlib.suppress(BrokenPipeError):  # it was killed
                os.write(self._writing, b".")  # a fork of this process may keep the pipe open
            os.close(self._writing)
            self._process.wait()


if __name__ == "__main__":
    sys.stdin.buffer.read(1)
    end_marked(sys.argv[1])
