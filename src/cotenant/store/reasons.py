"""Why checks failed, in the words of the trials."""

from collections.abc import Sequence
from pathlib import Path

from cotenant.store import views

_LATEST = """
SELECT name, arg_max(reason, (coalesce(CAST(started_utc AS VARCHAR), ''), trial)) FROM (
    SELECT started_utc, trial, unnest(failed_checks) AS name, unnest(reasons) AS reason
    FROM trials WHERE block >= 0 AND len(failed_checks) = len(reasons)
) GROUP BY name
"""
"""Where a check failed for several tenants there are more reasons than names, and which is whose is not kept."""


def latest_reasons(runs: Sequence[Path]) -> dict[str, str]:
    """For each failed check the sentence of the latest trial, where one trial's sentence can be told to be its own."""
    con = views.connect(runs)
    try:
        return dict(con.execute(_LATEST).fetchall())
    finally:
        con.close()
