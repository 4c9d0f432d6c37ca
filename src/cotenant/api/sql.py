"""`sql`: read-only queries over the records."""

from typing import TYPE_CHECKING

from cotenant.paths import Runs, run_paths

if TYPE_CHECKING:
    from cotenant.store.query import Table


def sql(query: str, runs: Runs, *, limit_s: float = 60.0) -> "Table":
    """Run one SELECT over the tables of any number of runs.

    Args:
        query: The SELECT.
        runs: Run folders.
        limit_s: Timeout in seconds.

    Raises:
        QueryError: The query is wrong, does more than read, or needs too much memory or time.
    """
    from cotenant.store import query as store

    return store.sql(query, run_paths(runs), limit_s=limit_s)
