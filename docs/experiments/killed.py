"""What is saved at the end is lost before it.

A real run folder, written by a process that dies (`SIGKILL`) in the middle of its fourth trial: once as cotenant
writes, once as a script does that keeps its results in memory and saves them at the end.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from cotenant.reporting.elements.markdown import table
from cotenant.store.folder import RunFolder
from cotenant.text import NOTHING

HEAD = (
    "records are saved",
    "trials carried out",
    "trials on disk after the kill",
    "half-written trials that are counted",
)
TRIALS = 4

WRITER = """
import os, signal, sys
from pathlib import Path
from cotenant.tenancy.records import TrialRecords
from cotenant.store import parquet
from cotenant.store.folder import RunFolder

path, how, trials = sys.argv[1:]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
write = parquet.write

def torn(con, table, file):
    write(con, table, file)
    die()

kept = []
folder = RunFolder.create(Path(path), {}) if how == "each" else None
for number in range(int(trials)):
    facts = {"trial": number, "block": 0, "verdict": "valid", "failed_checks": [], "reasons": []}
    last = number == int(trials) - 1
    if folder is None:
        kept.append(facts)
        if last:
            die()
    else:
        parquet.write = torn if last else write
        folder.commit(TrialRecords(trial=facts, tenants=({"tenant": "a"},), requests={}))
"""


def rows() -> list[tuple[str, ...]]:
    """Both ways to save."""
    return [_row("after each trial, in one rename", "each"), _row("at the end", "end")]


def _row(name: str, how: str) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        subprocess.run(
            [sys.executable, "-c", WRITER, str(path), how, str(TRIALS)], check=False, stderr=subprocess.DEVNULL
        )
        if not path.exists():
            return name, str(TRIALS - 1), "0", NOTHING
        run = RunFolder.open(path)
        whole = [number for number in run.committed() if (run.trial_path(number) / "tenants.parquet").exists()]
        return name, str(TRIALS - 1), str(len(whole)), str(len(run.committed()) - len(whole))


if __name__ == "__main__":
    print(table(HEAD, rows()))
