"""Kills a command line at each call that touches the disk, each time from the start.

Then it inspects what is left. Argument: a file that describes it, see `Stepped`. Everything is imported once; each
attempt is a fork. Prints JSON.
"""

import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.faults.runner import arm
from tests.storm import attempting


@dataclass(frozen=True)
class Stepped:
    """The command to kill, and the commands that inspect the result; `FOLDER` stands for a copy of `room`."""

    room: str
    words: list[str]
    then: list[list[str]]
    """Command lines that follow a kill."""
    most: int = 1000
    """Steps to try, evenly spread."""


def main() -> None:
    """Run all attempts; return what followed each kill."""
    asked = Stepped(**json.loads(Path(sys.argv[1]).read_text()))
    attempting.import_everything(models=False)
    _attempt(asked, 0)  # fills the cache of descriptions, so that later attempts skip those steps
    steps, _ = _attempt(asked, 0)
    step = max(1, -(-steps // asked.most))
    report = []
    for number in range(1, steps + 1, step):
        _, ended = _attempt(asked, number)
        report.append(
            {
                "step": number,
                "killed": ended.code == -signal.SIGKILL,
                "after": [_follow(asked, line) for line in asked.then],
            }
        )
    print(json.dumps({"steps": steps, "kills": report}))  # noqa: T201


def _folder(asked: Stepped) -> Path:
    return Path(asked.room).with_name("stepped")


def _attempt(asked: Stepped, number: int) -> tuple[int, attempting.Ended]:
    """Start over and die at a step (0: none); return the steps seen."""
    folder = _folder(asked)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(asked.room, folder)
    seen = folder / "steps"

    def body() -> int:
        from cotenant.cli.main import main

        os.environ.update(XDG_CACHE_HOME=str(folder.with_name("cache")), COTENANT_LOCKS=str(folder / "locks"))
        count = arm(f"step:{number}")
        code = main([word.replace("FOLDER", str(folder)) for word in asked.words])
        seen.write_text(str(count()))
        return code

    ended = attempting.alone(body, folder)
    return int(seen.read_text()) if seen.exists() else 0, ended


def _follow(asked: Stepped, line: list[str]) -> tuple[int, str, str]:
    folder = _folder(asked)
    ended = attempting.run([word.replace("FOLDER", str(folder)) for word in line], folder)
    return ended.code, ended.out, ended.err


if __name__ == "__main__":
    main()
