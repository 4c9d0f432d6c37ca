"""The process that keeps what was watched until it is on disk. It loads nothing: its children write, and end.

Started by `recorder`, whose portions come on standard input, each after its length. When they end, because the watcher
closed them or was killed, the rest is written. A problem is told on standard output.
"""

import json
import os
import pickle
import signal
import sys
import time

STRETCH_S = 60.0
"""Between two writings."""


def main(path: str) -> int:
    """Keep portions, and write them now and then, until they end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they end the watcher, and this after it
    kept: list[bytes] = []
    trial, since = 0, time.monotonic()
    while True:
        portion = _portion()
        if portion:
            kept.append(portion)
        if kept and (not portion or time.monotonic() - since >= STRETCH_S):
            if not _written(path, kept, trial):
                return 1
            kept, trial, since = [], trial + 1, time.monotonic()
        if not portion:
            return 0


def _portion() -> bytes:
    """The next one; empty if there is none, or if the watcher was killed while it sent one."""
    size = int.from_bytes(sys.stdin.buffer.read(8), "little")
    portion = sys.stdin.buffer.read(size)
    return portion if len(portion) == size else b""


def _written(path: str, portions: list[bytes], trial: int) -> bool:
    """Write them as a trial, in a child; whether that worked."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        _write(path, portions, trial)
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def _write(path: str, portions: list[bytes], trial: int) -> None:
    from pathlib import Path

    from cotenant.errors import RunFolderError
    from cotenant.measure.watch.recorder import records_of
    from cotenant.store.folder import RunFolder

    try:
        read = [pickle.loads(portion) for portion in portions]  # noqa: S301  (our own parent's)
        RunFolder.open(Path(path)).commit(records_of(read, trial))
    except RunFolderError as problem:
        sys.stdout.write(json.dumps({"message": problem.message, "hint": problem.hint}))
        raise SystemExit(1) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
