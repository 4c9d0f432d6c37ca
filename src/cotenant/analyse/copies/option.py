"""So many copies under one way to share: what they serve, how reliably they start, and what speaks against them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from cotenant.analyse.copies.starts import Reliability, Start, reliability
from cotenant.analyse.decision.objective import Kept, objective_of
from cotenant.analyse.device_use import DeviceUse
from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.estimates.quantiles import Missing, Number
from cotenant.analyse.sharing.cells import Cell, sharing_said
from cotenant.analyse.sharing.result import Result
from cotenant.analyse.sharing.summary import TenantSummary
from cotenant.text import amount, percent

QUANTILES = ("p50", "p95", "p99")
IN_FLIGHT = 0.8
"""Share of the requests that a closed load should keep in flight, below which the client was the limit."""


@dataclass(frozen=True, slots=True)
class CopiesOption:
    """So many copies under one way to share."""

    copies: int
    sharing: str
    throughput_rps: Number
    """Of all copies."""
    gain: Number
    """Throughput against one copy in the same blocks."""
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


def options_of(result: Result, starts: Iterable[Start], *, load_each: float | None) -> tuple[CopiesOption, ...]:
    """All options of a run, the fewest copies first.

    Args:
        result: The run.
        starts: What its trials started.
        load_each: Requests that a closed load keeps in flight at each copy; None for an open load.
    """
    by_option: dict[tuple[str, str], list[Start]] = {}
    for one in starts:
        by_option.setdefault((one.mix, one.sharing), []).append(one)
    members = {cell: list(group) for cell, group in groupby(result.tenants, key=lambda one: one.cell)}
    gains = {mix.cell: mix.metrics.get("stp") for mix in result.mixes}
    cells = {(cell.mix, cell.sharing): cell for cell in members}
    used = {(one.cell.mix, one.cell.sharing): one for one in result.device_use}
    simulated = any(cell.simulated for cell in members)
    alone = {
        one.block: one.throughput_rps
        for made in by_option.values()
        for one in made
        if one.copies == 1 and one.throughput_rps
    }
    found = []
    for key, made in by_option.items():
        cell = cells.get(key)
        mine = members.get(cell, []) if cell is not None else []
        gain: Number = Missing("the rate is given")
        if load_each is not None:
            gain = _simulated_gain(cell, gains) if simulated else _gain(made, alone)
        found.append(_option(made, mine, gain, used.get(key), load_each))
    return tuple(sorted(found, key=lambda one: one.copies))


def _gain(made: Sequence[Start], alone: Mapping[int, float]) -> Number:
    """Throughput against one copy within each block."""
    if made[0].copies == 1:
        return Estimate(1.0, 1.0, 1.0, len(alone), "by definition")
    logs = [
        math.log(one.throughput_rps / alone[one.block])
        for one in sorted(made, key=lambda one: one.block)
        if one.throughput_rps and alone.get(one.block)
    ]
    return ratio_interval(logs) if logs else Missing("no block has both a usable trial of these and of one copy")


def _simulated_gain(cell: Cell | None, gains: Mapping[Cell, Number | None]) -> Number:
    """Work done against taking turns, whose interval includes the model's error."""
    if cell is not None and cell.solo:
        return Estimate(1.0, 1.0, 1.0, 1, "by definition")
    found = None if cell is None else gains.get(cell)
    return Missing("no usable trial") if found is None else found


def _option(
    made: Sequence[Start],
    copies: Sequence[TenantSummary],
    gain: Number,
    used: DeviceUse | None,
    load_each: float | None,
) -> CopiesOption:
    up = [one for one in made if one.failed is None]
    objectives = [one for one in map(objective_of, copies) if one is not None]
    answers = {one.answer for one in objectives}
    unequal = [reason for one in made if "copies_equal" in one.failed_checks for reason in one.reasons]
    return CopiesOption(
        copies=made[0].copies,
        sharing=made[0].sharing,
        throughput_rps=_sum([one.throughput_rps for one in copies]),
        gain=gain,
        latency_ms={name: _slowest([one.latency_ms[name] for one in copies]) for name in QUANTILES},
        kept=None if not answers else "missed" if "missed" in answers else "open" if "open" in answers else "kept",
        held=not any("load_sustained" in one.failed_checks for one in up),
        in_flight=_in_flight(copies, load_each),
        reliability=reliability(made),
        valid=sum(not one.failed_checks for one in made),
        unequal=tuple(dict.fromkeys(reason for reason in unequal if "differ:" in reason)),
        doubts=tuple(dict.fromkeys(check for one in made for check in one.failed_checks)),
        cores=_mean([one.cores for one in up]),
        memory_bytes=max((one.memory_bytes for one in up if one.memory_bytes is not None), default=None),
        sm_active=None if used is None or used.sm_active is None else used.sm_active.value,
        dram_active=None if used is None or used.dram_active is None else used.dram_active.value,
        resolved=next((one.resolved for one in up if one.resolved), {}),
    )


def _in_flight(copies: Sequence[TenantSummary], load_each: float | None) -> float | None:
    """By Little's law."""
    if load_each is None:
        return None
    shares = [
        one.throughput_rps.est * one.mean_latency_ms.est / 1e3 / load_each
        for one in copies
        if one.throughput_rps.est is not None and one.mean_latency_ms.est is not None
    ]
    return min(shares, default=None)


def _sum(numbers: Sequence[Number]) -> Number:
    """Of all copies; the ends too, as if all were off to the same side."""
    known = [one for one in numbers if isinstance(one, Estimate)]
    if not known or len(known) < len(numbers):
        return Missing("no usable trial")
    lows, highs = [one.lo for one in known], [one.hi for one in known]
    return Estimate(
        sum(one.est for one in known),
        None if None in lows else sum(low or 0.0 for low in lows),
        None if None in highs else sum(high or 0.0 for high in highs),
        min(one.n for one in known),
        "sum of the copies",
    )


def _slowest(numbers: Sequence[Any]) -> Any:
    known = [one for one in numbers if one.est is not None]
    return max(known, key=lambda one: one.est) if known and len(known) == len(numbers) else Missing("too few requests")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
