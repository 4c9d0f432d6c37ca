"""Power sensors polled fast: do simulated ones change as often, and average over the same time, as real ones?"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DataError
from cotenant.prediction.power.draw import Floats
from cotenant.prediction.power.timeline import shown_power_w
from validation.measures import absolute_error
from validation.reading import HINT, AbsentData, number, read_table
from validation.result import Measure, Result, Row

SOURCE = "nvidia-smi polled every 7 to 12 ms, JimZeyuYang/GPU_Power_Benchmark (MIT)"
TRACES = {
    "v100-sxm2-16gb": "power/sensors/v100_update_period.csv",
    "a100-sxm4-40gb": "power/sensors/a100_update_period.csv",
}
TRANSIENT = "power/sensors/a5000_transient.csv"
AVERAGED_S = 1.0
STRETCH_S = 0.02
"""Steps of the reconstructed true power."""


def validate(data: Path) -> tuple[Result, ...]:
    """Update periods (V100, A100), and the one-second average of an A5000 from its own instantaneous reading."""
    results = [result for result in (_periods(data), _average(data)) if result is not None]
    if not results:
        raise AbsentData("There is no power/sensors/ in the folder of measured data.", hint=HINT)
    return tuple(results)


def _periods(data: Path) -> Result | None:
    rows = []
    for name, file in TRACES.items():
        if not (data / file).is_file():
            continue
        at_s, columns = _trace(data, file, ("power.draw [W]",))
        gpu = find_gpu(name)
        truth = np.arange(0.0, at_s[-1] + 1.0, 0.001)
        noisy = np.random.default_rng(0).normal(160.0, 1.0, len(truth) - 1)  # any power that always changes
        energy = np.concatenate(([0.0], np.cumsum(noisy * 0.001)))
        shown = shown_power_w(truth, energy, at_s, gpu.sensor.window_ms / 1e3, gpu.sensor.update_ms / 1e3)
        rows.append(
            Row(
                f"{name}: time between changes, ms",
                measured=_between_changes(at_s, columns[0]) * 1e3,
                simulated=_between_changes(at_s, shown) * 1e3,
                baselines={"as often as it is read": float(np.median(np.diff(at_s))) * 1e3},
            )
        )
    if not rows:
        return None
    return Result(
        data_set="sensor_traces",
        what="how often a power reading changes, polled at the times of the real trace",
        source=f"{SOURCE}; V100, A100",
        split="Nothing is fitted: periods are those of arXiv 2312.02741.",
        quantity="median time between changes",
        unit="ms",
        rows=tuple(rows),
        measures=(absolute_error(rows, of="update period"),),
    )


def _average(data: Path) -> Result | None:
    if not (data / TRANSIENT).is_file():
        return None
    at_s, (average, instant) = _trace(data, TRANSIENT, ("power.draw.average [W]", "power.draw.instant [W]"))
    grid = np.arange(at_s[0], at_s[-1], STRETCH_S)
    true_w = np.interp(grid[:-1] + STRETCH_S / 2, at_s, instant)
    energy = np.concatenate(([0.0], np.cumsum(true_w * STRETCH_S)))
    fresh = np.flatnonzero(np.diff(average) != 0) + 1  # the first reading of each new value: its time is known
    fresh = fresh[at_s[fresh] > at_s[0] + AVERAGED_S]
    shown = shown_power_w(grid, energy, at_s[fresh], AVERAGED_S, STRETCH_S)
    rows = tuple(
        Row(f"at {at_s[k]:.2f} s", float(average[k]), float(seen), {"no window": float(instant[k])})
        for k, seen in zip(fresh, shown, strict=True)
    )

    def deviation(guesses: list[float]) -> float:
        return float(np.sqrt(np.mean((np.array(guesses) - average[fresh]) ** 2)))

    return Result(
        data_set="sensor_traces",
        what="one-second average of a power step, from the instantaneous reading",
        source=f"{SOURCE}; RTX A5000, 77 to 207 W and back",
        split="Nothing is fitted: the window is that of arXiv 2312.02741.",
        quantity="power shown",
        unit="W",
        rows=rows,
        measures=(
            Measure(
                "root mean square deviation of power shown",
                deviation([row.simulated for row in rows]),
                "W",
                len(rows),
                baselines={"no window": deviation([row.baselines["no window"] for row in rows])},
            ),
            absolute_error(rows, of="power shown"),
        ),
    )


def _between_changes(at_s: Floats, shown: Floats) -> float:
    changed = np.flatnonzero(np.diff(shown) != 0) + 1
    return float(np.median(np.diff(at_s[changed])))


def _trace(data: Path, file: str, columns: tuple[str, ...]) -> tuple[Floats, list[Floats]]:
    """Seconds since the first reading, and columns; the last line of a trace may be truncated."""
    table = [row for row in read_table(data, file, ("timestamp", *columns)) if all(row[name] for name in columns)]
    try:
        times = [datetime.strptime(row["timestamp"], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC) for row in table]
    except ValueError as problem:
        raise DataError(f"{file} has a time that can't be read: {problem}.", hint=HINT) from None
    seconds = np.array([(time - times[0]).total_seconds() for time in times])
    return seconds, [np.array([number(row[name], file, name) for row in table]) for name in columns]
