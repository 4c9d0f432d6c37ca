"""Reads the device's sensors during a trial, in the runner's process, each no faster than it changes."""

import _thread
import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from cotenant.clients.address import read_address
from cotenant.clients.exposition import KNOWN, page_of, read_metrics
from cotenant.devices.group import MemberProbe
from cotenant.devices.protocol import Probe, SensorInfo
from cotenant.errors import WorkloadError
from cotenant.tenancy.records import Columns

FASTEST_S = 0.05
"""Shortest period, however fast a sensor changes: below this, reading costs more than it tells."""
LAST_READING_S = 60.0
"""Longest wait for it; a tool that is asked for sensors gives up sooner."""


@dataclass(frozen=True, slots=True)
class Samples:
    """All values read during a trial."""

    columns: Columns
    lost: tuple[str, ...]
    """One sentence for each sensor that was lost."""
    lost_probes: tuple[Probe, ...] = ()
    """Their probes, not to be read again."""

    def by_device(self, sensor: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Times (ns) and values of a sensor, for each device that has it."""
        if not self.columns:
            return {}
        mine = self.columns["sensor"] == sensor
        device, t_ns, value = (self.columns[name][mine] for name in ("device", "t_ns", "value"))
        return {str(name): (t_ns[device == name], value[device == name]) for name in np.unique(device)}

    def between(self, start_ns: int, end_ns: int) -> "Samples":
        """Readings within an interval, plus the last before and the first after it, since counters need both ends."""
        if not self.columns:
            return self
        t_ns = self.columns["t_ns"]
        inside = (t_ns >= start_ns) & (t_ns <= end_ns)
        names = np.char.add(np.char.add(self.columns["device"].astype(str), "\n"), self.columns["sensor"].astype(str))
        _, series = np.unique(names, return_inverse=True)
        for number in range(int(series.max(initial=-1)) + 1):
            mine = np.flatnonzero(series == number)
            before, after = mine[t_ns[mine] < start_ns], mine[t_ns[mine] > end_ns]
            inside[[*before[-1:], *after[:1]]] = True
        return Samples({name: values[inside] for name, values in self.columns.items()}, self.lost, self.lost_probes)

    def of(self, sensor: str) -> tuple[np.ndarray, np.ndarray]:
        """Times (ns) and values of a sensor."""
        if not self.columns:
            return np.empty(0, np.int64), np.empty(0)
        mine = self.columns["sensor"] == sensor
        return self.columns["t_ns"][mine], self.columns["value"][mine]


class Sampler:
    """A thread that sleeps between readings; a context manager around the trial."""

    def __init__(self, device: str, probes: Sequence[Probe]) -> None:
        self._device = device
        self._probes = [(probe, _on_the_grid(min(s.period_s for s in probe.sensors))) for probe in probes]
        self._rows: list[tuple[int, int, Sequence[float]]] = []
        self._lost: list[str] = []
        self._lost_probes: list[Probe] = []
        self._going_on = threading.Lock()
        """Held until the end. Waiting for a lock is a single call; for an event, many on a core that just woke."""
        self._alive = threading.Lock()
        """Held by the thread. `threading.Thread` waits forever for a thread that has no memory to start with."""
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        """Read everything once, then continue in the background."""
        self._going_on.acquire()
        self._alive.acquire()
        _thread.start_new_thread(self._live, ())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop after a last reading; raise what ended the thread."""
        self._going_on.release()
        if not self._alive.acquire(timeout=LAST_READING_S):
            self._failure = MemoryError("the sampler's thread could not start")
        if self._failure is not None and kind is None:
            raise self._failure

    def samples(self) -> Samples:
        """The readings; call after leaving."""
        t, device, sensor, value, unit, source = [], [], [], [], [], []
        for t_ns, index, values in self._rows:
            probe = self._probes[index][0]
            whose = probe.device if isinstance(probe, MemberProbe) else self._device
            for info, reading in zip(probe.sensors, values, strict=True):
                if not math.isnan(reading):
                    t.append(t_ns)
                    device.append(whose)
                    sensor.append(info.name)
                    value.append(reading)
                    unit.append(info.unit)
                    source.append(info.source)
        if not t:
            return Samples({}, tuple(self._lost), tuple(self._lost_probes))
        columns = {
            "t_ns": np.array(t, np.int64),
            "device": np.array(device),
            "sensor": np.array(sensor),
            "value": np.array(value, np.float64),
            "unit": np.array(unit),
            "source": np.array(source),
        }
        return Samples(columns, tuple(self._lost), tuple(self._lost_probes))

    def _live(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for this thread
            self._failure = error
        finally:
            self._alive.release()

    def _run(self) -> None:
        """Wake up as rarely as possible and read only what is due: on an idle core both cost more than reading."""
        groups: dict[float, list[int]] = {}
        for index, (_, period_s) in enumerate(self._probes):
            groups.setdefault(period_s, []).append(index)
        due = dict.fromkeys(groups, 0.0)
        wait_s = 0.0
        while not self._going_on.acquire(timeout=wait_s):
            now = time.monotonic()
            for period_s, at in due.items():
                if at <= now:
                    due[period_s] = (int(now / period_s + 1e-6) + 1) * period_s  # on a common grid, to wake together
                    self._read(groups[period_s])
            next_due = min(due.values(), default=now + 1)
            wait_s = max(next_due - time.monotonic(), 0.001)
        for indices in groups.values():
            self._read(indices)

    def _read(self, indices: list[int]) -> None:
        for index in tuple(indices):
            probe = self._probes[index][0]
            try:
                self._rows.append((time.monotonic_ns(), index, probe.read()))
            except (OSError, ValueError) as error:  # the file is gone, or doesn't hold a number
                indices.remove(index)
                self._lost_probes.append(probe)
                names = ", ".join(info.name for info in probe.sensors)
                self._lost.append(f"{names} vanished during the trial ({error})")


def _on_the_grid(period_s: float) -> float:
    """The nearest multiple of the fastest period."""
    return max(1, round(period_s / FASTEST_S)) * FASTEST_S


# --- servers' own metrics as sensors, read during the trial by a thread that may wait for a busy server

PERIOD_S = 1.0
"""A metrics page costs its server some milliseconds: more often would disturb the measurement."""
QUALITY = "from the server's last answer; at most once a second"


class ServerMetricsProbe:
    """The metrics of a tenant's server; a context manager around the trial."""

    def __init__(self, tenant: str, url: str, names: Sequence[str]) -> None:
        self._address = read_address(url)
        self._names = [name for name in names if name in KNOWN]
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(f"server_{KNOWN[name].sensor}[{tenant}]", KNOWN[name].unit, name, PERIOD_S, QUALITY)
            for name in self._names
        )
        self._values = [math.nan] * len(self._names)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"metrics of {tenant}", daemon=True)

    def __enter__(self) -> Self:
        """Start reading."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, without waiting for a pending answer."""
        self._over.set()

    def read(self) -> Sequence[float]:
        """The latest values; NaN before the first answer."""
        return list(self._values)

    def _run(self) -> None:
        while not self._over.is_set():
            page = page_of(self._address, self._address.path)
            found = {reading.metric: reading.value for reading in read_metrics(page or "")}
            self._values = [found.get(name, math.nan) for name in self._names]
            self._over.wait(PERIOD_S)


def probes_of(tenants: Iterable[tuple[str, object]]) -> list[ServerMetricsProbe]:
    """Probes for tenants whose server has metrics, from their `facts`."""
    probes = []
    for tenant, metrics in tenants:
        if isinstance(metrics, dict) and metrics.get("names"):
            try:
                probes.append(ServerMetricsProbe(tenant, str(metrics["url"]), [str(name) for name in metrics["names"]]))
            except WorkloadError:
                continue
    return [probe for probe in probes if probe.sensors]
