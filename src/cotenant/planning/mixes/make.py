"""Make a plan from tenants, devices and a predictor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.errors import CotenantError
from cotenant.planning.mixes.cut import plan_of_instances
from cotenant.planning.mixes.fitting import fitting, joined_devices
from cotenant.planning.mixes.judge import PER_DEVICE, Laid, Minimise, MixJudge
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.predictor import MixPredictor
from cotenant.planning.mixes.replicas import floors, replicas_of
from cotenant.planning.mixes.second_opinion import SecondOpinion
from cotenant.planning.mixes.serving_plan import KeptObjective, PlannedDevice, SeatedTenant, ServingPlan
from cotenant.planning.mixes.tenants import ServingTenant, Unit, UnitSeat, contradictions, units_of
from cotenant.planning.mixes.why import reasons, refusals, with_sensitivity
from cotenant.planning.solver.generation import Clock, Solved
from cotenant.planning.solver.problem import PlacedGroup, Problem, cost_of
from cotenant.planning.solver.solve import solve
from cotenant.text import amount

MOST_ON_ONE = 16
TRIES = 10
"""Where not all tenants fit, the part of the time for each try at some of them."""
INTERRUPTED = "none: interrupted"
MOST_ROUNDS = 12
"""Plans the second predictor may refuse before the last is accepted."""
ENOUGH = 0.3
"""Headroom, as a fraction of the limit, above which a simpler way to share is preferred."""
EXPLAINED = 40
"""Largest number of devices for which alternatives are tried."""


class Impossible(CotenantError):
    """Tenants that no available device can serve within their objectives, however it is shared."""

    def __init__(self, message: str, tenants: tuple[str, ...]) -> None:
        super().__init__(message, hint="relax the objective, shrink the model or the batch, or add a device")
        self.tenants = tenants


@dataclass(frozen=True, slots=True)
class Ask:
    """How to plan."""

    minimise: Minimise = "cost"
    seconds: float = 30.0
    risk: float = 0.1
    """How often an objective may be missed: the level of the predictor's upper ends."""
    most: int = MOST_ON_ONE
    """Maximum tenants per device."""


