"""Tables of what others measured: tenants alone and beside neighbours, checked line by line, as evidence.

Columns: `tenant`, `neighbours` (joined by `+`; empty for a time alone only), `sharing`, `alone` and `shared`, and
optionally `utilisation` (of the GPU, as NVML or nvidia-smi reports it) and `device`. Times are milliseconds, or carry
their unit: `1.2 s`; rates are `80/s`. Or the unit is in the column's name: `alone_ms`, `shared_per_s`.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.errors import DataError
from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.interference.gathered import Gathered, MeasuredMix, SoloTenant
from cotenant.prediction.interference.setting import LARGEST
from cotenant.prediction.trust import new_source_half
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.ways import MODES

ELSEWHERE = "measured elsewhere"
FORMAT = "tenant,neighbours,sharing,alone,shared[,utilisation][,device]"
_FASTEST, _SLOWEST = 1.5, 100.0
"""Tenants beside others are at most this much faster than alone, and slower: beyond it, units differ."""
_SAME = 0.05
"""Repeated figures may differ by this much."""
_UNITS = {"ms": 1e-3, "s": 1.0, "us": 1e-6, "ns": 1e-9, "min": 60.0}
_NUMBER = re.compile(r"\s*([0-9.]+(?:e[-+]?\d+)?)\s*(ms|us|ns|s|min|/s|/min|per_s)?\s*$", re.IGNORECASE)
_PREFIX = "elsewhere:"
_USUAL_USE, _OCCUPANCY, _DRAM = 0.8, 0.7, 0.35
"""Use of a GPU, and shares of its SMs and DRAM while it is used, of tenants that nothing else is known about."""
_KERNEL_NS = 60e3
_KERNELS = 40, 4000


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A checked table."""

    name: str
    found: Gathered
    utilisation: Mapping[str, float]
    """By tenant, of those that state it."""
    device: str | None = None
    basis: str = ELSEWHERE

    def known_as(self, identities: Mapping[str, TenantIdentity]) -> "ForeignTable":
        """With tenants of these names taken to be these: a table has no more than names."""
        own = {solo.key: identities.get(solo.name, solo.key) for solo in self.found.solos}
        solos = tuple(replace(solo, key=own[solo.key]) for solo in self.found.solos)
        mixes = tuple(
            MeasuredMix(
                mix.sharing,
                tuple(sorted((own[key] for key in mix.members), key=repr)),
                tuple((own[key], estimate) for key, estimate in mix.slowdowns),
            )
            for mix in self.found.mixes
        )
        return replace(self, found=replace(self.found, solos=solos, mixes=mixes))


def is_elsewhere(key: TenantIdentity) -> bool:
    """Whether a tenant is known by its name in a table only."""
    return key.workload.startswith(_PREFIX)


def recognised(header: str) -> bool:
    """Whether a file's first line is that of such a table."""
    names = {name.strip().lower() for name in header.split(",")}
    return {"tenant", "neighbours", "sharing"} <= names


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    tenant: str
    neighbours: tuple[str, ...]
    sharing: str
    alone_s: float
    slowdown: float | None


def foreign_table(text: str, name: str) -> ForeignTable:
    """Check a table and read it.

    Raises:
        DataError: Lines that can't be used, each with its reason; nothing is read in part.
    """
    rows = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff")), skipinitialspace=True))
    columns = {(column or "").strip().lower(): column for column in (rows[0] if rows else {})}
    problems: list[str] = []
    alone, shared = (_column(columns, word) for word in ("alone", "shared"))
    missing = [word for word in ("tenant", "neighbours", "sharing") if word not in columns]
    missing += [word for word, given in (("alone", alone), ("shared", shared)) if given is None]
    if missing or alone is None or shared is None:
        raise DataError(f"{name} has no column {' and no '.join(missing) or 'names'}.", hint=f"columns are {FORMAT}")
    lines: list[_Line] = []
    used: dict[str, float] = {}
    devices: set[str] = set()
    for number, row in enumerate(rows, 2):
        cells = {word: (row[column] or "").strip() for word, column in columns.items() if word}
        try:
            lines.append(_line(number, cells, alone, shared))
            if given := cells.get("utilisation"):
                used[lines[-1].tenant] = _share(given)
        except ValueError as problem:
            problems.append(f"line {number}: {problem}")
        devices |= {cells["device"]} if cells.get("device") else set()
    problems += _contradictions(lines)
    if len(devices) > 1:
        problems.append(f"it has several devices ({', '.join(sorted(devices))}): one table each")
    if not lines and not problems:
        problems.append("it has no rows")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        sentence = f"{name} can't be used: {'; '.join(problems[:5])}{more}. Nothing was read."
        raise DataError(sentence.replace("?.", "?"), hint=f"columns are {FORMAT}")
    return ForeignTable(name, _gathered(lines, used), used, devices.pop() if devices else None)


