"""Notes of changes to the machine, written before the change so that it is undone even after a crash.

A note says what to undo. A guard process waits until the runner is gone, even by SIGKILL, and undoes it; if the guard
was killed too, `cotenant doctor --restore` finds the note. A normal exit takes the same path.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.cache import state_folder
from cotenant.devices.nvidia import library, nvml, tools
from cotenant.devices.nvidia.notes import process_start
from cotenant.devices.nvidia.sharing import compute_mode
from cotenant.devices.nvidia.sharing.daemon import Daemon
from cotenant.errors import CotenantError, DeviceError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Leftover:
    """A pending change to undo."""

    path: Path
    kind: str
    pid: int
    """Pid of the runner that made it."""
    started: str
    """When that runner started, to tell it from another process with the same pid."""
    facts: Mapping[str, Any]
    guard: "subprocess.Popen[bytes] | None" = None
    """The process that undoes it if the runner is killed."""

    def note(self, **facts: Any) -> None:
        """Further details for undoing it."""
        self.facts = {**self.facts, **facts}
        _write(self)

    def undo(self) -> str:
        """Undo it; return what was done, as a clause. Raises CotenantError and keeps the note."""
        done = _undoers()[self.kind](self.facts)
        self.path.unlink(missing_ok=True)
        return done

    def put_back(self) -> None:
        """Undo it on exit, without raising: failures stay noted for the doctor."""
        with suppress(CotenantError, OSError):
            self.undo()
        if self.guard is not None and self.guard.stdin is not None:
            self.guard.stdin.close()
            self.guard.wait()
            self.guard = None


class Undoing:
    """The part of a fixture that undoes its noted change to the machine."""

    _left: Leftover | None = None

    def __exit__(self, *exc: object) -> None:
        """Restore the previous state."""
        if self._left is not None:
            self._left.put_back()
            self._left = None


def folder() -> Path:
    """Folder of the notes; private, since the notes are acted upon."""
    return state_folder("sharing")


def leave(kind: str, facts: Mapping[str, Any]) -> Leftover:
    """Note an upcoming change and start a guard for it."""
    where = folder()
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = where / f"{kind}-{os.getpid()}-{os.urandom(4).hex()}.json"
    left = Leftover(path, kind, os.getpid(), process_start(os.getpid()) or "", facts)
    _write(left)
    left.guard = subprocess.Popen(
        [sys.executable, "-m", "cotenant.devices.nvidia.sharing.leftovers", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # unaffected by Ctrl-C and a closed terminal
    )
    return left


def abandoned() -> list[Leftover]:
    """Notes whose runner is gone."""
    found = []
    for path in sorted(folder().glob("*.json")) if folder().is_dir() else ():
        left = read(path)
        if left is not None and process_start(left.pid) != left.started:
            found.append(left)
    return found


def described(left: Leftover) -> str:
    """The pending change, as a clause."""
    facts = left.facts
    return {
        "mps": f"an MPS daemon in {facts.get('directory')}",
        "mig": f"MIG instances of GPU {facts.get('index')}",
        "compute_mode": f"the compute mode of {facts.get('gpu')}",
    }[left.kind]


def _undoers() -> Mapping[str, Callable[[Mapping[str, Any]], str]]:
    return {"mps": end_daemon, "mig": put_instances_back, "compute_mode": put_mode_back}


def _write(left: Leftover) -> None:
    note = {"kind": left.kind, "pid": left.pid, "started": left.started, "facts": dict(left.facts)}
    opening.replace_file(left.path, json.dumps(note))


def read(path: Path) -> Leftover | None:
    """A note of this user; None if missing or unusable."""
    try:
        if path.stat(follow_symlinks=False).st_uid != os.geteuid():
            return None  # don't act on another user's notes
        data = json.loads(opening.read_text(path, follow=False))
        kind, pid, started, facts = str(data["kind"]), int(data["pid"]), str(data["started"]), dict(data["facts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("ignoring the note %s: %s", path, error)
        return None
    return Leftover(path, kind, pid, started, facts) if kind in _undoers() else None


GONE = ("not found", "no such", "does not exist", "no gpu instances", "no compute instances")


def end_daemon(facts: Mapping[str, Any]) -> str:
    """Stop an MPS daemon of ours and remove its directory."""
    directory = Path(str(facts["directory"]))
    if not directory.name.startswith("cotenant-mps-"):
        raise DeviceError(f"{directory} is not the directory of a cotenant MPS daemon")
    ended = Daemon(directory, str(facts["gpu"])).end()
    return f"stopped the MPS daemon in {directory}" if ended else f"removed {directory}, whose MPS daemon was gone"


def put_instances_back(facts: Mapping[str, Any]) -> str:
    """Remove the MIG instances created, and turn MIG off if it was off."""
    index = str(int(facts["index"]))
    done = []
    for instance in facts["made"]:
        number = str(int(instance))
        for command in ("-dci", "-dgi"):
            said = tools.run(["nvidia-smi", "mig", "-i", index, command, "-gi", number])
            if not said.ok and not any(phrase in said.reason.lower() for phrase in GONE):
                raise DeviceError(f"MIG instance {number} of GPU {index} can't be removed: {said.reason}")
        done.append(f"removed MIG instance {number} of GPU {index}")
    nvml.forget()  # the library must be reopened to see them gone
    if facts["off"] and _mig_is_or_will_be_on(nvml.find(str(facts["gpu"]))):
        said = tools.run(["nvidia-smi", "-i", index, "-mig", "0"])
        if not said.ok:
            raise DeviceError(f"MIG of GPU {index} can't be turned off: {said.reason}")
        done.append(f"turned MIG of GPU {index} off")
    return "; ".join(done) or f"nothing was left on GPU {index}"


def _mig_is_or_will_be_on(gpu: nvml.GpuFacts) -> bool:
    """Turn it off also if it is only pending, so that it doesn't appear after the next reset."""
    return any(library.ask("nvmlDeviceGetMigMode", nvml.handle(gpu), of=gpu.label) or ())


def put_mode_back(facts: Mapping[str, Any]) -> str:
    """Restore the previous compute mode."""
    gpu, mode = nvml.find(str(facts["gpu"])), facts["mode"]
    if mode is not None and compute_mode.read(gpu) != int(mode):
        compute_mode.write(gpu, int(mode))
        return f"set {gpu.label} back to compute mode `{compute_mode.NAMES.get(int(mode), mode)}`"
    return f"{gpu.label} is already in its compute mode"


def main(note: Path) -> None:
    """Wait until the runner closes the pipe or dies; then undo what is still noted."""
    sys.stdin.buffer.read()
    left = read(note)
    if left is not None:
        with suppress(CotenantError, OSError):  # the note stays for the doctor
            left.undo()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
