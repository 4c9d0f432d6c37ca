"""The runs that a prediction learns from, limited to the device in question."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.devices.target import kind_of
from cotenant.errors import PredictionError
from cotenant.paths import AnyPath, home_of

if TYPE_CHECKING:
    from cotenant.devices.target import TargetDevice
    from cotenant.prediction.interference.elsewhere import ForeignTable
    from cotenant.prediction.interference.gathered import Learnt
    from cotenant.store.folder import RunFolder

FROM_DATABASE = "db"
TABLES = "tables"
"""The database's folder of tables that others measured."""


def learnt(runs: Sequence[str | Path], place: "TargetDevice", *, db: AnyPath | None = None) -> "Learnt":
    """Read the runs.

    Args:
        runs: Folders, saved names, or `db`.
        place: The device in question.
        db: The database's folder instead of the default.

    Raises:
        PredictionError: A named run is from another device, or the database has none from this device.
    """
    from cotenant.analyse.sharing.evidence import peaks_of
    from cotenant.prediction.interference.gathered import Learnt, gathered
    from cotenant.store import baselines
    from cotenant.store.evidence import evidence
    from cotenant.store.folder import RunFolder
    from cotenant.store.reading import open_runs

    folders: dict[str, RunFolder] = {}
    notes: list[str] = []
    tables: list[ForeignTable] = []
    for run in runs:
        if Path(run).is_file() and Path(run).suffix.lower() == ".csv":
            tables.append(table_at(Path(run)))
        elif str(run) == FROM_DATABASE and not Path(run).exists():
            tables += _tables_of_database(place, db)
            found, lost = _of_database(place, db, needed=not tables)
            folders |= {folder.run: folder for folder in found}
            notes += lost
        else:
            folder = RunFolder.open(baselines.resolve(str(run)))
            _require_same(folder, place)
            folders[folder.run] = folder
    known = []
    if folders:
        with open_runs([folder.path for folder in folders.values()]) as opened:
            known = evidence(opened)
    peaks = [peaks_of(folder.manifest).bytes_per_s for folder in folders.values()]
    result = gathered(known)
    if result.open_loads:
        notes.append(f"{result.open_loads} observations under open loads were ignored: predictions use closed loads.")
    return Learnt(result, max((peak for peak in peaks if peak), default=None), tuple(notes), tuple(tables))


def table_at(path: Path) -> "ForeignTable":
    """A table of what others measured. Raises DataError with the lines that can't be used."""
    from cotenant.errors import DataError
    from cotenant.opening import why
    from cotenant.prediction.interference.elsewhere import foreign_table

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise DataError(f"{path} can't be read: {why(problem)}.", hint="give a CSV file") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} can't be read: it is not UTF-8.", hint="give a CSV file in UTF-8") from None
    return foreign_table(text, str(path))


def _tables_of_database(place: "TargetDevice", db: AnyPath | None) -> "list[ForeignTable]":
    tables = [table_at(path) for path in sorted((home_of(db) / TABLES).glob("*.csv"))]
    return [table for table in tables if table.device in (place.name, place.kind)]


def _of_database(place: "TargetDevice", db: AnyPath | None, *, needed: bool) -> "tuple[list[RunFolder], list[str]]":
    """Runs of the database on this kind of device whose folders still exist."""
    from cotenant.store.database import index
    from cotenant.store.folder import RunFolder

    home = home_of(db)
    runs = [source for source in index.read(home).values() if source.kind == "run"]
    beside = [RunFolder.open(path.parent) for path in sorted(home.parent.glob("**/manifest.json"))]
    there = {folder.run: folder for folder in beside}
    lost = sum(source.name not in there for source in runs)
    known = (there[source.name] for source in runs if source.name in there)
    folders = [folder for folder in known if same_kind(folder, place)]
    if not folders and needed:
        raise PredictionError(
            f"the database at {home} has no run on {place.kind}",
            hint="measure and add one: cotenant run STUDY, then cotenant db add RUN",
        )
    notes = [f"{lost} of the database's {len(runs)} runs were ignored: their folders are gone."] if lost else []
    return folders, notes


def _require_same(folder: "RunFolder", place: "TargetDevice") -> None:
    from cotenant.analyse.sharing.evidence import described

    if not same_kind(folder, place):
        kind = kind_of(described(folder.manifest))
        simulated = " (simulated)" if folder.manifest.get("simulated") else ""
        raise PredictionError(
            f"{folder.path} was measured on {kind}{simulated}, but the prediction is for {place.kind}",
            hint=f"measure there: cotenant run STUDY --device {place.name}; or predict for the run's own device",
        )


def same_kind(folder: "RunFolder", place: "TargetDevice") -> bool:
    """True if a run was measured (or simulated, like the device) on this kind of device."""
    from cotenant.analyse.sharing.evidence import described

    simulated = bool(folder.manifest.get("simulated"))
    return kind_of(described(folder.manifest)) == place.kind and simulated == place.simulated
