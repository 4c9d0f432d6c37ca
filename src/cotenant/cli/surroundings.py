"""Preconditions of any command: standard streams, and memory for the libraries it loads."""

import os
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.cli.failures import Failure

LEAST_ADDRESS_SPACE = 1 << 30
"""Numerical libraries and the database reserve about this much before they hold a single number. With less they abort
the process with their own message."""


def refusal() -> "Failure | None":
    """Why no command can run here, if so."""
    closed = _fill_streams()
    if 1 in closed:
        from cotenant.cli.failures import Failure

        return Failure("the standard output is closed.", hint="send it to a file, or to /dev/null")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        from cotenant.cli.failures import Failure

        return Failure(
            f"the limit of virtual memory (ulimit -v) is {limit >> 20} MiB, which is too little to load libraries.",
            hint=f"raise it to {LEAST_ADDRESS_SPACE >> 20} MiB or more",
        )
    return None


def _fill_streams() -> set[int]:
    """Replace closed streams by /dev/null: a file opened later must not take their place."""
    closed = set()
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
    if 2 in closed:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  (a descriptor, kept open)
    return closed
