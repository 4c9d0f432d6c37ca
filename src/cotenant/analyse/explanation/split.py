"""The parts of a slowdown. They multiply to the total, block by block, as far as sensors can separate them.

Latency = service time x (latency / service time): the queue. Service time = device time x (service time / device time):
on a CPU the device time is the CPU time of the request, so the second factor grows when it gets fewer cores. Device
time = cycles / clock: the clock. The rest is more device time for the same request at the same clock: instructions that
wait longer for memory and caches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.sharing.cells import Cell, usable
from cotenant.analyse.sharing.evidence import Logs, TenantEvidence, logs_by_block, relative_to
from cotenant.analyse.sharing.model_error import widened
from cotenant.analyse.tabular import fields_of
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.interval import Missing, Number

QUEUE, CORES, CLOCK, MEMORY, DEVICE, HOST, WORK = (
    "queueing", "fewer cores", "clock", "memory and cache", "device", "host", "more CPU time",
)  # fmt: skip
"""`more CPU time` is clock, memory and cache together, for lack of a clock sensor."""

MEANING: Mapping[str, str] = {
    QUEUE: "waiting before serving begins",
    CORES: "time without a core: time-slicing, or cores given to others",
    CLOCK: "a lower clock",
    MEMORY: "more CPU time for the same request at the same clock: memory bandwidth and caches",
    WORK: "more CPU time for the same request: memory, caches, or a lower clock that no sensor shows",
    DEVICE: "more device time for the same request: others' kernels, bandwidth, caches",
    HOST: "time in which the device does not work on the request: others' turns, launching, copying, the host",
}


@dataclass(frozen=True, slots=True)
class Split:
    """One tenant beside its neighbours: its slowdown and the factors of it."""

    cell: Cell
    tenant: str
    of: str
    total: Number
    parts: Mapping[str, Number]
    residual: Number
    """Unexplained factor; 1 if all times are known."""
    unsplit: str | None
    """Why service time can't be split further."""

    @property
    def slowed(self) -> bool:
        """Noticeably slower than alone: shown by the blocks, or simulated to be."""
        shown = self.cell.simulated or (self.total.lo is not None and self.total.lo > 1)
        return shown and (self.total.est or 1) >= 1.03

    @property
    def greatest(self) -> str | None:
        """The largest part of the slowdown, if it is shown to be more than 1."""
        known = {name: part for name, part in self.parts.items() if part.est is not None}
        if not known:
            return None
        name = max(known, key=lambda part: known[part].est or 0)
        part = known[name]
        return name if part.lo is None or part.lo > 1 else None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return self.cell.to_json() | fields_of(self, without=("cell",), total="slowdown")


def splits(evidence: Sequence[TenantEvidence]) -> list[Split]:
    """Split every tenant of every shared cell. Each factor is a ratio within a block, its interval over blocks."""
    solos: dict[tuple[str, str, str, str, str], list[TenantEvidence]] = {}
    shared: dict[tuple[Cell, str], list[TenantEvidence]] = {}
    for item in evidence:
        seen = item.seen
        if not usable(seen) or seen.n == 0:
            continue
        if seen.solo:
            solos.setdefault((seen.run, seen.device, seen.settings, seen.load, seen.of), []).append(item)
        else:
            shared.setdefault((Cell.of(seen), seen.tenant), []).append(item)
    found = []
    for (cell, tenant), group in sorted(shared.items(), key=lambda entry: entry[0]):
        of = group[0].seen.of
        alone = solos.get((cell.run, cell.device, cell.settings, cell.load, of), [])
        found.append(_split(cell, tenant, of, alone, group))
    return found


def _split(cell: Cell, tenant: str, of: str, alone: Sequence[TenantEvidence], group: Sequence[TenantEvidence]) -> Split:
    latency = _ratios(alone, group, lambda item: item.seen.mean_latency_ns)
    service = _ratios(alone, group, lambda item: item.service_ns)
    device = _ratios(alone, group, lambda item: item.seen.mean_device_ns)
    clock = _ratios(alone, group, lambda item: item.clock_mhz)
    unsplit = _unsplit(alone, group, device)
    on_cpu = DeviceName(cell.device).on_cpu
    error = group[0].seen.model_error
    logs: dict[str, Logs] = {}
    if service:
        logs[QUEUE] = relative_to(latency, service)
        if unsplit is None:
            logs[CORES if on_cpu else HOST] = relative_to(service, device)
            if clock:
                logs[CLOCK] = {block: -log for block, log in clock.items()}
                logs[MEMORY if on_cpu else DEVICE] = {
                    block: log + clock[block] for block, log in device.items() if block in clock
                }
            else:
                logs[WORK if on_cpu else DEVICE] = device
    residual = {
        block: log - sum(part[block] for part in logs.values())
        for block, log in latency.items()
        if all(block in part for part in logs.values())
    }
    return Split(
        cell=cell,
        tenant=tenant,
        of=of,
        total=_factor(latency) if error is None else widened(_factor(latency), error.slowdown, least=1.0),
        parts={name: _factor(part) for name, part in logs.items() if part},
        residual=_factor(residual),
        unsplit=unsplit,
    )


def _unsplit(alone: Sequence[TenantEvidence], group: Sequence[TenantEvidence], device: Logs) -> str | None:
    if not device:
        return "there is no device time"
    clocks = {item.device_clock for item in (*alone, *group)}
    threads = {item.work.threads for item in (*alone, *group)}
    if len(clocks) > 1 and threads != {1}:
        return "tenants in one process share its CPU time, so only the calling thread's is known"
    return None


def _ratios(
    alone: Sequence[TenantEvidence],
    group: Sequence[TenantEvidence],
    value_of: Callable[[TenantEvidence], float | None],
) -> Logs:
    """Logarithm of shared / alone in each block that has both."""
    return relative_to(logs_by_block(group, value_of), logs_by_block(alone, value_of))


def _factor(logs: Logs) -> Number:
    return ratio_interval(list(logs.values())) if logs else Missing("no block has both trials")