def _column(columns: Mapping[str, str], word: str) -> tuple[str, str] | None:
    """The column's name in the table, and the unit it states."""
    for name in columns:
        if name == word or name.startswith(f"{word}_"):
            return name, name.removeprefix(word).removeprefix("_")
    return None


def _line(number: int, cells: Mapping[str, str], alone: tuple[str, str], shared: tuple[str, str]) -> _Line:
    tenant = cells["tenant"]
    if not tenant:
        raise ValueError("it names no tenant")
    neighbours = tuple(part.strip() for part in cells["neighbours"].split("+")) if cells["neighbours"] else ()
    if len(neighbours) >= LARGEST:
        raise ValueError(f"it has {len(neighbours)} neighbours; mixes of up to {LARGEST} tenants can be used")
    if not all(neighbours):
        raise ValueError(f"neighbours {cells['neighbours']!r} have a name missing: join them by one +")
    alone_s = _seconds(cells[alone[0]], alone[1], "alone")
    sharing = cells["sharing"]
    if not neighbours and not cells[shared[0]]:
        return _Line(number, tenant, (), sharing, alone_s, None)
    if not neighbours:
        raise ValueError(f"{tenant!r} has a figure beside others, but no neighbours")
    mode = re.fullmatch(r"([\w-]+)\s*:?\s*(\[[^\[\]]+\])?", sharing)
    if mode is None or mode[1] not in MODES:
        raise ValueError(f"sharing {sharing!r} is unknown: one of {', '.join(MODES)}")
    slowdown = _seconds(cells[shared[0]], shared[1], "shared") / alone_s
    if slowdown < 1 / _FASTEST:
        raise ValueError(
            f"{tenant!r} would be {1 / slowdown:.3g} times as fast beside {' + '.join(neighbours)} as alone: "
            "are both figures in one unit, and times rather than rates?"
        )
    if slowdown > _SLOWEST:
        raise ValueError(f"{tenant!r} would be {slowdown:.3g} times as slow as alone: are both figures in one unit?")
    return _Line(number, tenant, neighbours, sharing, alone_s, slowdown)


def _seconds(text: str, unit: str, what: str) -> float:
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError(f"{what} is {text!r}, not a time like `12.5 ms` or a rate like `80/s`")
    value, word = float(match[1]), (match[2] or unit or "ms").lower()
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{what} is {text!r}; it must be above 0")
    if word in ("/s", "per_s"):
        return 1 / value
    if word in ("/min", "per_min"):
        return 60 / value
    if word not in _UNITS:
        raise ValueError(f"{what} has the unknown unit {word!r}: one of {', '.join(_UNITS)}, /s")
    return value * _UNITS[word]


def _share(text: str) -> float:
    value = float(text.rstrip("% ")) if re.fullmatch(r"[0-9.]+\s*%?", text) else math.nan
    value = value / 100 if text.endswith("%") or value > 1 else value
    if not 0 < value <= 1:
        raise ValueError(f"utilisation is {text!r}; it is a share from 0 to 1, or a percentage")
    return value


def _contradictions(lines: Sequence[_Line]) -> list[str]:
    """Solos that are missing, and figures that repeat with another value."""
    problems: list[str] = []
    alone: dict[str, _Line] = {}
    known: dict[tuple[str, tuple[str, ...], str], _Line] = {}
    for line in lines:
        first = alone.setdefault(line.tenant, line)
        if abs(line.alone_s / first.alone_s - 1) > _SAME:
            problems.append(f"line {line.number}: {line.tenant!r} alone contradicts line {first.number}")
        if line.slowdown is not None:
            same = known.setdefault((line.tenant, tuple(sorted(line.neighbours)), line.sharing), line)
            if same.slowdown is not None and abs(line.slowdown / same.slowdown - 1) > _SAME:
                problems.append(f"line {line.number}: {line.tenant!r} in this mix contradicts line {same.number}")
    for line in lines:
        absent = [name for name in line.neighbours if name not in alone]
        if absent:
            problems.append(f"line {line.number}: neighbour {absent[0]!r} has no line with its time alone")
    return problems


