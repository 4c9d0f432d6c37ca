"""Open runs for reading: each manifest is read once, and all records form a database."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import WatchedRuns
from cotenant.store import integrity, views
from cotenant.store.folder import RunFolder

if TYPE_CHECKING:
    import duckdb

WATCHED = "watched"
"""The load of watched trials, and the name of such runs."""

_LATEST_REASONS = """
SELECT name, arg_max(reason, (coalesce(CAST(started_utc AS VARCHAR), ''), trial)) FROM (
    SELECT started_utc, trial, unnest(failed_checks) AS name, unnest(reasons) AS reason
    FROM trials WHERE block >= 0 AND len(failed_checks) = len(reasons)
) GROUP BY name
"""
"""If a check failed for several tenants, reasons outnumber names and can't be matched."""


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """Open runs; queried by `observe`, `evidence`, `readings`, `clock_readings` and `reduced`."""

    folders: Mapping[str, RunFolder]
    """By the run's identity, in the given order."""
    files: views.Files
    con: "duckdb.DuckDBPyConnection"
    paths: Sequence[Path]
    """The folders as given, in the order of ``folders``."""
    damage: Sequence[str]
    """One sentence per omission."""
    counted: list[Any] = field(default_factory=list)
    """The counts of `observe`, read once for every analysis."""

    @property
    def manifests(self) -> list[Mapping[str, Any]]:
        """What was measured, where and with what."""
        return [folder.manifest for folder in self.folders.values()]

    def latest_reasons(self) -> dict[str, str]:
        """The latest reason of each failed check, from trials with a reason per check."""
        return dict(self.con.execute(_LATEST_REASONS).fetchall())


@contextmanager
def open_runs(paths: Sequence[Path]) -> Iterator[OpenRuns]:
    """Open runs together; a run given twice is opened once.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or has a newer schema; or two folders hold the same run.
    """
    folders = views.find_folders(paths)
    standings = {run: integrity.usable(folder) for run, folder in folders.items()}
    files = {run: views.files_of(folder, standings[run]) for run, folder in folders.items()}
    damage = [sentence for run, folder in folders.items() for sentence in integrity.sentences(folder, standings[run])]
    con = views.open_views(files)
    named = {path.resolve(): path for path in reversed(paths)}
    try:
        with views.damage_named(files):
            yield OpenRuns(folders, files, con, [named[folder.path] for folder in folders.values()], damage)
    finally:
        con.close()


def require_requests(runs: OpenRuns, what: str) -> None:
    """Refuse watched runs where single requests are needed. Raises WatchedRuns."""
    for path, manifest in zip(runs.paths, runs.manifests, strict=True):
        if manifest.get("study_name") == WATCHED:
            raise WatchedRuns(
                f"{path} was watched, so it has totals of its servers and no requests, which {what} needs.",
                hint=f"Who slows whom: cotenant show {shlex.quote(str(path))}",
            )
