"""One tenant of one cell in one run: its time per request, block by block."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cotenant.analyse.sharing.cells import counts, usable
from cotenant.analyse.sharing.evidence import TenantEvidence, Work

Blocks = Mapping[int, float]
"""Block -> natural logarithm of its measurement."""

OVERLOADED = 0.01
"""Share of unserved requests above which the mean of the served ones is not representative."""


class Row(NamedTuple):
    """A line of a comparison: one tenant of one cell, the same in every run. Solo rows sort first."""

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
class Series:
    """One run's replicates of a row: natural logarithms, one for each block with a usable trial."""

    of: str
    works: frozenset[Work]
    time: Blocks
    """Mean latency, ns."""
    service: Blocks
    """Mean time from the start of serving to its end, ns: latency without the queue."""
    cycles: Blocks
    """Mean latency times clock; empty without a clock sensor."""
    clock: Blocks
    """MHz."""
    offered: Blocks
    """Requests due per request served; 0 (a ratio of 1) if all were served."""
    ttft: Blocks
    """Mean time to the first token, ns; empty for tenants that don't generate."""
    tpot: Blocks
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


def series_by_row(evidence: Iterable[TenantEvidence]) -> dict[Row, Series]:
    """The rows of one run, in order."""
    groups: dict[Row, list[TenantEvidence]] = {}
    for item in evidence:
        seen = item.seen
        if counts(seen):
            row = Row(
                not seen.solo, seen.mix, seen.sharing, seen.load, seen.settings, seen.device, seen.simulated,
                seen.tenant,
            )  # fmt: skip
            groups.setdefault(row, []).append(item)
    return {row: _series(groups[row]) for row in sorted(groups)}


def _series(group: Sequence[TenantEvidence]) -> Series:
    used = [item for item in group if usable(item.seen) and item.seen.n > 0]
    rates = [item.rate_rps for item in used if item.rate_rps]
    return Series(
        of=group[0].seen.of,
        works=frozenset(item.work for item in group),
        time=_blocks(used, lambda item: item.seen.mean_latency_ns),
        service=_blocks(used, lambda item: item.service_ns or item.seen.mean_latency_ns),
        cycles=_blocks(used, lambda item: item.seen.mean_latency_ns * item.clock_mhz if item.clock_mhz else None),
        clock=_blocks(used, lambda item: item.clock_mhz),
        offered=_blocks(used, lambda item: 1 + item.seen.unfinished / item.seen.n),
        ttft=_blocks(used, lambda item: item.seen.mean_ttft_ns),
        tpot=_blocks(used, lambda item: item.seen.mean_tpot_ns),
        rate_rps=sum(rates) / len(rates) if rates else None,
        trials=len(group),
        unusable=Counter(check for item in group if not usable(item.seen) for check in item.seen.failed_checks),
    )


def _blocks(used: Sequence[TenantEvidence], value_of: Callable[[TenantEvidence], float | None]) -> Blocks:
    """One mean per block: a block is one replicate however many trials it contains."""
    found: dict[int, list[float]] = {}
    for item in used:
        value = value_of(item)
        if value is not None and 0 < value < math.inf:
            found.setdefault(item.seen.block, []).append(math.log(value))
    return {block: sum(logs) / len(logs) for block, logs in sorted(found.items())}


def pooled(parts: Sequence[Blocks]) -> Blocks:
    """Mean of several series, in each block that all of them have."""
    shared = set[int].intersection(*(set(part) for part in parts)) if parts else set[int]()
    return {block: sum(part[block] for part in parts) / len(parts) for block in sorted(shared)}


def relative_to(series: Blocks, reference: Blocks) -> Blocks:
    """Subtract a reference series from a series, in the blocks that both have."""
    return {block: log - reference[block] for block, log in series.items() if block in reference}
