"""What a device's sensors read during each trial, with the window it counts in and the requests that it served."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cotenant.analyse.cells import Cell

if TYPE_CHECKING:
    import duckdb

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Series:
    """One sensor over one trial, seconds since the window opened."""

    t_s: Floats
    values: Floats
    source: str


@dataclass(frozen=True, slots=True)
class TrialReadings:
    """One device in one trial."""

    cell: Cell
    trial: int
    device: str
    """The one that was read: a member, where the trial's device is a group."""
    window_s: float
    served: int
    """Requests in the window of all tenants that were on it."""
    series: Mapping[str, Series]


def readings(con: "duckdb.DuckDBPyConnection", sensors: Sequence[str]) -> tuple[TrialReadings, ...]:
    """The readings of these sensors (names, or beginnings of names that end in `%`), of all trials that can be used.

    Args:
        con: A database of runs, see `views`.
        sensors: Which.
    """
    rows = con.execute(
        """
        SELECT run, device, simulated, settings, load, with_neighbours, mix, sharing, trial, read_device, window_s,
            coalesce(served, 0), sensor, any_value(source), list(t_s ORDER BY t_s), list(value ORDER BY t_s)
        FROM (
            SELECT trials.run, trials.device, coalesce(simulated, false) AS simulated, settings, load,
                NOT coalesce(solo, false) AS with_neighbours, mix, sharing, trials.trial, window_s,
                samples.device AS read_device, sensor, source, value, (t_ns - window_start_ns) / 1e9 AS t_s
            FROM samples JOIN trials USING (run, trial)
            WHERE block >= 0 AND verdict <> 'invalid' AND window_start_ns IS NOT NULL AND isfinite(value)
                AND EXISTS (SELECT 1 FROM (SELECT unnest($sensors) AS wanted) WHERE sensor LIKE wanted)
        )
        LEFT JOIN (
            SELECT run, trial, coalesce(member, '') AS member, count(*) AS served
            FROM requests JOIN (SELECT run, trial, tenant, member FROM tenants) USING (run, trial, tenant)
            WHERE in_window AND coalesce(ok, false) GROUP BY ALL
        ) AS counted USING (run, trial)
        WHERE counted.member IS NULL OR counted.member IN ('', read_device)
        GROUP BY ALL ORDER BY ALL
        """,
        {"sensors": list(sensors)},
    ).fetchall()
    found: dict[tuple[str, int, str], TrialReadings] = {}
    for *cell, trial, device, window_s, served, sensor, source, t_s, values in rows:
        key = (str(cell[0]), int(trial), str(device))
        if key not in found:
            found[key] = TrialReadings(Cell(*cell), int(trial), str(device), float(window_s), int(served), {})
        series = Series(np.asarray(t_s, np.float64), np.asarray(values, np.float64), str(source))
        assert isinstance(found[key].series, dict)
        found[key].series[str(sensor)] = series  # type: ignore[index]  # it is being filled
    return tuple(found.values())
