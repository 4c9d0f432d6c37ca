"""The guard, `python -m cotenant.devices.nvidia.sharing.guard NOTE`: undoes a runner's changes once it is gone."""

import sys
from contextlib import suppress
from pathlib import Path

from cotenant.devices.nvidia.sharing.leftovers import read
from cotenant.errors import CotenantError


def main(note: Path) -> None:
    """Wait until the runner closes the pipe or dies; then undo what is still noted."""
    sys.stdin.buffer.read()
    left = read(note)
    if left is not None:
        with suppress(CotenantError, OSError):  # the note stays for the doctor
            left.undo()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
