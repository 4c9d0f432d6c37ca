"""Explain a plan: rejected cheaper alternatives, room for growth, and the next measurement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from cotenant.planning.mixes.judge import Laid, MixJudge
from cotenant.planning.mixes.kinds import CAPPED, DeviceKind
from cotenant.planning.mixes.predictor import MixPredictor
from cotenant.planning.mixes.second_opinion import SecondOpinion
from cotenant.planning.mixes.serving_plan import (
    MAY_FIT,
    Measurement,
    PlannedDevice,
    Refusal,
    Rejected,
    SeatedTenant,
)
from cotenant.planning.mixes.tenants import Unit, UnitSeat
from cotenant.planning.solver.problem import NOBODY, PlacedGroup
from cotenant.tenancy.ways import ALONE
from cotenant.text import amount, milliseconds, percent, together

FACTORS = np.geomspace(1.0, 4.0, 30).round(2)
MOST_DEVICES = 14
"""Least busy devices whose pairs are tried as a single device."""
MOST_REJECTED = 8
MOST_REFUSED = 8
"""Tenants left out of which the reason is looked for."""
_GIB = 2**30
NEVER = 1e9
"""How much is missing where nothing but another device would do."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """The explanation of a plan."""

    rejected: tuple[Rejected, ...]
    binding: str
    cheaper: str
    measure: Measurement | None


def reasons(
    judge: MixJudge,
    columns: Sequence[PlacedGroup],
    devices: Sequence[PlannedDevice],
    more: Callable[[], bool] = lambda: True,
) -> Reasons:
    """Try cheaper alternatives while there is time, and name the objective each would break."""
    tried = sorted(
        _alternatives(judge, columns, devices, more),
        key=lambda attempt: (attempt.strain, -attempt.rejected.saves_per_h),
    )
    rejected = tuple(attempt.rejected for attempt in tried[:MOST_REJECTED])
    if not tried:
        return Reasons((), "", "", _measure(rejected, devices))
    nearest = tried[0]
    names = together(nearest.rejected.tenants)
    cheaper = (
        f"saves {nearest.rejected.saving} with {names} under {nearest.rejected.sharing} on one "
        f"{nearest.rejected.kind}: {nearest.rejected.reason}"
    )
    return Reasons(rejected, nearest.binding, cheaper, _measure(rejected, devices))


def refusals(
    judge: MixJudge, columns: Sequence[PlacedGroup], names: Sequence[str], replicas: Sequence[int]
) -> tuple[Refusal, ...]:
    """What fails for each of these tenants on the device of the plan where it, or a replica, comes closest to fitting.

    Args:
        judge: Judged the plan.
        columns: The plan.
        names: The tenants that it leaves out.
        replicas: By tenant: how many it needs to meet its objectives alone.
    """
    refused = []
    free = sum(kind.available for kind in judge.kinds) - sum(column.devices for column in columns)
    for name in names[:MOST_REFUSED]:
        number = next(index for index, tenant in enumerate(judge.tenants) if tenant.name == name)
        tenant, count = judge.tenants[number], replicas[number]
        own = [column for column in columns if column.devices == 1]
        best, measure = (np.inf, ""), None
        for column in own:
            seats = [judge.units[unit] for unit in column.members]
            unit = Unit((UnitSeat(number, tenant.rate_rps / count),))
            beside = MixJudge(
                judge.tenants, judge.kinds, [*seats, unit], judge.predictor, minimise=judge.minimise, known=judge.known
            )
            laid = beside.lay_out(column.option, np.arange(len(seats) + 1, dtype=np.int64)[None, :])
            if bool(laid.fits[0]):
                continue
            sentence, _, strain, undecided = broken(beside, laid, option=column.option)
            others = [judge.tenants[seat.tenant].name for unit in seats for seat in unit.seats]
            way = judge.ways[column.option]
            where = judge.kinds[way.kind].name
            if strain <= best[0]:
                best = (strain, f"beside {together(others)} on {where}: {sentence}")
                told = undecided and count == 1
                measure = Measurement((*others, name), where, _written(way.sharing), MAY_FIT) if told else None
        reason = best[1] or "no device is left for it"
        if count > 1:
            closest = f"; a replica {best[1]}" if best[1] else ""
            reason = f"needs {count} replicas for {tenant.rate_rps:g}/s, with {amount(free, 'device')} free{closest}"
            measure = _one_may_do(judge, number)
        refused.append(Refusal(name, reason, measure=measure))
    return tuple(refused)


def _one_may_do(judge: MixJudge, number: int) -> Measurement | None:
    """A tenant alone at its whole rate, if only upper ends ask for replicas."""
    tenant = judge.tenants[number]
    unit = Unit((UnitSeat(number, tenant.rate_rps),))
    lone = MixJudge(judge.tenants, judge.kinds, [unit], judge.predictor, minimise=judge.minimise, known=judge.known)
    for option, way in enumerate(lone.ways):
        laid = lone.lay_out(option, np.zeros((1, 1), np.int64))
        if broken(lone, laid, option=option)[3]:
            return Measurement((tenant.name,), judge.kinds[way.kind].name, ALONE, f"with a single replica {MAY_FIT}")
    return None


def with_sensitivity(
    judge: MixJudge,
    column: PlacedGroup,
    device: PlannedDevice,
    more: Callable[[], bool] = lambda: True,
) -> PlannedDevice:
    """The device with the factor by which each rate may grow before an objective is missed, while time lasts."""
    tenants = tuple(
        replace(tenant, holds_to=_holds_to(judge, column, seat, more)) if tenant.rate_rps > 0 and more() else tenant
        for seat, tenant in enumerate(device.tenants)
    )
    return replace(device, tenants=tenants)


def broken(judge: MixJudge, laid: Laid, *, option: int, row: int = 0) -> tuple[str, str, float, bool]:
    """What a mix would break: a sentence, the objective, by how much, and whether only the upper end misses it."""
    kind = judge.kinds[judge.ways[option].kind]
    seats = [seat for seat, tenant in enumerate(laid.mixes.tenants[row]) if tenant != NOBODY]
    names = [judge.tenants[laid.mixes.tenants[row, seat]].name for seat in seats]
    they_need = "it needs" if len(seats) == 1 else "they need"
    if kind.mig is None and any(judge.tenants[laid.mixes.tenants[row, seat]].isolation == "mig" for seat in seats):
        return f"{kind.name} has no MIG, which `isolation: mig` needs", f"MIG of {kind.name}", NEVER, False
    memory = float(laid.predicted.memory_bytes[row].sum())
    if memory == np.inf or (laid.mixes.sharing != "mig" and memory > kind.memory_bytes):
        needed = f"{they_need} {memory / _GIB:.1f} GiB of {kind.memory_bytes / _GIB:.1f}"
        sentence = needed if memory < np.inf else f"no engine runs {' and '.join(names)} so"
        return sentence, f"memory of {kind.name}", memory / kind.memory_bytes, False
    worst: tuple[float, str, str, bool] = (0.0, "", "", False)
    for seat, name in zip(seats, names, strict=True):
        tenant = judge.tenants[laid.mixes.tenants[row, seat]]
        for number, objective in enumerate(tenant.objectives):
            upper = float(laid.predicted.latency_ms.upper[row, seat, number])
            estimate = float(laid.predicted.latency_ms.estimate[row, seat, number])
            strain = upper / objective.limit_ms
            if strain > worst[0]:
                worst = (
                    strain,
                    _late(name, objective.label, upper, estimate, objective.limit_ms),
                    f"{objective.label} of {name}",
                    estimate <= objective.limit_ms,
                )
        if tenant.job is not None and laid.predicted.slowdown.upper[row, seat] > tenant.job.stretch:
            slow = float(laid.predicted.slowdown.upper[row, seat])
            sentence = f"{name} would take {slow:.2f}x its time, more than {tenant.job.stretch:g}x"
            return sentence, f"time of {name}", slow / tenant.job.stretch, False
    busy = float(laid.predicted.busy[row])
    if busy > 1 and worst[0] <= 1:
        worst = (busy, f"{they_need} {percent(busy)} of the device", f"compute of {kind.name}", False)
    if worst[0] > 1:
        return worst[1], worst[2], worst[0], worst[3]
    if laid.mixes.sharing == "mig":
        return "no MIG layout of the GPU has a large enough instance for each", f"MIG slices of {kind.name}", 2.0, False
    return _forbidden(judge, [int(laid.mixes.tenants[row, seat]) for seat in seats], kind)


def _forbidden(judge: MixJudge, tenants: Sequence[int], kind: DeviceKind) -> tuple[str, str, float, bool]:
    spans = max(judge.tenants[tenant].devices_on(kind.name) for tenant in tenants)
    if spans > kind.available:
        return f"it spans {spans} devices of {kind.available}", f"number of {kind.name}", spans / kind.available, False
    return "one of their constraints forbids it", "isolation, apart or shares", np.inf, False


def _late(name: str, label: str, upper: float, estimate: float, limit: float) -> str:
    if not np.isfinite(estimate):
        return f"{name} can't keep up with its rate"
    if not np.isfinite(upper):
        at_most = f"and at the upper end it can't keep up (limit {milliseconds(limit)})"
        return f"{label} of {name} {milliseconds(estimate)}, {at_most}"
    return f"{label} of {name} up to {milliseconds(upper)} > {milliseconds(limit)} (estimate {milliseconds(estimate)})"


@dataclass(frozen=True, slots=True)
class _Tried:
    rejected: Rejected
    strain: float
    binding: str


def _alternatives(
    judge: MixJudge, columns: Sequence[PlacedGroup], devices: Sequence[PlannedDevice], more: Callable[[], bool]
) -> list[_Tried]:
    """Merge two devices, or move a device's tenants to a cheaper kind."""
    tried: list[_Tried] = []
    single = [index for index, column in enumerate(columns) if column.devices == 1]
    idle = sorted(single, key=lambda index: devices[index].busy)[:MOST_DEVICES]
    for first, other in combinations(idle, 2):
        if not more():
            return tried
        members = (*columns[first].members, *columns[other].members)
        saved = min(devices[first].price_per_h, devices[other].price_per_h)
        dearer = max((columns[first], columns[other]), key=lambda column: column.cost)
        kinds = {judge.ways[dearer.option].kind}
        if attempt := _best(judge, members, kinds, saved):
            tried.append(attempt)
    for column, device in ((columns[index], devices[index]) for index in single):
        if not more():
            return tried
        kinds = {
            number
            for number, kind in enumerate(judge.kinds)
            if kind.price_per_h < device.price_per_h and kind.available > 0
        }
        for number in kinds:
            saved = device.price_per_h - judge.kinds[number].price_per_h
            if attempt := _best(judge, column.members, {number}, saved):
                tried.append(attempt)
    return tried


