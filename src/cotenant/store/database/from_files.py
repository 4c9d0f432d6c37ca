"""Convert a file of another tool to rows of the database."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant import opening
from cotenant.errors import DataError
from cotenant.store import imports as importing
from cotenant.store import parquet
from cotenant.store.database.staging import (
    CONSTANTS,
    LASTING,
    MEASUREMENTS,
    TABLES,
    StagedSource,
    Staging,
    gpu_name,
    silences,
)
from cotenant.store.imports import Imported, Skipped, longhorn, nvidia_smi
from cotenant.store.imports.lines import Label, Sheet
from cotenant.store.imports.result import HINT, SHOWN, sentence

_CHUNK = 1 << 22


def key_of(path: Path) -> str:
    """Key by content: a copy under another name is the same source. Raises DataError if it can't be read."""
    digest = hashlib.blake2b(digest_size=12)
    try:
        with opening.open_file(path, most=opening.TABLE_BYTES) as file:
            while part := file.read(_CHUNK):
                digest.update(part)
    except OSError as error:
        raise DataError(
            f"{path} can't be read: {opening.why(error)}.",
            hint="use a run folder, or a file of nvidia-smi, dcgmi, nvprof, tegrastats or with a row per run",
        ) from None
    return digest.hexdigest()


def stage(path: Path, staging: Staging, *, skip_bad: bool) -> StagedSource:
    """Read a file and stage its rows. Raises DataError with what is wrong, where and how often."""
    if staged := stage_sheet(path, importing.detect(path), staging):
        return staged
    refused: dict[str, tuple[int, int]] = {}
    kind = ""
    skipped: tuple[importing.Skipped, ...] = ()
    for found in _read(path, staging.folder / "piece", skip_bad=skip_bad):
        if not found.runs and not found.series:
            raise DataError(
                f"{path} ({found.format}) has neither runs nor sensor readings.",
                hint="the database keeps times, clocks, power and temperatures of GPUs; kernels belong to a profile",
            )
        if found.runs:
            columns = {name: found.runs[theirs] for name, theirs in MEASUREMENTS.items()}
            columns["at_s"] = np.where(columns["at_s"] > 0, columns["at_s"], np.nan)  # such files use -1 for unknown
            staging.measurements(columns, CONSTANTS)
        staging.readings([(gpu_name(path, series.device), series) for series in found.series if series.value.size])
        for series in found.series:
            silent, every = refused.get(series.source, (0, 0))
            refused[series.source] = silent + series.refused, every + series.refused + series.value.size
        kind, skipped = found.format, found.skipped
    return staging.done(kind=kind, left_out=(*_sentences(skipped), *silences(refused)))


def _sentences(skipped: "Sequence[importing.Skipped]") -> tuple[str, ...]:
    return tuple(f"left out: {sentence(problem)}" for problem in skipped)


# --- read large files in parts: a reader holds text for every line, and ten million lines would not fit into memory

LARGE_BYTES = 48 << 20
WITH_HEADER = ("longhorn", "nvidia-smi")
"""Formats with independent lines after a header."""


@dataclass(slots=True)
class Bad:
    """Unusable lines over all parts."""

    found: dict[str, Skipped]

    def add(self, skipped: tuple[Skipped, ...], before: int) -> None:
        """Add those of a part that starts after ``before`` lines of data."""
        for problem in skipped:
            there = self.found.get(problem.what, Skipped(problem.what, 0, ()))
            lines = (*there.lines, *(line + before for line in problem.lines))[:SHOWN]
            self.found[problem.what] = Skipped(problem.what, there.count + problem.count, lines)

    def refuse(self, path: Path) -> None:
        """Raise DataError with every kind, place and count, if there are any."""
        if self.found:
            total = sum(problem.count for problem in self.found.values())
            kinds = "; ".join(map(sentence, self.found.values()))
            raise DataError(
                f"{path} has {total:,} {'line' if total == 1 else 'lines'} that can't be used, so nothing was "
                f"imported: {kinds}.",
                hint=HINT,
            )


def _read(path: Path, room: Path, *, skip_bad: bool) -> Iterator[Imported]:
    """The file at once, or in parts if it is large; the last part reports what was left out.

    Raises:
        DataError: The file, or some of its lines, can't be used; states what, where and how many.
    """
    kind = importing.detect(path)
    if kind not in WITH_HEADER or path.stat().st_size <= LARGE_BYTES:
        yield importing.read(path, format=kind, skip_bad=skip_bad)
        return
    bad = Bad({})
    for piece, before, last in _pieces(path, room):
        try:
            found = importing.read(piece, format=kind, skip_bad=True)
        except DataError as error:
            where = f" (in what follows line {before + 1:,})" if before else ""
            raise DataError(error.message.replace(str(piece), str(path)) + where, hint=error.hint) from None
        finally:
            piece.unlink()
        cut = tuple(problem for problem in found.skipped if last and "cut short" in problem.what)
        bad.add(tuple(problem for problem in found.skipped if problem not in cut), before)
        if last:
            if not skip_bad:
                bad.refuse(path)
            left_out = (*bad.found.values(), *(Skipped(problem.what, problem.count, ()) for problem in cut))
        else:
            left_out = ()
        yield Imported(path, found.format, found.clock, found.runs, found.series, found.kernels, found.facts, left_out)


def _pieces(path: Path, room: Path) -> Iterator[tuple[Path, int, bool]]:
    """Files of the same name with the header and some of the lines; the lines before; whether it is the last."""
    size = path.stat().st_size
    room.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as source:
        header = source.readline()
        before = 0
        while source.tell() < size:
            lines = source.read(LARGE_BYTES) + source.readline()
            piece = room / path.name
            piece.write_bytes(header + lines)
            count = lines.count(b"\n")
            last = source.tell() >= size
            del lines
            yield piece, before, last
            before += count


