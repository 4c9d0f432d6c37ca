"""`cotenant sql`: SQL queries over the records."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from cotenant.cli.failures import Failure, tell
from cotenant.cli.output import Exit, as_json, show, show_json

# --- limits enforced by the system on this process, where a library enforces its own only sporadically

DATA = 5
"""Place of writable memory in statm."""


@contextmanager
def bounded(*, memory_bytes: int, seconds: float) -> Iterator[None]:
    """Limit the growth of the process and its run time. A library that ignores the limits is killed with it.

    Counts writable memory (RLIMIT_DATA), not address space: a database with two threads reserves a gigabyte of that for
    the smallest query, and uses a few megabytes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[DATA])
    wanted = pages * resource.getpagesize() + memory_bytes
    watchdog = threading.Timer(seconds, _end, (seconds,))
    watchdog.daemon = True
    watchdog.start()
    try:
        if soft == resource.RLIM_INFINITY or wanted < soft:
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
        yield
    finally:
        watchdog.cancel()
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _end(seconds: float) -> None:
    tell(Failure(f"stopped after {seconds:g} s: the query can't be interrupted in another way."))
    os._exit(Exit.ERROR)


MEMORY_BYTES = 1 << 30
"""On top of what the process uses: the database limits its own memory, but not that of every expression."""
GRACE_S = 10.0
"""Some expressions don't react to an interrupt."""
EPILOG = """\b
Examples:  cotenant sql "select mix, sharing, verdict, count(*) from trials group by all" runs/quick/*
           cotenant sql "select tenant, median(done_ns - intended_ns) / 1e6 as p50_ms
                         from requests where in_window and ok group by tenant" RUN

The tables are trials, tenants, requests, stages, samples and kernels, all read-only.
"""


@click.command("sql", epilog=EPILOG)
@click.argument("query")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0.1), default=60.0, show_default=True,
              help="Stop the query after this time.")  # fmt: skip
@as_json
def command(*, query: str, runs: tuple[Path, ...], timeout: float, as_json: bool) -> None:
    """Run QUERY over the records of any number of run folders."""
    from cotenant.api.records import sql
    from cotenant.reporting.terminal import QueryAnswer

    with bounded(memory_bytes=MEMORY_BYTES, seconds=timeout + GRACE_S):
        table = sql(query, runs, limit_s=timeout)
    if as_json:
        show_json([dict(zip(table.columns, row, strict=True)) for row in table.rows])
    else:
        show(QueryAnswer(table.columns, table.rows))
