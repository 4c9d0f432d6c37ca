"""The guard: `python -m cotenant.devices.nvidia.sharing.guard NOTE`. Undoes what a runner left when it is gone."""

import sys
from contextlib import suppress
from pathlib import Path

from cotenant.devices.nvidia.sharing.leftovers import read
from cotenant.errors import CotenantError


def main(note: Path) -> None:
    """Sleep until the runner has closed the pipe, or is gone; then undo what is still noted."""
    sys.stdin.buffer.read()
    left = read(note)
    if left is not None:
        with suppress(CotenantError, OSError):  # the note stays: the doctor will find it
            left.undo()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
