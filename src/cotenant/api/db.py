"""`cotenant.db`: the measurements of all machines together, and questions about them."""

from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.paths import AnyPath, Runs, home_of, run_paths

if TYPE_CHECKING:
    from cotenant.analyse.variability import Drift, Variability
    from cotenant.store.database import Added, Anomalies, Contents, GpuStory, SensorPair, SensorUse


def add(paths: Runs, *, db: AnyPath | None = None, skip_bad: bool = False) -> "tuple[Added, ...]":
    """Add run folders, files of other tools, and tables of what others measured beside neighbours; all or nothing.

    Args:
        paths: Run folders; files of nvidia-smi, dcgmi, nvprof or tegrastats; CSV with a row per run, or with the
            columns of `predict --from table.csv` and the device.
        db: The database's folder; default: $COTENANT_DB, or `runs/.database`.
        skip_bad: Skip and count unusable lines instead of refusing the file.

    Raises:
        RunFolderError: A folder is not a run, or is damaged.
        DataError: A file has an unknown format, or contains unusable lines.
        DatabaseError: The database can't be written.
    """
    from cotenant.store.database import add as store
    from cotenant.store.database import add_tables, split_tables

    others, tables = split_tables(run_paths(paths))
    added = store(others, home_of(db), skip_bad=skip_bad) if others else ()
    return (*added, *add_tables(tables, home_of(db)))


def gather(folder: AnyPath, *, on: str, db: AnyPath | None = None, insecure: bool = False) -> "tuple[Added, ...]":
    """Copy the runs below a folder of every node of a Ray cluster to this machine, beside the database, and add them.

    Raises:
        CotenantError: No node has a run there, or one can't be used.
    """
    from cotenant.fleet.asking import gather as fetch

    folder = Path(folder)
    home = home_of(db)
    return add(fetch(on, folder, home.parent / "gathered", insecure=insecure), db=db)


def contents(*, db: AnyPath | None = None) -> "Contents":
    """The database's sources and kinds of work. Raises DatabaseError if there is none."""
    from cotenant.store.database import Contents, Database, index, kept_tables

    home = home_of(db)
    tables = kept_tables(home)
    if tables and not index.read(home):
        return Contents(home, tables, ())
    with Database.open(home) as database:
        return Contents(home, (*database.sources.values(), *tables), tuple(database.works()))


def gpus(work: str | None = None, *, db: AnyPath | None = None) -> "tuple[Variability, ...]":
    """How the GPUs differ under every kind of work whose name contains the text, with a line for each GPU.

    Raises:
        DatabaseError: There is no database or no such work.
    """
    from cotenant.store.database import Database, variabilities

    with Database.open(home_of(db)) as database:
        return tuple(found for _, found in variabilities(database, work))


def gpu(gpu: str, *, db: AnyPath | None = None) -> "GpuStory":
    """Everything known about a GPU, given its UUID or part of it.

    Raises:
        DatabaseError: No GPU matches, or several do.
    """
    from cotenant.store.database import Database, gpu_story

    with Database.open(home_of(db)) as database:
        return gpu_story(database, database.find_gpu(gpu))


def sensors(*, db: AnyPath | None = None) -> "tuple[tuple[SensorUse, str], ...]":
    """Every sensor read, with the name of the source. Raises DatabaseError."""
    from cotenant.store.database import Database, sensor_lines

    with Database.open(home_of(db)) as database:
        return tuple(sensor_lines(database))


def compare_sensors(reference: str, other: str, *, db: AnyPath | None = None) -> "SensorPair":
    """Gain, offset, lag and averaging window of a sensor against a finer sensor of the same quantity.

    Args:
        reference: Words that match only the finer sensor's line: GPU, sensor, tool, source.
        other: The same for the sensor to be judged.
        db: The database's folder instead of the default.

    Raises:
        DatabaseError: The words match no sensor or several, or the two don't overlap in time.
    """
    from cotenant.store.database import Database, compare_named

    with Database.open(home_of(db)) as database:
        return compare_named(database, reference, other)


def trend(work: str | None = None, *, db: AnyPath | None = None) -> "dict[str, Drift]":
    """Drift and steps over time, by work. Raises DatabaseError."""
    from dataclasses import replace

    from cotenant.analyse.variability import find_drift
    from cotenant.store.database import Database

    with Database.open(home_of(db)) as database:
        works = database.find_work(work)
        return {work.name: replace(find_drift(database.readings(work)), simulated=work.simulated) for work in works}


def anomalies(work: str | None = None, *, db: AnyPath | None = None) -> "Anomalies":
    """Slow GPUs with date and cause, changes, and unreliable sensors. Raises DatabaseError."""
    from cotenant.store.database import Database, all_anomalies

    with Database.open(home_of(db)) as database:
        return all_anomalies(database, work)


def report(out: AnyPath, work: str | None = None, *, db: AnyPath | None = None) -> Path:
    """Write a self-contained HTML file about the database. Raises DatabaseError, or RunFolderError if it can't."""
    from cotenant.reporting.html import fleet_page
    from cotenant.reporting.html import gather as material_of
    from cotenant.store.database import Database
    from cotenant.store.folder import write_whole

    out = Path(out)
    home = home_of(db)
    with Database.open(home) as database:
        material = material_of(database, work)
    write_whole(out, fleet_page(material))
    return out
