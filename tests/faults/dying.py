"""Writes records and dies at each of the calls that change the disk, each time from the start.

Arguments: a scene, a folder. Prints the place of each attempt; the last one comes through. Everything is imported
once; each attempt is a fork.
"""

import asyncio
import os
import signal
import sys
import time
from itertools import count
from pathlib import Path
from unittest.mock import patch

import duckdb  # noqa: F401 - for all attempts; without a connection it has no threads
import numpy as np

from cotenant.ranking.folder import RESULT, SearchFolder
from cotenant.serving import recording
from cotenant.serving.tickets import RequestOutcome
from tests.faults.runner import STEPS, arm
from tests.serving.http.front import front
from tests.serving.http.test_recording import FILE

LEAF, ITEMS, PORTION = "leaf", 12, 4
FEATURES = np.arange(3.0 * ITEMS, dtype=np.float32).reshape(ITEMS, 3)
SETTINGS = {"data": "photos", "models": ["a"]}
STRETCHES = 3


def search(place: Path) -> None:
    """All that a search writes; what is there already is not done again."""
    path = place / "search"
    folder = SearchFolder.open(path) if (path / "search.json").exists() else SearchFolder.create(path, SETTINGS)
    while (first := folder.have(LEAF)) < ITEMS:
        folder.commit(LEAF, first, FEATURES[first : first + PORTION])
        folder.note(done=folder.have(LEAF))
    folder.write(RESULT, "{}")


def served(place: Path) -> None:
    """A server that fills a run with two stretches, starts the next one, and then has room for a single run."""

    async def serve() -> None:
        async with front() as client:
            recorder = recording.Recorder(client.service, FILE, place)
            recorder.open()
            for stretch in range(STRETCHES):
                if stretch == STRETCHES - 1:
                    recorder._most_bytes = 1
                now = time.monotonic()
                client.service.measures.add(RequestOutcome("gpt", now, now, now, now, 0.0, 0.0, True, None, 1))
                await recorder.cut()
                with reported(place).open("a") as file:
                    file.write(".")
            await recorder.close()

    with patch.object(recording, "TRIALS", 2), patch.object(recording, "session", dict):  # a session asks git
        asyncio.run(serve())


def reported(place: Path) -> Path:
    """A file beside the place, with a dot for each stretch that was written."""
    return place.with_suffix(".reported")


def main() -> None:
    """Attempt after attempt."""
    scene, folder = {"search": search, "served": served}[sys.argv[1]], Path(sys.argv[2])
    os.fsync = lambda _: None  # a killed process loses nothing that it wrote, and a disk takes its time
    for step in count(1):
        place = folder / f"{step:03d}"
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            arm(f"step:{step}", (*STEPS, (os, "unlink"), (os, "rmdir")))
            scene(place)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(place, flush=True)  # noqa: T201
        if status != signal.SIGKILL:
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
