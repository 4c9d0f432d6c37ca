"""A number of copies under a way to share: what they serve, how reliably they start, and what speaks against them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from cotenant.analyse.decision.option import Kept, objective_of
from cotenant.analyse.device_use import DeviceUse
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.result import Result
from cotenant.analyse.sharing.cells import Cell, sharing_said
from cotenant.analyse.sharing.summary import TenantSummary
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.text import amount, percent

# --- starts of copies: failures are results, counted for each way to share


@dataclass(frozen=True, slots=True)
class CopyStart:
    """The copies that a trial started."""

    block: int
    mix: str
    sharing: str
    copies: int
    failed: str | None
    """Why not all of them came up; None if they did."""
    died: str | None
    """How a copy ended after it was up; None if none did."""
    failed_checks: tuple[str, ...]
    reasons: tuple[str, ...]
    throughput_rps: float | None
    """Of all copies; None if the trial can't be used."""
    cores: float | None
    """Cores' worth of CPU time that all copies and their clients used in the window."""
    memory_bytes: int | None
    """Peak resident memory of all copies and their clients."""
    resolved: Mapping[str, int]
    """Cache and limits of the first copy, by its log and metrics."""

    @property
    def degraded(self) -> bool:
        """Requests failed, or its latency kept changing."""
        return (
            self.failed is None and self.died is None and bool({"requests_succeed", "steady"} & {*self.failed_checks})
        )


@dataclass(frozen=True, slots=True)
class Reliability:
    """Outcome of the starts of a number of copies under a way to share."""

    starts: int
    failed: int
    died: int
    degraded: int
    why: str | None
    """The latest failure."""

    @property
    def failures(self) -> int:
        """Starts that failed or lost a copy."""
        return self.failed + self.died

    @property
    def share(self) -> float:
        """Share of the starts that failed or lost a copy."""
        return self.failures / self.starts if self.starts else 0.0


def reliability(starts: Iterable[CopyStart]) -> Reliability:
    """Count the starts of an option."""
    made = list(starts)
    sentences = [start.failed or start.died for start in made if start.failed or start.died]
    return Reliability(
        starts=len(made),
        failed=sum(start.failed is not None for start in made),
        died=sum(start.died is not None for start in made),
        degraded=sum(start.degraded for start in made),
        why=sentences[-1] if sentences else None,
    )


QUANTILES = ("p50", "p95", "p99")
IN_FLIGHT = 0.8
"""Share of the requests that a closed load should keep in flight, below which the client was the limit."""


@dataclass(frozen=True, slots=True)
class CopiesOption:
    """A number of copies under a way to share."""

    copies: int
    sharing: str
    throughput_rps: Number
    """Of all copies."""
    gain: Number
    """Throughput relative to a single copy in the same blocks."""
    latency_ms: Mapping[str, Number]
    """p50, p95 and p99 of the slowest copy."""
    kept: Kept | None
    """Whether every copy keeps its objectives; None without any."""
    held: bool
    """All requests that were due were served: an open load was not too much."""
    in_flight: float | None
    """Share of a closed load that was in flight, of the copy with the least."""
    reliability: Reliability
    valid: int
    """Trials that passed every check."""
    unequal: tuple[str, ...]
    """How copies differed in what they resolved."""
    doubts: tuple[str, ...]
    """Why trials are not valid."""
    cores: float | None
    memory_bytes: int | None
    sm_active: float | None
    dram_active: float | None
    resolved: Mapping[str, int]
    """Cache and limits of the first copy."""

    @property
    def label(self) -> str:
        """`2 copies, mps 50+50`."""
        return f"{amount(self.copies, 'copy', 'copies')}, {self.way}" if self.copies > 1 else "1 copy"

    @property
    def way(self) -> str:
        """The way to share in words."""
        mode, shares = self.sharing.partition("[")[0], self.sharing.partition("[")[2].removesuffix("]").split(", ")
        if mode == "pinned":
            return "core blocks"
        if mode == "processes" and self.sm_active is None:
            return "shared cores" if self.cores is not None else "time-slicing"
        if shares != [""] and len(set(shares)) == 1:
            return f"{mode}, {shares[0]}{' %' if mode.startswith('mps') else ''} each"
        return sharing_said(self.sharing)

    def against(self, failures: float) -> str | None:  # noqa: PLR0911 - one return per reason
        """Why it can't be recommended, whatever it gains; None if nothing speaks against it."""
        made = self.reliability
        if made.share > failures:
            lost = f"{made.failed} of {amount(made.starts, 'start')} failed" if made.failed else ""
            died = f"{amount(made.died, 'copy', 'copies')} died" if made.died else ""
            return " and ".join(part for part in (lost, died) if part)
        if self.unequal:
            return f"the copies aren't equal: {self.unequal[-1]}"
        if self.throughput_rps.est is None:
            return "nothing could be measured"
        if self.kept == "missed":
            return "it misses the objective"
        if not self.held:
            return "it doesn't hold the rate"
        if self.in_flight is not None and self.in_flight < IN_FLIGHT:
            return f"the client kept only {percent(self.in_flight)} of the load in flight"
        return None