def _best(judge: MixJudge, members: tuple[int, ...], kinds: set[int], saved: float) -> _Tried | None:
    """The least bad way to put these units on a single device; None if they break nothing."""
    best: _Tried | None = None
    for option, way in enumerate(judge.ways):
        if way.kind not in kinds:
            continue
        laid = judge.lay_out(option, np.array([members], np.int64))
        if bool(laid.fits[0]):
            return None
        sentence, binding, strain, undecided = broken(judge, laid, option=option)
        if best is None or strain < best.strain:
            names = tuple(judge.tenants[seat.tenant].name for unit in members for seat in judge.units[unit].seats)
            kind = judge.kinds[way.kind].name
            rejected = Rejected(names, kind, _written(way.sharing), sentence, saved, undecided)
            best = _Tried(rejected, strain, binding)
    return best


def _written(sharing: str) -> str:
    return "mps (with shares)" if sharing == CAPPED else sharing


def _holds_to(judge: MixJudge, column: PlacedGroup, position: int, more: Callable[[], bool]) -> float | None:
    """The largest of `FACTORS` times a tenant's rate at which this device still serves all, planned again for it.

    All its replicas on the device grow together.

    Above the largest that the fast predictor is sure of, the slower one is asked as a plan for the higher rate would
    ask it: about every way to share, for each number of requests at once whose estimate the fast one leaves open. None
    if time is up before that is done.
    """
    seats = [seat for unit in column.members for seat in judge.units[unit].seats]
    tenant = seats[position].tenant
    group, kind = np.arange(len(column.members), dtype=np.int64)[None, :], judge.ways[column.option].kind
    ways = [option for option, way in enumerate(judge.ways) if way.kind == kind and option != column.option]
    options = [column.option, *ways]

    opinion = judge.predictor if isinstance(judge.predictor, SecondOpinion) else None
    closely = None if opinion is None else opinion.about(judge.units[unit] for unit in column.members)

    def at(step: int, predictor: MixPredictor = judge.predictor) -> MixJudge:
        factor = float(FACTORS[step])
        units = [
            Unit(
                tuple(
                    replace(seat, rate_rps=seat.rate_rps * factor) if seat.tenant == tenant else seat
                    for seat in judge.units[unit].seats
                )
            )
            for unit in column.members
        ]
        return MixJudge(judge.tenants, judge.kinds, units, predictor, minimise=judge.minimise, known=judge.known)

    def largest(holds: Callable[[int], bool], low: int, high: int) -> int:
        """The last step that holds; `low` does, `high` doesn't."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    def sure(step: int) -> bool:
        higher = at(step)
        return any(bool(higher.lay_out(option, group).fits[0]) for option in options)

    def confirmed(step: int) -> bool:
        assert closely is not None
        higher = at(step, closely)
        return any(more() and bool(higher.lay_out(option, group).fits[0]) for option in options)

    low = largest(sure, 0, len(FACTORS))
    if closely is None or len(column.members) == 1:
        return float(FACTORS[low])
    low = largest(confirmed, low, len(FACTORS))
    return float(FACTORS[low]) if more() else None


def _measure(rejected: Sequence[Rejected], devices: Sequence[PlannedDevice]) -> Measurement | None:
    """A cheaper alternative whose estimate fits, else the plan's mix with the least headroom."""
    undecided = [alternative for alternative in rejected if alternative.undecided]
    if undecided:
        best = max(undecided, key=lambda alternative: alternative.saves_per_h)
        would = f"could save {best.saving}: {MAY_FIT}"
        return Measurement(best.tenants, best.kind, best.sharing, would)
    unmeasured = [device for device in devices if not device.basis.startswith("measured") and device.tightest]
    if not unmeasured:
        return None
    tightest = min(unmeasured, key=_headroom)
    pair = tightest.tightest
    assert pair is not None
    seat, kept = pair
    would = f"would confirm the tightest objective: {kept.objective} of {seat.name}, {percent(kept.headroom)} left"
    return Measurement(_names(tightest.tenants), tightest.kind, tightest.sharing, would)


def _headroom(device: PlannedDevice) -> float:
    pair = device.tightest
    return pair[1].headroom if pair else np.inf


def _names(tenants: Sequence[SeatedTenant]) -> tuple[str, ...]:
    return tuple(tenant.tenant for tenant in tenants)