# --- import a CSV file without bad lines in SQL alone, with no Python object per cell

_LABELS = ("gpu", "workload", "cabinet", "node")
_NOTHING = "CAST(NULL AS VARCHAR)"


def stage_sheet(path: Path, kind: str, staging: Staging) -> StagedSource | None:
    """Stage its rows; None if it must be read line by line because of its format or bad lines.

    Raises:
        DataError: Its header can't be used.
    """
    import duckdb

    try:
        if kind == "longhorn":
            return _runs(longhorn.sheet(path), staging)
        if kind == "nvidia-smi":
            return _log(nvidia_smi.sheet(path), staging)
    except (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfMemoryException):
        return None  # the line reader reports what is wrong, and where
    return None


def _runs(sheet: Sheet, staging: Staging) -> StagedSource | None:
    there = {cell.name for cell in sheet.cells.values()}
    labels = sheet.labels(staging.con, _LABELS)
    if labels is None:
        return None
    values = {ours: theirs for ours, theirs in MEASUREMENTS.items() if theirs in there}
    coded = {
        name: _enum(staging, name, [text for text in label.texts if text not in longhorn.UNKNOWN], name)
        for name, label in labels.items()
    }
    values |= {ours: coded[theirs] for ours, theirs in MEASUREMENTS.items() if theirs in coded}
    if "job" in there:  # there may be as many jobs as runs
        values["job"] = f"CASE WHEN job NOT IN ({', '.join(map(parquet.text, longhorn.UNKNOWN))}) THEN job END"
    values["at_s"] = "CASE WHEN started_s > 0 THEN started_s END"  # -1: unknown
    types = {column.name: column.type for column in TABLES["measurements"]}
    # Text keeps its type: an ENUM is written as text, and must not become text before sorting.
    typed = (
        f"{value if types[name] == 'VARCHAR' else f'CAST({value} AS {types[name]})'} AS {name}"
        for name, value in values.items()
    )
    in_order = f"SELECT {', '.join(typed)} FROM ({sheet.all_or_error(labels)}) ORDER BY gpu, at_s"  # noqa: S608 - ours
    constants = {"work": sheet.path.stem, **CONSTANTS}
    every = ", ".join(
        name if name in values else f"{_constant(staging.constant(name, constants), kind)} AS {name}"
        for name, kind in types.items()
    )
    staging.select("measurements", staging.con, f"SELECT {every} FROM ({in_order})")  # noqa: S608 - our own names
    return staging.done(kind="longhorn")


def _constant(value: str, kind: str) -> str:
    """Text as an ENUM of a value, which is faster to write."""
    return f"CAST({value} AS {f'ENUM ({value})' if kind == 'VARCHAR' and value != 'NULL' else kind})"


def _log(sheet: Sheet, staging: Staging) -> StagedSource | None:
    kinds = nvidia_smi.kinds(sheet)
    labels = sheet.labels(staging.con, ["device"])
    if labels is None:
        return None
    gpu = _gpu_of_line(sheet, labels, staging)
    numbers = ", ".join(
        f"{parquet.quoted(name)} / CAST({kind.per!r} AS DOUBLE) AS v{n}" for n, (name, kind) in enumerate(kinds.items())
    )
    staging.con.execute(
        f"CREATE OR REPLACE TEMP TABLE log AS SELECT {gpu} AS gpu, t_ns / 1e9 AS t_s, {numbers} "  # noqa: S608 - quoted
        f"FROM ({sheet.all_or_error(labels)}) ORDER BY gpu, t_s"
    )
    counts = ", ".join(f"count(v{n})" for n in range(len(kinds)))
    [(every, *read)] = staging.con.execute(f"SELECT count(*), {counts} FROM log").fetchall()  # noqa: S608 - our own
    if not sum(read):
        return None
    selects = (
        f"SELECT gpu, {parquet.text(kind.sensor)} AS sensor, t_s, v{n} AS value, {parquet.text(kind.unit)} AS unit, "  # noqa: S608
        f"{parquet.text(kind.source)} AS origin, {parquet.text(staging.source)} AS source FROM log "
        f"WHERE v{n} IS NOT NULL"
        for n, kind in enumerate(kinds.values())
    )
    staging.select("readings", staging.con, " UNION ALL ".join(selects))
    staging.con.execute("DROP TABLE log")
    refused = {kind.source: (every - count, every) for kind, count in zip(kinds.values(), read, strict=True)}
    return staging.done(kind="nvidia-smi", left_out=tuple(silences(refused)))


def _gpu_of_line(sheet: Sheet, labels: Mapping[str, Label], staging: Staging) -> str:
    """SQL of a line's GPU."""
    if "device" not in labels:
        return parquet.text(gpu_name(sheet.path, nvidia_smi.ONLY_GPU))
    lasting = " OR ".join(f"starts_with(device, {parquet.text(start)})" for start in LASTING)
    name = f"CASE WHEN {lasting} THEN device ELSE {parquet.text(gpu_name(sheet.path, ''))} || device END"
    return _enum(staging, "device", sorted(gpu_name(sheet.path, device) for device in labels["device"].texts), name)


def _enum(staging: Staging, name: str, texts: Sequence[str], value: str) -> str:
    """SQL of a value as any of these texts, which sort in this order; NULL if it is none of them."""
    if not texts:
        return _NOTHING
    staging.con.execute(f"CREATE TYPE {name}_text AS ENUM ({', '.join(map(parquet.text, texts))})")
    return f"TRY_CAST({value} AS {name}_text)"
