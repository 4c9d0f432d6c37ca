"""A tenant of a cell in a run: its time per request, block by block."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cotenant.analyse.sharing.cells import counts, usable
from cotenant.analyse.sharing.evidence import Logs, RequestWork, TenantEvidence, logs_by_block

OVERLOADED = 0.01
"""Share of unserved requests above which the mean of the served ones is not representative."""


class SeriesRow(NamedTuple):
    """A line of a comparison: a tenant of a cell, the same in every run. Solo rows sort first."""

    with_neighbours: bool
    mix: str
    sharing: str
    load: str
    settings: str
    device: str
    simulated: bool
    tenant: str

    @property
    def solo(self) -> bool:
        """The tenant has the device to itself."""
        return not self.with_neighbours

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {name: value for name, value in self._asdict().items() if name != "with_neighbours"} | {
            "solo": self.solo
        }


@dataclass(frozen=True, slots=True)
class BlockSeries:
    """A run's replicates of a row: the natural logarithm for each block with a usable trial."""

    of: str
    works: frozenset[RequestWork]
    time: Logs
    """Mean latency, ns."""
    service: Logs
    """Mean time from the start of serving to its end, ns: latency without the queue."""
    cycles: Logs
    """Mean latency times clock; empty without a clock sensor."""
    clock: Logs
    """MHz."""
    offered: Logs
    """Requests due per request served; 0 (a ratio of 1) if all were served."""
    ttft: Logs
    """Mean time to the first token, ns; empty for tenants that don't generate."""
    tpot: Logs
    """Mean time per output token, ns."""
    rate_rps: float | None
    """Intended rate of an open load."""
    trials: int
    unusable: Mapping[str, int]
    """Checks failed by the trials that could not be used."""

    @property
    def overloaded(self) -> bool:
        """Too many requests went unserved for the mean of the others to be representative."""
        return bool(self.offered) and sum(self.offered.values()) / len(self.offered) > OVERLOADED

    @property
    def unserved(self) -> float:
        """Share of the requests due that were not served."""
        return -math.expm1(-sum(self.offered.values()) / len(self.offered))


def series_by_row(evidence: Iterable[TenantEvidence]) -> dict[SeriesRow, BlockSeries]:
    """The rows of a run, in order."""
    groups: dict[SeriesRow, list[TenantEvidence]] = {}
    for item in evidence:
        seen = item.seen
        if counts(seen):
            row = SeriesRow(
                not seen.solo, seen.mix, seen.sharing, seen.load, seen.settings, seen.device, seen.simulated,
                seen.tenant,
            )  # fmt: skip
            groups.setdefault(row, []).append(item)
    return {row: _series(groups[row]) for row in sorted(groups)}


def _series(group: Sequence[TenantEvidence]) -> BlockSeries:
    used = [item for item in group if usable(item.seen) and item.seen.n > 0]
    rates = [item.rate_rps for item in used if item.rate_rps]
    return BlockSeries(
        of=group[0].seen.of,
        works=frozenset(item.work for item in group),
        time=logs_by_block(used, lambda item: item.seen.mean_latency_ns),
        service=logs_by_block(used, lambda item: item.service_ns or item.seen.mean_latency_ns),
        cycles=logs_by_block(used, lambda item: item.seen.mean_latency_ns * item.clock_mhz if item.clock_mhz else None),
        clock=logs_by_block(used, lambda item: item.clock_mhz),
        offered=logs_by_block(used, lambda item: 1 + item.seen.unfinished / item.seen.n),
        ttft=logs_by_block(used, lambda item: item.seen.mean_ttft_ns),
        tpot=logs_by_block(used, lambda item: item.seen.mean_tpot_ns),
        rate_rps=sum(rates) / len(rates) if rates else None,
        trials=len(group),
        unusable=Counter(check for item in group if not usable(item.seen) for check in item.seen.failed_checks),
    )


def pooled(parts: Sequence[Logs]) -> Logs:
    """Mean of several series, in each block that all of them have."""
    shared = set[int].intersection(*(set(part) for part in parts)) if parts else set[int]()
    return {block: sum(part[block] for part in parts) / len(parts) for block in sorted(shared)}


# --- the change common to all tenants: if everything moved alike, no single tenant changed

FEWEST_TENANTS = 3
"""With two tenants it is impossible to say which of them moved."""


@dataclass(frozen=True, slots=True)
class CommonCells:
    """The change that all tenants share: of the machine, or of something that all of them use."""

    runs: tuple[Logs, ...]
    """For each run, block by block: distance of the tenants that moved alike from their own centre."""
    tenants: int
    """Tenants of the study that were measured alone in every run."""
    alike: int
    """How many of them moved with the median."""


def alone_by_tenant(run: Mapping[SeriesRow, BlockSeries], rows: Iterable[SeriesRow]) -> dict[str, Logs]:
    """Service time alone by the study's tenant, over its loads and settings."""
    found: dict[str, list[Logs]] = {}
    for row in rows:
        if row.solo:
            found.setdefault(run[row].of, []).append(run[row].service)
    return {of: pooled(parts) for of, parts in found.items()}


def common_part(alone: Sequence[Mapping[str, Logs]], margin: float) -> CommonCells | None:
    """Return the change shared by the tenants that moved together, alone on the device; None if there is none.

    A tenant moves with the others if the change of its service time is within the margin of the median over tenants.
    The median ignores tenants that were changed themselves as long as they are fewer than half. Requires
    `FEWEST_TENANTS`, more than half of them alike, and blocks that contain all of these.

    Args:
        alone: For each run, by the study's tenant: its service time alone in each block.
        margin: How far apart changes may be and still count as alike.
    """
    tenants = [tenant for tenant in alone[0] if all(run.get(tenant) for run in alone)]
    if len(tenants) < FEWEST_TENANTS:
        return None
    levels = [{tenant: statistics.fmean(run[tenant].values()) for tenant in tenants} for run in alone]
    middles = {tenant: statistics.fmean(level[tenant] for level in levels) for tenant in tenants}
    typical = [statistics.median(level[tenant] - middles[tenant] for tenant in tenants) for level in levels]
    alike = [
        tenant
        for tenant in tenants
        if _spread(level[tenant] - middles[tenant] - usual for level, usual in zip(levels, typical, strict=True))
        <= math.log1p(margin)
    ]
    if 2 * len(alike) <= len(tenants):
        return None
    runs = tuple(
        pooled([{block: log - middles[tenant] for block, log in run[tenant].items()} for tenant in alike])
        for run in alone
    )
    return CommonCells(runs, len(tenants), len(alike)) if all(len(run) >= 2 for run in runs) else None


def _spread(values: Iterable[float]) -> float:
    """Twice the standard deviation: the distance for two values, and independent of their number for more."""
    return 2 * statistics.pstdev(values)
