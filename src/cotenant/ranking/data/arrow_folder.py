"""A folder written by Hugging Face `datasets` with `save_to_disk`: Arrow files and their schema."""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.errors import DataError
from cotenant.ranking.data.images import Images
from cotenant.ranking.data.tables import check_columns, labelled_rows
from cotenant.ranking.data.texts import Texts

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
