"""The runs that a prediction learns from, limited to the device in question."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.devices.target import kind_of
from cotenant.errors import PredictionError
from cotenant.paths import AnyPath, home_of
from cotenant.store.reading import WATCHED
from cotenant.text import amount, listed

if TYPE_CHECKING:
    from cotenant.devices.target import TargetDevice
    from cotenant.prediction.interference import ForeignTable, Learnt
    from cotenant.store.folder import RunFolder
    from cotenant.store.service_times import ServiceTimes

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
    from cotenant.analyse.sharing import peaks_of
    from cotenant.prediction.interference import LARGEST, Learnt, gather_evidence
    from cotenant.store import baselines
    from cotenant.store.evidence import evidence
    from cotenant.store.folder import RunFolder
    from cotenant.store.identities import Identities
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
            if folder.manifest.get("study_name") == WATCHED:
                table, said = watched_table(folder)
                tables.append(table)
                notes += said
            else:
                folders[folder.run] = folder
    known = []
    if folders:
        with open_runs([folder.path for folder in folders.values()]) as opened:
            known = evidence(opened, Identities(opened))
    peaks = [peaks_of(folder.manifest).bytes_per_s for folder in folders.values()]
    result = gather_evidence(known)
    if result.open_loads:
        notes.append(f"{result.open_loads} observations under open loads were ignored: predictions use closed loads.")
    if result.too_large:
        left_out = amount(result.too_large, "measured mix was", "measured mixes were")
        notes.append(f"{left_out} ignored: predictions are of up to {LARGEST} tenants.")
    return Learnt(result, max((peak for peak in peaks if peak), default=None), tuple(notes), tuple(tables))


def watched_services(runs: Sequence[str | Path]) -> "dict[str, ServiceTimes]":
    """By tenant: times of its requests with what neighbours cost taken off, from the buckets that its server publishes.

    They include waiting for requests of its own, so a plan with them errs on the safe side.
    """
    import numpy as np

    from cotenant.analyse.neighbours import alone_factor, bucket_points
    from cotenant.store import baselines
    from cotenant.store.reading import open_runs
    from cotenant.store.service_times import POINTS, ServiceTimes
    from cotenant.store.watched import watched_runs, watched_totals

    found: dict[str, ServiceTimes] = {}
    with open_runs([baselines.resolve(str(run)) for run in runs]) as opened:
        buckets = {totals.tenant: totals.buckets.get("latency", {}) for totals in watched_totals(opened)}
        for run in watched_runs(opened):
            for tenant, series in zip(run.watched.tenants, run.watched.series, strict=True):
                if not tenant.mean_ms or not tenant.requests:
                    continue
                alone_s = tenant.mean_ms / 1e3 / alone_factor(run.watched, tenant.tenant)
                drawn = np.array(bucket_points(buckets.get(tenant.tenant, {}), POINTS) or [alone_s])
                known = series.mean_s[np.isfinite(series.mean_s)]
                parts = [float(part.mean()) for part in np.array_split(known, min(8, max(known.size // 6, 1)))]
                blocks = alone_s * np.array(parts) / float(np.mean(parts))
                found[tenant.tenant] = ServiceTimes(
                    np.outer(blocks, drawn / float(drawn.mean())),
                    tuple(blocks.tolist()),
                    (max(tenant.requests // len(parts), 1),) * len(parts),
                    None if tenant.first_ms is None else tenant.first_ms / 1e3,
                    None if tenant.token_ms is None else tenant.token_ms / 1e3,
                    max(round(tenant.tokens_out or 1), 1),
                )
    return found


def watched_table(folder: "RunFolder") -> "tuple[ForeignTable, list[str]]":
    """Watched servers as a table: times without what neighbours cost, slowdowns beside busy ones; and what is missing.

    Raises:
        WatchError: Nothing was watched there.
    """
    from cotenant.analyse.neighbours import alone_factor, mean_factor
    from cotenant.prediction.interference import foreign_solo, observed_table
    from cotenant.store.reading import open_runs
    from cotenant.store.watched import watched_runs
    from cotenant.tenancy.interval import Estimate

    with open_runs([folder.path]) as opened:
        [run] = watched_runs(opened)
    watched, solos, mixes = run.watched, [], []
    unknown: list[str] = []
    for tenant in watched.tenants:
        mean_ms = tenant.mean_ms
        if not mean_ms:
            continue
        mine = [influence for influence in watched.influences if influence.tenant == tenant.tenant]
        factors = [mean_factor(watched, influence) for influence in mine]
        busy = tenant.gpu_share if watched.device != "cpu" else tenant.cores
        solos.append(
            foreign_solo(
                tenant.tenant,
                mean_ms / 1e3 / alone_factor(watched, tenant.tenant),
                busy_s=busy / tenant.rate_rps if busy and tenant.rate_rps else None,
                unstable=None in factors,
            )
        )
        unknown += [tenant.tenant] if None in factors else []
        mixes += [
            ((influence.neighbour, influence.tenant), influence.busy)
            for influence in mine
            if isinstance(influence.busy, Estimate)
        ]
    notes = ["Slowdowns of watched servers are those at the traffic that came, while the neighbour was busy."]
    if unknown:
        notes.append(f"{listed(unknown)} was never seen without neighbours: its time alone may be shorter.")
    return observed_table(str(folder.path), solos, run.sharing, mixes), notes


def table_at(path: Path) -> "ForeignTable":
    """A table of what others measured. Raises DataError with the lines that can't be used."""
    from cotenant.errors import DataError
    from cotenant.opening import why
    from cotenant.prediction.interference import foreign_table

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
    from cotenant.analyse.sharing import described

    if not same_kind(folder, place):
        kind = kind_of(described(folder.manifest))
        simulated = " (simulated)" if folder.manifest.get("simulated") else ""
        raise PredictionError(
            f"{folder.path} was measured on {kind}{simulated}, but the prediction is for {place.kind}",
            hint=f"measure there: cotenant run STUDY --device {place.name}; or predict for the run's own device",
        )


def same_kind(folder: "RunFolder", place: "TargetDevice") -> bool:
    """True if a run was measured (or simulated, like the device) on this kind of device."""
    from cotenant.analyse.sharing import described

    simulated = bool(folder.manifest.get("simulated"))
    return kind_of(described(folder.manifest)) == place.kind and simulated == place.simulated
