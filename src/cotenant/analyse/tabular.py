"""Results as tables: data frames for notebooks, through Arrow, and HTML."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from cotenant.errors import CotenantError
from cotenant.tenancy.records import SCHEMA_VERSION
from cotenant.text import figure

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


Row = Mapping[str, Any]
MOST_ROWS_SHOWN = 100


class Tabular:
    """A result that is also a table."""

    __slots__ = ()

    def rows(self) -> Sequence[Row]:
        """Rows as mappings by column; all have the same columns."""
        raise NotImplementedError

    def to_arrow(self) -> "pa.Table":
        """An Arrow table. Raises CotenantError if pyarrow is not installed."""
        try:
            import pyarrow as pa
        except ModuleNotFoundError as error:
            raise _not_installed(error, "pyarrow") from None
        return pa.Table.from_pylist([dict(row) for row in self.rows()])

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas data frame. Raises CotenantError if pandas or pyarrow is not installed."""
        try:
            import pandas  # noqa: F401, ICN001 - pyarrow would fail with words of its own
        except ModuleNotFoundError as error:
            raise _not_installed(error, "pandas pyarrow") from None
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """A Polars data frame. Raises CotenantError if polars or pyarrow is not installed."""
        try:
            import polars as pl
        except ModuleNotFoundError as error:
            raise _not_installed(error, "polars pyarrow") from None
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        rows = self.rows()
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in (rows[0] if rows else ()))
        lines = (
            "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row.values())
            for row in rows[:MOST_ROWS_SHOWN]
        )
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        rest = f"<p>{len(rows) - MOST_ROWS_SHOWN:,} more rows</p>" if len(rows) > MOST_ROWS_SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _shown(value: Any) -> str:
    return "" if value is None else figure(value) if isinstance(value, float) else str(value)


def _not_installed(error: ModuleNotFoundError, packages: str) -> CotenantError:
    return CotenantError(f"{error.name} is not installed.", hint=f"pip install {packages}")


def plain(data: Any) -> Any:  # noqa: PLR0911 - one return per case
    """Convert to lists, dicts, text and finite numbers; infinity and NaN, which JSON lacks, become null.

    An object is converted by its `to_json`; a dataclass without it becomes its fields.
    """
    if hasattr(data, "to_json"):  # first: a named tuple with `to_json` is also a sequence
        return plain(data.to_json())
    match data:
        case None | bool() | int() | str():
            return data
        case float():
            return data if math.isfinite(data) else None
        case Mapping():
            return {str(key): plain(value) for key, value in data.items()}
        case Sequence():
            return [plain(value) for value in data]
    if is_dataclass(data):
        return {field.name: plain(getattr(data, field.name)) for field in fields(data)}
    if hasattr(data, "tolist"):
        return plain(data.tolist())  # numpy
    return str(data)  # paths, dates, decimals


def document(**members: Any) -> dict[str, Any]:
    """These fields as plain data, stable within the schema version they are preceded by."""
    return {"schema_version": SCHEMA_VERSION} | {name: plain(value) for name, value in members.items()}


def fields_of(data: Any, *more: str, without: Sequence[str] = (), **renamed: str) -> dict[str, Any]:
    """The fields of a dataclass, some under other names, and ``more`` of its properties."""
    names = [field.name for field in fields(data) if field.name not in without]
    return {renamed.get(name, name): getattr(data, name) for name in (*names, *more)}
