"""From a table with one column per sensor to one series per device and sensor."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cotenant.store.imports.result import Series
from cotenant.tenancy.records import Columns


class Kind(NamedTuple):
    """The meaning of a column of numbers."""

    sensor: str
    unit: str
    source: str
    per: float = 1.0
    """The file's units per unit of ours; dividing keeps 1.918 exact."""


def by_device(columns: Columns, kinds: Mapping[str, Kind], devices: Sequence[str]) -> tuple[Series, ...]:
    """Split by the column `device`, if there is one.

    Args:
        columns: `t_ns`, optionally `device`, and a column of numbers per sensor, NaN where nothing was read.
        kinds: The meaning of each.
        devices: Names indexed by the column `device`; one name without such a column.
    """
    t_ns = columns["t_ns"]
    rows = {
        name: columns["device"] == number if "device" in columns else np.ones(len(t_ns), np.bool_)
        for number, name in enumerate(devices)
    }
    series = []
    for device, mine in rows.items():
        if not mine.any():  # a name only in bad lines
            continue
        alone = len(rows) == 1  # avoids a copy
        times = t_ns if alone else t_ns[mine]
        for column, (sensor, unit, source, per) in kinds.items():
            values = columns[column] if alone else columns[column][mine]
            if per != 1.0:
                values = values / per
            read = ~np.isnan(values)
            refused = int(values.size - read.sum())
            whole = refused == 0
            series.append(
                Series(
                    device,
                    sensor,
                    unit,
                    source,
                    times if whole else times[read],
                    values if whole else values[read],
                    refused,
                )
            )
    return tuple(series)
