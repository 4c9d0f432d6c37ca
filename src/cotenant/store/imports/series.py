"""From a table with one column per sensor to one series per device and sensor."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cotenant.store.imports.result import Series
from cotenant.tenancy.records import Columns


class Kind(NamedTuple):
    """What a column of numbers is."""

    sensor: str
    unit: str
    source: str
    per: float = 1.0
    """How many of the file's units make one of ours: a division keeps 1.918 what it is."""


def by_device(columns: Columns, kinds: Mapping[str, Kind], devices: Sequence[str]) -> tuple[Series, ...]:
    """Split by the column `device`, where there is one.

    Args:
        columns: `t_ns`, perhaps `device`, and a column of numbers for each sensor, NaN where nothing was read.
        kinds: What each of those is.
        devices: The names that the numbers in the column `device` stand for; one if there is no such column.
    """
    t_ns = columns["t_ns"]
    rows = {
        name: columns["device"] == number if "device" in columns else np.ones(len(t_ns), np.bool_)
        for number, name in enumerate(devices)
    }
    series = []
    for device, mine in rows.items():
        if not mine.any():  # a name that stands in bad lines only
            continue
        alone = len(rows) == 1  # then nothing is copied
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