def make_plan(
    tenants: Sequence[ServingTenant],
    kinds: Sequence[DeviceKind],
    predictor: MixPredictor,
    *,
    clock: Clock,
    ask: Ask | None = None,
    closer: MixPredictor | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ServingPlan:
    """The best plan that meets every objective at the predictor's upper end.

    Args:
        tenants: Tenants to place.
        kinds: Available devices.
        predictor: Used on all mixes.
        clock: Returns seconds; planning never reads the system clock itself.
        ask: The quantity to minimise, the time limit and the risk.
        closer: A slower predictor that confirms the chosen mixes; the plan avoids those it refuses.
        progress: Called with a progress message.

    Raises:
        Impossible: A tenant's objectives can't be met anywhere.
        CotenantError: Constraints contradict each other.
    """
    asked = ask or Ask()
    end = clock() + asked.seconds
    opinion = None
    if closer is not None:
        predictor = opinion = SecondOpinion(predictor, closer, tenants)
    _require_consistent(tenants)
    counts = replicas_of(tenants, kinds, predictor)
    _require_possible(tenants, kinds, predictor, counts)
    units = everyone = units_of(tenants, [count or 1 for count in counts])
    refused: set[tuple[int, frozenset[int]]] = set()

    def planned(seconds: float, units: tuple[Unit, ...]) -> tuple[MixJudge, Solved]:
        judge = MixJudge(tenants, kinds, units, predictor, minimise=asked.minimise, refused=frozenset(refused))
        available = tuple(kind.available for kind in kinds)
        problem = Problem(len(units), judge.options(), available, judge, asked.most, _wide(judge))
        solution = solve(problem, clock=clock, seconds=seconds)
        return judge, replace(solution, columns=tuple(_roomiest(judge, column) for column in solution.columns))

    judge, solved = planned(max(end - clock(), asked.seconds / TRIES), units)
    try:
        if solved.left_out:
            half, part = clock() + max(end - clock(), 0.0) / 2, asked.seconds / TRIES
            units = fitting(units, solved, lambda some: planned(part, some)[1] if clock() < half else None)
            _require_any(units, tenants, counts, kinds)
            judge, solved = planned(part, units)
        for _ in range(MOST_ROUNDS):
            if closer is None:
                break
            bad = _refused(judge, solved.columns, closer, lambda: clock() < end)
            if not bad or clock() >= end:
                break
            progress(f"the second predictor refuses {len(bad)} of {len(solved.columns)} mixes; planning again")
            refused |= bad
            judge, solved = planned(max(end - clock(), 0.5), units)
        if asked.minimise in PER_DEVICE:
            complete = len(units) == len(everyone)
            judge, solved = _cheaper(judge, solved, opinion, clock=clock, end=end, complete=complete)
    except KeyboardInterrupt:
        solved, closer = replace(solved, bound=0.0, proof=INTERRUPTED), None
    return _explained(judge, solved, asked, closer)


def _cheaper(
    judge: MixJudge, solved: Solved, opinion: SecondOpinion | None, *, clock: Clock, end: float, complete: bool
) -> tuple[MixJudge, Solved]:
    """Try what the solver doesn't: devices that a second opinion joins, and MIG instances for replicas."""
    if opinion is not None:
        solved = joined_devices(judge, solved, opinion, lambda: clock() < end)
    if complete and not solved.left_out and solved.cost <= solved.bound * (1 + 1e-9):
        return judge, solved
    below = solved.cost if complete and not solved.left_out else np.inf
    rough = judge.predictor if opinion is None else opinion.rough
    seconds = max(end - clock(), 1.0)
    cut = plan_of_instances(judge.tenants, judge.kinds, rough, minimise=judge.minimise, below=below, seconds=seconds)
    return (judge, solved) if cut is None else cut


def _wide(judge: MixJudge) -> tuple[PlacedGroup, ...]:
    """Jobs and split models that span several devices occupy them exclusively."""
    columns = []
    for number, unit in enumerate(judge.units):
        tenant = judge.tenants[unit.seats[0].tenant]
        for option, way in enumerate(judge.ways):
            kind = judge.kinds[way.kind]
            spans = tenant.devices_on(kind.name)
            if not 1 < spans <= kind.available:
                continue
            if tenant.job is not None:
                first = next(position for position, candidate in enumerate(judge.ways) if candidate.kind == way.kind)
                if option == first:
                    columns.append(PlacedGroup(option, (number,), judge.least(kind) * spans, spans))
                continue
            laid = judge.lay_out(option, np.array([[number]], np.int64))
            if bool(laid.fits[0]):
                cost = float(judge.cost(option, laid)[0]) * (1 if judge.minimise == "latency" else spans)
                columns.append(PlacedGroup(option, (number,), cost, spans))
    return tuple(columns)


def _roomiest(judge: MixJudge, column: PlacedGroup) -> PlacedGroup:
    """The same group under the simplest way to share that leaves `ENOUGH` of every limit, else the most."""
    if column.devices > 1 or judge.minimise not in PER_DEVICE:
        return column
    kind = judge.ways[column.option].kind
    best = (-np.inf, column.option)
    for option, way in enumerate(judge.ways):
        if way.kind == kind:
            laid = judge.lay_out(option, np.array([column.members], np.int64))
            if bool(laid.fits[0]):
                left = min(round(1 - judge.strain(laid), 1), ENOUGH)
                best = max(best, (left, option), key=lambda room: (room[0], -room[1]))
    return PlacedGroup(best[1], column.members, column.cost)


def _refused(
    judge: MixJudge, columns: Sequence[PlacedGroup], closer: MixPredictor, more: Callable[[], bool]
) -> set[tuple[int, frozenset[int]]]:
    bad = set()
    for column in columns:
        if not more():
            break
        laid = judge.lay_out(column.option, np.array([column.members], np.int64))
        if len(column.members) > 1 and not bool(judge.keeps(column.option, laid.mixes, closer)[0]):
            bad.add((column.option, frozenset(column.members)))
    return bad


def _explained(judge: MixJudge, solved: Solved, ask: Ask, closer: MixPredictor | None) -> ServingPlan:
    columns = sorted(
        solved.columns, key=lambda column: (judge.ways[column.option].kind, -len(column.members), column.members)
    )
    devices: Sequence[PlannedDevice] = seated(judge, columns, closer)
    if len(columns) <= EXPLAINED:
        devices = [with_sensitivity(judge, *pair) for pair in zip(columns, devices, strict=True)]
    why = reasons(judge, columns, devices) if len(columns) <= EXPLAINED else None
    planned = {seat.tenant for unit in judge.units for seat in unit.seats}
    missing = {tenant.name for number, tenant in enumerate(judge.tenants) if number not in planned}
    missing |= {judge.tenants[seat.tenant].name for unit in solved.left_out for seat in judge.units[unit].seats}
    return ServingPlan(
        minimised=ask.minimise,
        devices=tuple(devices),
        left_out=tuple(sorted(missing)),
        cost_per_h=sum(device.price_per_h for device in devices),
        value=cost_of(columns),
        bound=solved.bound,
        proof=solved.proof,
        risk=ask.risk,
        prices=tuple(f"{kind.name}: {kind.price}" for kind in judge.kinds),
        binding=why.binding if why else "",
        cheaper=why.cheaper if why else "",
        rejected=why.rejected if why else (),
        measure=why.measure if why else None,
        refusals=refusals(judge, columns, sorted(missing)),
    )


def _require_consistent(tenants: Sequence[ServingTenant]) -> None:
    problems = contradictions(tenants)
    if problems:
        name, sentence = problems[0]
        raise CotenantError(f"{name} {sentence}", hint="drop one of the two constraints")


def _require_any(
    units: Sequence[Unit], tenants: Sequence[ServingTenant], counts: Sequence[int | None], kinds: Sequence[DeviceKind]
) -> None:
    """Say why no tenant has room for all its replicas."""
    if units:
        return
    there = amount(sum(kind.available for kind in kinds), "device")
    names = tuple(tenant.name for tenant in tenants)
    sentences = [
        f"{tenant.name} needs {amount(count or 1, 'replica')} to serve {tenant.rate_rps:g}/s within its objectives, "
        f"more than fit on {there}"
        for tenant, count in zip(tenants, counts, strict=True)
    ]
    raise Impossible("; ".join(sentences), names)


def _require_possible(
    tenants: Sequence[ServingTenant],
    kinds: Sequence[DeviceKind],
    predictor: MixPredictor,
    counts: Sequence[int | None],
) -> None:
    """Name the first tenant that no device can serve with its best possible result, and all other such tenants."""
    hopeless = [tenant for tenant, count in zip(tenants, counts, strict=True) if count is None]
    if not hopeless:
        return
    floor = floors(tenants, kinds, predictor)
    sentences = [floor[tenants.index(tenant)] for tenant in hopeless]
    raise Impossible("; ".join(sentences), tuple(tenant.name for tenant in hopeless))


# --- convert the solver's columns to devices with tenants


def seated(
    judge: MixJudge, columns: Sequence[PlacedGroup], closer: MixPredictor | None = None
) -> tuple[PlannedDevice, ...]:
    """The devices of a plan, numbered by kind in column order, with the second predictor's figures if any."""
    used = [0] * len(judge.kinds)
    devices = []
    for column in columns:
        way = judge.ways[column.option]
        laid = judge.lay_out(column.option, np.array([column.members], np.int64))
        if closer is not None:
            laid = replace(laid, predicted=closer(laid.mixes))
        first, last = used[way.kind], used[way.kind] + column.devices - 1
        name = judge.kinds[way.kind].member(first)
        name += f" to {judge.kinds[way.kind].member(last)}" if last > first else ""
        devices.append(_device(judge, column, laid, name))
        used[way.kind] += column.devices
    return tuple(devices)


def _device(judge: MixJudge, column: PlacedGroup, laid: Laid, name: str) -> PlannedDevice:
    way = judge.ways[column.option]
    kind = judge.kinds[way.kind]
    seats = [seat for unit in column.members for seat in judge.units[unit].seats]
    tenants = []
    for index, seat in enumerate(seats):
        assert laid.mixes.tenants[0, index] == seat.tenant
        tenants.append(_tenant(judge, laid, index, seat))
    alone = len(tenants) == 1 and way.sharing != "mig"
    return PlannedDevice(
        name=name,
        kind=kind.name,
        title=kind.title,
        sharing="alone" if alone else way.mode,
        tenants=tuple(tenants),
        devices=column.devices,
        price_per_h=kind.price_per_h * column.devices,
        memory_bytes=kind.memory_bytes,
        busy=float(laid.predicted.busy[0]),
        bandwidth=float(laid.predicted.bandwidth[0]),
        power_w=float(laid.predicted.power_w[0]) * column.devices,
        basis=laid.predicted.basis[0],
        clock_mhz=way.clock_mhz,
        power_limit_w=next((clock.full_w for clock in kind.clocks if clock.mhz == way.clock_mhz), None),
    )


def _tenant(judge: MixJudge, laid: Laid, index: int, seat: UnitSeat) -> SeatedTenant:
    tenant, predicted = judge.tenants[seat.tenant], laid.predicted
    share: float | str | None = None
    held = float(laid.mixes.share[0, index])
    if laid.mixes.sharing == "mig":
        mig = next(kind.mig for kind in judge.kinds if kind.name == laid.mixes.device)
        assert mig is not None
        share = mig.profiles[int(held)].name if np.isfinite(held) else None
    elif np.isfinite(held):
        share = held
    return SeatedTenant(
        tenant=tenant.name,
        replica=seat.replica,
        replicas=seat.of,
        rate_rps=seat.rate_rps,
        at_once=int(laid.mixes.batch[0, index]),
        together=None if predicted.together is None else int(predicted.together[0, index]),
        doubt="" if predicted.doubts is None else predicted.doubts[0][index],
        software=tenant.software_on(laid.mixes.device),
        share=share,
        priority=tenant.priority,
        cv=tenant.cv,
        isolated=tenant.isolation != "any",
        memory_bytes=int(predicted.memory_bytes[0, index]),
        slowdown=(
            float(predicted.slowdown.lower[0, index]),
            float(predicted.slowdown.estimate[0, index]),
            float(predicted.slowdown.upper[0, index]),
        ),
        kept=tuple(
            KeptObjective(
                objective.label,
                objective.limit_ms,
                float(predicted.latency_ms.lower[0, index, number]),
                float(predicted.latency_ms.estimate[0, index, number]),
                float(predicted.latency_ms.upper[0, index, number]),
            )
            for number, objective in enumerate(tenant.objectives)
        ),
    )
