"""Texts or encoded images in the rows of a table: CSV, TSV, Parquet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cotenant.errors import DataError
from cotenant.ranking.data.images import Images, readable
from cotenant.ranking.data.labelling import numbered, usable_items
from cotenant.ranking.data.texts import Texts, fingerprint_of
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
        wanted = f"SELECT {_quoted(item)}, {_quoted(columns['label'])}"
        rows = con.execute(f"{wanted} FROM {function}(?)", [paths]).fetchall()
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
