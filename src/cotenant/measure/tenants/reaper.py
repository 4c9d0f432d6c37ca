"""Ends every process that a tenant has started, so that none keeps the device busy after its tenant.

A process that a workload starts may leave its process group and be adopted by init. It can't leave its environment,
so each tenant process carries a mark there, which all that descends from it inherits.

Run as a program, this file waits until the runner is gone (SIGKILL included), then ends every process that carries the
run's mark. It imports the standard library only, to stay small.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

VARIABLE = "COTENANT_TENANT"
ROUNDS = 20
"""A process that forks while it is looked for is found in the next round."""


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
    """Processes of ours with that mark; one that has ended has no environment any more."""
    wanted = f"{VARIABLE}={mark}".encode()
    own = os.getpid()
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 (names are all that is wanted)
        if not name.isdecimal() or int(name) == own:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 (no pathlib: start-up)
            if any(entry.startswith(wanted) for entry in file.read().split(b"\0")):
                found.append(int(name))
    return found


class Reaper:
    """A helper process that ends tenants which outlive the runner."""

    def __init__(self) -> None:
        self.mark = os.urandom(8).hex()
        """What the marks of all tenant processes of this runner begin with."""
        reading, self._writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, self.mark],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # neither Ctrl-C nor the end of the terminal is for it
            )
        finally:
            os.close(reading)

    def close(self) -> None:
        """The tenants are gone in good order: let it look once more and end."""
        if self._process.returncode is None:
            os.close(self._writing)
            self._process.wait()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])
