"""`verify`: are all runs unchanged since they were written?"""

from typing import TYPE_CHECKING

from cotenant.paths import Runs, run_paths

if TYPE_CHECKING:
    from pathlib import Path

    from cotenant.store.verifying import Verified


def run_digests(runs: Runs) -> "dict[Path, str]":
    """The SHA-256 of every run, over the names and contents of all its files: to keep elsewhere and compare later.

    Raises:
        RunFolderError: A folder is not a run, or a file can't be read.
    """
    from cotenant.store import manifest
    from cotenant.store.verifying import digest_of_run

    digests = {}
    for path in dict.fromkeys(run_paths(runs)):
        manifest.read(path)
        digests[path] = digest_of_run(path)
    return digests


def verify(runs: Runs) -> "tuple[Verified, ...]":
    """Compare every file of the runs with its seal, and count every trial's rows. Read-only."""
    from cotenant.store.verifying import verify_run

    return tuple(map(verify_run, dict.fromkeys(run_paths(runs))))
