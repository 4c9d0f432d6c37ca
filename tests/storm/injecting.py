"""Runs a command line in which one call of the C library fails."""

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SHIM = Path(__file__).with_name("shim.c")
CALLS = {
    "open": (errno.EMFILE, errno.EIO, errno.ENOMEM),
    "read": (errno.EIO,),
    "write": (errno.ENOSPC, errno.EFBIG, errno.EIO),
    "mmap": (errno.ENOMEM,),
    "fork": (errno.EAGAIN, errno.ENOMEM),
    "sync": (errno.EIO, errno.ENOSPC),
}
"""Each call, and what it can fail with."""
LONGEST_S = 60


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str
    calls: int
    """Calls of the kind that were seen; 0 if the process did not count to the end."""


@cache
def library(folder: Path) -> Path:
    """The shim, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    target = folder / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", target, SHIM, "-ldl"], check=True, capture_output=True)
    return target


def run(shim: Path, arguments: list[str], *, call: str, nth: int, code: int, after: str) -> Ended:
    """One command line, with at most one fault in it."""
    count = shim.with_name("count.txt")
    count.unlink(missing_ok=True)
    around = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "FAULT_CALL": call,
        "FAULT_NTH": str(nth),
        "FAULT_ERRNO": str(code),
        "FAULT_AFTER": after,
        "FAULT_COUNT": str(count),
    }
    done = subprocess.run(
        [sys.executable, "-m", "cotenant.cli.main", *arguments],
        env=around,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=LONGEST_S,
    )
    calls = int(count.read_text() or 0) if count.exists() else 0
    return Ended(done.returncode, done.stdout, done.stderr, calls)


def places(calls: int, most: int) -> list[int]:
    """Which of so many calls to let fail: the first, the last, and others evenly between."""
    if calls <= most:
        return list(range(1, calls + 1))
    return sorted({1 + round(step * (calls - 1) / (most - 1)) for step in range(most)})