def options_of(result: Result, starts: Iterable[CopyStart], *, load_each: float | None) -> tuple[CopiesOption, ...]:
    """All options of a run, the fewest copies first.

    Args:
        result: The run.
        starts: What its trials started.
        load_each: Requests that a closed load keeps in flight at each copy; None for an open load.
    """
    by_option: dict[tuple[str, str], list[CopyStart]] = {}
    for start in starts:
        by_option.setdefault((start.mix, start.sharing), []).append(start)
    members = {cell: list(group) for cell, group in groupby(result.tenants, key=lambda tenant: tenant.cell)}
    gains = {mix.cell: mix.metrics.get("stp") for mix in result.mixes}
    cells = {(cell.mix, cell.sharing): cell for cell in members}
    used = {(use.cell.mix, use.cell.sharing): use for use in result.device_use}
    simulated = any(cell.simulated for cell in members)
    alone = {
        start.block: start.throughput_rps
        for made in by_option.values()
        for start in made
        if start.copies == 1 and start.throughput_rps
    }
    found = []
    for key, made in by_option.items():
        cell = cells.get(key)
        mine = members.get(cell, []) if cell is not None else []
        gain: Number = Missing("the rate is given")
        if load_each is not None:
            gain = _simulated_gain(cell, gains) if simulated else _gain(made, alone)
        found.append(_option(made, mine, gain, used.get(key), load_each))
    return tuple(sorted(found, key=lambda option: option.copies))


def _gain(made: Sequence[CopyStart], alone: Mapping[int, float]) -> Number:
    """Throughput relative to a single copy within each block."""
    if made[0].copies == 1:
        return Estimate(1.0, 1.0, 1.0, len(alone), "by definition")
    logs = [
        math.log(start.throughput_rps / alone[start.block])
        for start in sorted(made, key=lambda start: start.block)
        if start.throughput_rps and alone.get(start.block)
    ]
    return ratio_interval(logs) if logs else Missing("no block has both a usable trial of these and of one copy")


def _simulated_gain(cell: Cell | None, gains: Mapping[Cell, Number | None]) -> Number:
    """Work done against taking turns, whose interval includes the model's error."""
    if cell is not None and cell.solo:
        return Estimate(1.0, 1.0, 1.0, 1, "by definition")
    found = None if cell is None else gains.get(cell)
    return Missing("no usable trial") if found is None else found


def _option(
    made: Sequence[CopyStart],
    copies: Sequence[TenantSummary],
    gain: Number,
    used: DeviceUse | None,
    load_each: float | None,
) -> CopiesOption:
    up = [start for start in made if start.failed is None]
    objectives = [objective for objective in map(objective_of, copies) if objective is not None]
    answers = {objective.answer for objective in objectives}
    unequal = [reason for start in made if "copies_equal" in start.failed_checks for reason in start.reasons]
    return CopiesOption(
        copies=made[0].copies,
        sharing=made[0].sharing,
        throughput_rps=_sum([copy.throughput_rps for copy in copies]),
        gain=gain,
        latency_ms={name: _slowest([copy.latency_ms[name] for copy in copies]) for name in QUANTILES},
        kept=None if not answers else "missed" if "missed" in answers else "open" if "open" in answers else "kept",
        held=not any("load_sustained" in start.failed_checks for start in up),
        in_flight=_in_flight(copies, load_each),
        reliability=reliability(made),
        valid=sum(not start.failed_checks for start in made),
        unequal=tuple(dict.fromkeys(reason for reason in unequal if "differ:" in reason)),
        doubts=tuple(dict.fromkeys(check for start in made for check in start.failed_checks)),
        cores=_mean([start.cores for start in up]),
        memory_bytes=max((start.memory_bytes for start in up if start.memory_bytes is not None), default=None),
        sm_active=None if used is None or used.sm_active is None else used.sm_active.value,
        dram_active=None if used is None or used.dram_active is None else used.dram_active.value,
        resolved=next((start.resolved for start in up if start.resolved), {}),
    )


def _in_flight(copies: Sequence[TenantSummary], load_each: float | None) -> float | None:
    """By Little's law."""
    if load_each is None:
        return None
    shares = [
        copy.throughput_rps.est * copy.mean_latency_ms.est / 1e3 / load_each
        for copy in copies
        if copy.throughput_rps.est is not None and copy.mean_latency_ms.est is not None
    ]
    return min(shares, default=None)


def _sum(numbers: Sequence[Number]) -> Number:
    """Of all copies; the ends too, as if all were off to the same side."""
    known = [number for number in numbers if isinstance(number, Estimate)]
    if not known or len(known) < len(numbers):
        return Missing("no usable trial")
    lows, highs = [number.lo for number in known], [number.hi for number in known]
    return Estimate(
        sum(number.est for number in known),
        None if None in lows else sum(low or 0.0 for low in lows),
        None if None in highs else sum(high or 0.0 for high in highs),
        min(number.n for number in known),
        "sum of the copies",
    )


def _slowest(numbers: Sequence[Any]) -> Any:
    known = [number for number in numbers if number.est is not None]
    return (
        max(known, key=lambda number: number.est)
        if known and len(known) == len(numbers)
        else Missing("too few requests")
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


# --- how copies are started again, as they were measured


@dataclass(frozen=True, slots=True)
class CopyCommand:
    """How a copy is started."""

    words: Sequence[str]
    ports: Sequence[int]
    ready: str
    environment: Mapping[str, str]
    cores: str
    """In the kernel's notation; empty: all."""
    percentage: int | None = None
    """Of the SMs under MPS."""
    profile: str | None = None
    """Of its MIG instance."""
