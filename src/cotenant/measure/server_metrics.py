"""Servers' own metrics as sensors, read during the trial by a thread that may wait for a busy server."""

import math
import threading
from collections.abc import Iterable, Sequence
from typing import Self

from cotenant.clients.address import read_address
from cotenant.clients.metrics import KNOWN, page_of, read_metrics
from cotenant.devices.protocol import SensorInfo
from cotenant.errors import WorkloadError

PERIOD_S = 1.0
"""A metrics page costs its server some milliseconds: more often would disturb the measurement."""
QUALITY = "from the server's last answer; at most once a second"


class ServerMetricsProbe:
    """The metrics of one tenant's server; a context manager around the trial."""

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
            found = {one.metric: one.value for one in read_metrics(page or "")}
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
