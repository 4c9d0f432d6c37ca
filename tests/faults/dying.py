"""Writes what a search writes and dies at each of the calls that change the disk, each time from the start.

Argument: a folder. Prints the place of each attempt; the last one comes through. Everything is imported
once; each attempt is a fork.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

import numpy as np

from cotenant.ranking.folder import RESULT, SearchFolder
from tests.faults.runner import arm

LEAF, ITEMS, PORTION = "leaf", 12, 4
FEATURES = np.arange(3.0 * ITEMS, dtype=np.float32).reshape(ITEMS, 3)
SETTINGS = {"data": "photos", "models": ["a"]}


def search(place: Path) -> None:
    """All that a search writes; what is there already is not done again."""
    path = place / "search"
    folder = SearchFolder.open(path) if (path / "search.json").exists() else SearchFolder.create(path, SETTINGS)
    while (first := folder.have(LEAF)) < ITEMS:
        folder.commit(LEAF, first, FEATURES[first : first + PORTION])
        folder.note(done=folder.have(LEAF))
    folder.write(RESULT, "{}")


def main() -> None:
    """Attempt after attempt."""
    folder = Path(sys.argv[1])
    for step in count(1):
        place = folder / f"{step:03d}"
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            arm(f"step:{step}")
            search(place)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(place, flush=True)  # noqa: T201
        if status != signal.SIGKILL:
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
