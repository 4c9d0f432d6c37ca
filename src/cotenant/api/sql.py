"""`sql`: any question to the records, read-only."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.store.query import Table


def sql(query: str, runs: Sequence[Path]) -> "Table":
    """One SELECT over the tables of any number of runs.

    Raises:
        QueryError: The query is wrong, or wants to do more than read.
    """
    from cotenant.store import query as store

    return store.sql(query, runs)
