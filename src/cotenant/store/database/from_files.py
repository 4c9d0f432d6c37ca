"""Convert a file of another tool to rows of the database."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cotenant import opening
from cotenant.errors import DataError
from cotenant.store import imports as importing
from cotenant.store.database import from_sheets, parts, rows
from cotenant.store.database.staging import Staged, Staging
from cotenant.store.imports.result import sentence

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


def stage(path: Path, staging: Staging, *, skip_bad: bool) -> Staged:
    """Read a file and stage its rows. Raises DataError with what is wrong, where and how often."""
    if staged := from_sheets.stage(path, importing.detect(path), staging):
        return staged
    refused: dict[str, tuple[int, int]] = {}
    kind = ""
    skipped: tuple[importing.Skipped, ...] = ()
    for found in parts.read(path, staging.folder / "piece", skip_bad=skip_bad):
        if not found.runs and not found.series:
            raise DataError(
                f"{path} ({found.format}) has neither runs nor sensor readings.",
                hint="the database keeps times, clocks, power and temperatures of GPUs; kernels belong to a profile",
            )
        if found.runs:
            columns = {name: found.runs[theirs] for name, theirs in rows.MEASUREMENTS.items()}
            columns["at_s"] = np.where(columns["at_s"] > 0, columns["at_s"], np.nan)  # such files use -1 for unknown
            staging.measurements(columns, rows.CONSTANTS)
        staging.readings([(rows.gpu(path, series.device), series) for series in found.series if series.value.size])
        for series in found.series:
            silent, every = refused.get(series.source, (0, 0))
            refused[series.source] = silent + series.refused, every + series.refused + series.value.size
        kind, skipped = found.format, found.skipped
    return staging.done(kind=kind, left_out=(*_sentences(skipped), *rows.silences(refused)))


def _sentences(skipped: "Sequence[importing.Skipped]") -> tuple[str, ...]:
    return tuple(f"left out: {sentence(one)}" for one in skipped)