def _gathered(lines: Sequence[_Line], used: Mapping[str, float]) -> Gathered:
    keys = {line.tenant: TenantIdentity(f"{_PREFIX}{line.tenant}") for line in lines}
    alone = {line.tenant: line.alone_s for line in reversed(lines)}
    solos = tuple(
        SoloTenant(
            key,
            tenant,
            alone[tenant] * 1e9,
            alone[tenant] * 1e9 * used[tenant] if tenant in used else None,
            None,
            None,
            None,
            foreign=True,
        )
        for tenant, key in keys.items()
    )
    half = new_source_half()
    by_mix: dict[tuple[str, tuple[str, ...]], dict[TenantIdentity, Estimate]] = {}
    for line in lines:
        if line.slowdown is not None:
            members = tuple(sorted((line.tenant, *line.neighbours)))
            low, high = line.slowdown * math.exp(-half), line.slowdown * math.exp(half)
            estimate = Estimate(line.slowdown, low, high, 0, ELSEWHERE)
            by_mix.setdefault((line.sharing, members), {})[keys[line.tenant]] = estimate
    mixes = tuple(
        MeasuredMix(sharing, tuple(sorted((keys[name] for name in members), key=repr)), tuple(slowdowns.items()))
        for (sharing, members), slowdowns in by_mix.items()
    )
    return Gathered(solos, mixes, 0)


# --- the same from servers that were watched

WATCHED = "watched"


def foreign_solo(name: str, alone_s: float, *, busy_s: float | None, unstable: bool) -> SoloTenant:
    """A tenant known by its name: its time alone, and its time on the device."""
    key = TenantIdentity(f"{_PREFIX}{name}")
    busy_ns = None if busy_s is None else 1e9 * busy_s
    return SoloTenant(key, name, 1e9 * alone_s, busy_ns, None, None, None, foreign=True, unstable=unstable)


def observed_table(
    name: str, solos: Sequence[SoloTenant], sharing: str, pairs: Sequence[tuple[tuple[str, str], Estimate]]
) -> ForeignTable:
    """Tenants and slowdowns that were watched.

    Args:
        name: Where they come from.
        solos: The tenants.
        sharing: How they shared the device.
        pairs: By neighbour and tenant: the tenant's slowdown.
    """
    keys = {solo.name: solo.key for solo in solos}
    by_mix: dict[tuple[str, ...], dict[TenantIdentity, Estimate]] = {}
    for (neighbour, tenant), busy in pairs:
        if neighbour in keys and busy.lo is not None and busy.hi is not None:
            # Other traffic than the one that came is as foreign as another's measurement.
            half = math.hypot(new_source_half(), math.log(busy.hi / busy.lo) / 2)
            estimate = Estimate(busy.est, busy.est * math.exp(-half), busy.est * math.exp(half), 0, WATCHED)
            by_mix.setdefault(tuple(sorted((neighbour, tenant))), {})[keys[tenant]] = estimate
    mixes = tuple(
        MeasuredMix(sharing, tuple(sorted((keys[member] for member in members), key=repr)), tuple(slowdowns.items()))
        for members, slowdowns in by_mix.items()
    )
    used = {
        solo.name: min(solo.device_ns / solo.service_ns, 1.0) for solo in solos if solo.device_ns and solo.service_ns
    }
    return ForeignTable(name, Gathered(tuple(solos), mixes, 0), used, basis=WATCHED)


def plain_trace(solo_ns: float, use: float | None) -> Trace:
    """A request of a tenant that only its time alone and its use of the GPU describe: the rest is host time."""
    share = min(_USUAL_USE if use is None else use, 0.98)
    device = share * solo_ns
    kernels = int(np.clip(device / _KERNEL_NS, *_KERNELS))
    each = np.ones(kernels)
    duration = each * device / kernels
    return Trace(
        duration_ns=duration,
        occupancy=each * _OCCUPANCY,
        dram=each * _DRAM,
        tensor=each * 0.0,
        launch_ns=duration * 0.25,
        slot=np.zeros(kernels, np.int64),
        block_ns=duration / 4,
        holds=each * _OCCUPANCY,
        waited=each * 0.0,
        before_ns=solo_ns - device,
    )
