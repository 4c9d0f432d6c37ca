"""Texts or encoded images in the rows of a table: CSV, TSV, Parquet."""

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cotenant.errors import DataError
from cotenant.ranking.data.images import Images, readable
from cotenant.ranking.data.texts import Texts, fingerprint_of, numbered, usable_items
from cotenant.text import did_you_mean

TABLES = (".csv", ".tsv", ".parquet")


def open_table(name: str, files: Sequence[Path], columns: Mapping[str, str], *, skip_bad: bool) -> Texts | Images:
    """The rows of one or more files with the same columns."""
    items, written = _read(files, columns)
    return labelled_rows(name, items, written, columns, skip_bad=skip_bad)


def labelled_rows(
    name: str,
    items: Sequence[Any],
    written: Sequence[Any],
    columns: Mapping[str, str],
    *,
    skip_bad: bool,
    class_names: Sequence[str] | None = None,
) -> Texts | Images:
    """Rows as data: empty ones are bad, and so are images that can't be decoded."""
    where = name.partition("?")[0]
    images = "image" in columns
    values = [_encoded(item) if images else item for item in items]
    if not values:
        raise DataError(f"{where} has no rows", hint="check the file")
    bad = [
        row
        for row, (value, label) in enumerate(zip(values, written, strict=True))
        if label is None or not _usable(value, images=images, decode=skip_bad)
    ]
    if bad and not skip_bad:
        raise DataError(
            f"{where}: row {bad[0] + 1} has no {'image' if images else 'text'} or no label"
            + (f", and so have {len(bad) - 1:,} more" if len(bad) > 1 else ""),
            hint="check the column; or fix or remove it, or skip bad items: --skip-bad",
        )
    out = set(bad)
    good = [row for row in range(len(values)) if row not in out]
    kept = [good[position] for position in usable_items(where, [written[row] for row in good], skip_bad=skip_bad)]
    classes, labels = numbered([written[row] for row in kept], class_names)
    chosen = tuple(values[row] for row in kept)
    fingerprint, skipped = fingerprint_of(chosen, labels), len(values) - len(kept)
    if images:
        return Images(name, chosen, classes, labels, fingerprint, skipped)
    return Texts(name, chosen, classes, labels, fingerprint, skipped)


def check_columns(where: Path, columns: Mapping[str, str], known: Sequence[str]) -> None:
    """Refuse a missing column."""
    for role, column in columns.items():
        if column not in known:
            hint = did_you_mean(column, known) or f"it has {', '.join(known[:12])}"
            raise DataError(f"{where} has no column {column!r} to use as {role}", hint=hint)


def _read(files: Sequence[Path], columns: Mapping[str, str]) -> tuple[list[Any], list[Any]]:
    import duckdb

    first = files[0]
    item = columns.get("text") or columns["image"]
    for file in files:
        if set("*?[") & set(str(file)):
            raise DataError(f"{file} has a wildcard character in its path", hint="rename it")
    function = "read_parquet" if first.suffix.lower() == ".parquet" else "read_csv"
    paths = [str(file) for file in files]
    con = duckdb.connect(
        config={"threads": 2, "autoinstall_known_extensions": False, "python_enable_replacements": False}
    )
    try:
        described = con.execute(f"DESCRIBE FROM {function}(?)", [paths]).fetchall()
        check_columns(first, columns, [row[0] for row in described])
        query = f"SELECT {_quoted(item)}, {_quoted(columns['label'])}"
        rows = con.execute(f"{query} FROM {function}(?)", [paths]).fetchall()
    except duckdb.Error as error:
        raise DataError(f"{first} can't be read: {str(error).splitlines()[0]}", hint="is the file complete?") from error
    finally:
        con.close()
    return [row[0] for row in rows], [row[1] for row in rows]


def _usable(value: Any, *, images: bool, decode: bool) -> bool:
    if images:
        return isinstance(value, bytes) and (readable(value) if decode else bool(value))
    return isinstance(value, str) and bool(value.strip())


def _encoded(item: Any) -> Any:
    """Bytes, or the hub's way to store images: bytes and a path."""
    return item.get("bytes") if isinstance(item, dict) else item


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_PARTS = "dataset_dict.json"
_INFO = "dataset_info.json"


def is_arrow_folder(folder: Path) -> bool:
    """True for a data set, or several parts (train, test) of one."""
    return (folder / _PARTS).is_file() or any(folder.glob("*.arrow"))


def open_arrow(name: str, folder: Path, columns: Mapping[str, str], *, skip_bad: bool) -> Texts | Images:
    """The rows of its Arrow files; of several parts `train`, or the only one."""
    part = _part(folder)
    files = sorted(part.glob("*.arrow"))
    if not files:
        raise DataError(f"{part} has no Arrow files", hint="was it written by save_to_disk?")
    item = columns.get("text") or columns["image"]
    items: list[Any] = []
    written: list[Any] = []
    for file in files:
        table = _table(file)
        check_columns(part, columns, table.column_names)
        items += table.column(item).to_pylist()
        written += table.column(columns["label"]).to_pylist()
    names = _class_names(part, columns["label"])
    return labelled_rows(name, items, written, columns, skip_bad=skip_bad, class_names=names)


def _part(folder: Path) -> Path:
    if not (folder / _PARTS).is_file():
        return folder
    parts = sorted(child.name for child in folder.iterdir() if child.is_dir())
    if "train" in parts or len(parts) == 1:
        return folder / ("train" if "train" in parts else parts[0])
    raise DataError(f"{folder} has the parts {', '.join(parts) or 'none'}", hint="name one of their folders")


def _table(file: Path) -> Any:
    try:
        arrow = importlib.import_module("pyarrow")
        ipc = importlib.import_module("pyarrow.ipc")
    except ImportError:
        raise DataError(
            f"{file.parent} contains Arrow files, which need pyarrow, which is not installed",
            hint="pip install pyarrow, or write the data as Parquet: dataset.to_parquet('data.parquet')",
        ) from None
    try:
        with arrow.memory_map(str(file)) as source:
            return ipc.open_stream(source).read_all()
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{file} can't be read: {str(error).splitlines()[0]}", hint="is it whole?") from error


def _class_names(part: Path, label: str) -> list[str] | None:
    try:
        feature = json.loads((part / _INFO).read_text())["features"][label]
        return [str(name) for name in feature["names"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
