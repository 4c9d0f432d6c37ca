"""Candidate causes of slowdown: properties of a tenant alone, and of its neighbours alone."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.analyse.explanation.binding import Binding
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.summary import Summary

Neighbours = Sequence[Binding]


def _busy(one: Binding) -> float:
    return 1.0 if one.busy is None else one.busy


def _relative_time(own: Binding, others: Neighbours) -> float | None:
    times = [one.service_ms.est for one in others]
    if not own.service_ms.est or not all(times):
        return None
    return math.log(own.service_ms.est) - sum(math.log(time) for time in times if time) / len(times)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


PROPERTIES: Mapping[str, Callable[[Binding, Neighbours], float | None]] = {
    "how long its requests are beside its neighbours'": _relative_time,
    "how many neighbours it has": lambda own, others: float(len(others)),  # noqa: ARG005 - one signature for all
    "how much of the compute peak its neighbours use": lambda own, others: _sum(  # noqa: ARG005
        [None if one.compute_share is None else one.compute_share * _busy(one) for one in others]
    ),
    "how much memory bandwidth its neighbours use": lambda own, others: _sum(  # noqa: ARG005
        [None if one.bandwidth_share is None else one.bandwidth_share * _busy(one) for one in others]
    ),
    "how much of the compute peak it uses itself": lambda own, others: own.compute_share,  # noqa: ARG005
    "how much memory bandwidth it uses itself": lambda own, others: own.bandwidth_share,  # noqa: ARG005
    "how busy its neighbours keep the device": lambda own, others: _sum(  # noqa: ARG005
        [None if one.cores is None else one.core_demand for one in others]
    ),
}


@dataclass(frozen=True, slots=True)
class Sufferer:
    """One tenant of one mix: its properties and its slowdown."""

    mix: str
    sharing: str
    tenant: str
    properties: Mapping[str, float]
    log_slowdown: float
    neighbours: int = 1
    service_ms: float = 0.0
    """Time of a request alone; 0 if unknown."""


def sufferers(summary: Summary, alone: Sequence[Binding]) -> list[Sufferer]:
    """Every tenant of every mix whose properties and slowdown are known; copies of one tenant count once."""
    known = {(one.of, one.load, one.settings): one for one in alone}
    members: dict[Cell, list[str]] = {}
    for tenant in summary.tenants:
        members.setdefault(tenant.cell, []).append(tenant.of)
    found: dict[tuple[Cell, str], Sufferer] = {}
    for tenant in summary.tenants:
        cell, slowdown = tenant.cell, tenant.slowdown.est
        if cell.solo or not slowdown or (cell, tenant.of) in found:
            continue
        bindings = [known.get((of, cell.load, cell.settings)) for of in members[cell]]
        own = known.get((tenant.of, cell.load, cell.settings))
        if own is None or None in bindings or len(bindings) < 2:
            continue
        others = [one for one in bindings if one is not None]
        others.remove(own)
        values = {name: of(own, others) for name, of in PROPERTIES.items()}
        found[cell, tenant.of] = Sufferer(
            mix=cell.mix,
            sharing=cell.sharing,
            tenant=tenant.of,
            properties={name: value for name, value in values.items() if value is not None},
            log_slowdown=math.log(slowdown),
            neighbours=len(others),
            service_ms=own.service_ms.est or 0.0,
        )
    return list(found.values())
