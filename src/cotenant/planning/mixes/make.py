"""Make a plan from tenants, devices and a predictor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.errors import CotenantError
from cotenant.planning.mixes.alone import KnownTenants
from cotenant.planning.mixes.cut import plan_of_instances
from cotenant.planning.mixes.fitting import fitting, joined_devices
from cotenant.planning.mixes.judge import MOST_ON_ONE, PER_DEVICE, Laid, Minimise, MixJudge
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.predictor import MixPredictor
from cotenant.planning.mixes.replicas import floors, replicas_of, too_few
from cotenant.planning.mixes.second_opinion import ALWAYS, SecondOpinion, confirmed_plan, outcome_of, with_headroom
from cotenant.planning.mixes.serving_plan import KeptObjective, Measurement, PlannedDevice, SeatedTenant, ServingPlan
from cotenant.planning.mixes.tenants import ServingTenant, Unit, UnitSeat, contradictions, units_of
from cotenant.planning.mixes.why import reasons, refusals, with_sensitivity
from cotenant.planning.solver.generation import INTERRUPTED, UNKNOWN, Clock, FirstPlan, Solved, start
from cotenant.planning.solver.problem import PlacedGroup, Problem, cost_of
from cotenant.planning.solver.solve import bound_by_number, solve
from cotenant.tenancy.ways import SCHEDULED
from cotenant.text import amount

TRIES = 10
"""Where not all tenants fit, the part of the time for each try at some of them."""
SEARCHED, CONFIRMED, JOINED, ROOMY = 0.5, 0.7, 0.8, 0.9
"""Parts of the time after which the search, its second opinion, the joining of devices and the choice of ways with more
headroom end. The rest is for the explanation."""
TRIED = 0.6
"""And the tries at some of the tenants, where not all fit."""
ONE_DEVICE = "a single device of the cheapest kind"


class Impossible(CotenantError):
    """Tenants that no available device can serve within their objectives, however it is shared."""

    def __init__(self, message: str, tenants: tuple[str, ...], measure: Measurement | None = None) -> None:
        super().__init__(message, hint="relax the objective, shrink the model or the batch, or add a device")
        self.tenants = tenants
        self.measure = measure
        """What may show that the first of them can be served."""


class _Interrupted(KeyboardInterrupt):
    """The solver was interrupted, and returned the best plan so far."""

    def __init__(self, judge: MixJudge, solved: Solved) -> None:
        super().__init__()
        self.judge, self.solved = judge, solved


@dataclass(frozen=True, slots=True)
class Ask:
    """How to plan."""

    minimise: Minimise = "cost"
    seconds: float = 30.0
    risk: float = 0.1
    """How often an objective may be missed: the level of the predictor's upper ends."""
    most: int = MOST_ON_ONE
    """Maximum tenants per device."""
    explained: bool = True
    """If False, only who is served matters: no time goes into headroom, reasons and rates that it holds to."""
    complete: bool = False
    """Only a plan for all tenants is of use: none is looked for that leaves some out."""


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
    begun = clock()
    opinion = None if closer is None else SecondOpinion(predictor, closer, tenants)
    predictor = opinion or predictor
    _require_consistent(tenants)
    counts = replicas_of(tenants, kinds, predictor)
    _require_possible(tenants, kinds, predictor, counts)
    units = everyone = units_of(tenants, [count or 1 for count in counts])
    refused: set[tuple[int, frozenset[int]]] = set()
    known = KnownTenants()

    def until(part: float) -> Callable[[], bool]:
        return lambda: clock() < begun + part * asked.seconds

    def problem_of(units: tuple[Unit, ...], part: float, *, simple: bool = False) -> tuple[MixJudge, Problem]:
        judge = MixJudge(
            tenants, kinds, units, predictor, minimise=asked.minimise, refused=frozenset(refused), known=known,
            simple=simple, more=until(part),
        )  # fmt: skip
        available = tuple(kind.available for kind in kinds)
        return judge, Problem(len(units), judge.options(), available, judge, asked.most, _wide(judge))

    def planned(
        units: tuple[Unit, ...], part: float, was: Solved | None = None, most: float = np.inf
    ) -> tuple[MixJudge, Solved]:
        judge, problem = problem_of(units, part)
        first = None if was is None else FirstPlan(was.columns, was.left_out)
        seconds = min(max(begun + part * asked.seconds - clock(), least), most)
        solution = solve(problem, clock=clock, seconds=seconds, begun=first)
        return judge, _honest(judge, problem, solution)

    judge, problem = problem_of(units, SEARCHED, simple=True)
    solved = _first_plan(judge, problem, until(SEARCHED / 2))
    more, least = until(1.0), asked.seconds / TRIES
    try:
        progress(f"a first plan: {outcome_of(judge, solved)}")
        if solved.proof != ONE_DEVICE:
            judge, solved = planned(units, SEARCHED, solved)
        solved = _admitted(judge, solved, opinion, until(SEARCHED))
        if solved.left_out and asked.complete:
            names = sorted({tenants[seat.tenant].name for unit in solved.left_out for seat in units[unit].seats})
            raise Impossible(f"no room for {', '.join(names)}", tuple(names))
        if solved.left_out:
            trying, small = until(TRIED), len(units) <= MOST_ON_ONE
            units = fitting(
                units, solved, lambda some: planned(some, TRIED, most=least)[1] if small or trying() else None
            )
            _require_any(units, tenants, counts, kinds, predictor)
            judge, solved = planned(units, TRIED)
        judge, solved = confirmed_plan(
            judge, solved, closer, refused, more=until(CONFIRMED), ask_more=until(JOINED), progress=progress,
            plan_again=lambda was: planned(units, (CONFIRMED + SEARCHED) / 2, was),
        )  # fmt: skip
        if asked.minimise in PER_DEVICE:
            complete = len(units) == len(everyone)
            judge, solved = _cheaper(judge, solved, opinion, more=until(JOINED), complete=complete)
        rest = until(ROOMY if asked.explained else 0.0)
        solved = replace(solved, columns=tuple(with_headroom(judge, each, closer, rest) for each in solved.columns))
        more = until(_explaining(asked, complete=len(units) == len(everyone) and not solved.left_out))
    except KeyboardInterrupt as stop:
        if isinstance(stop, _Interrupted) and len(stop.judge.units) == len(judge.units):
            judge, solved = stop.judge, stop.solved
        solved, more = replace(solved, bound=0.0, proof=INTERRUPTED), lambda: False
    return _explained(judge, solved, asked, closer, more, replicas=[count or 1 for count in counts])


def _admitted(judge: MixJudge, solved: Solved, opinion: SecondOpinion | None, more: Callable[[], bool]) -> Solved:
    """Units that the fast predictor leaves out only because its range is wide get a place."""
    return joined_devices(judge, solved, opinion, more) if solved.left_out and opinion is not None else solved


def _honest(judge: MixJudge, problem: Problem, solved: Solved) -> Solved:
    """Without a proof that a lack of time made worthless. Raises if the solver was interrupted."""
    if solved.proof == INTERRUPTED:
        raise _Interrupted(judge, solved)
    if not judge.hurried:
        return solved
    return replace(solved, bound=min(solved.bound, bound_by_number(problem)), proof=UNKNOWN)


def _explaining(ask: Ask, *, complete: bool) -> float:
    """The part of the time after which explanations end: where tenants are left out, changes for them take the rest."""
    return (1.0 if complete else JOINED) if ask.explained else 0.0


def _first_plan(judge: MixJudge, problem: Problem, more: Callable[[], bool]) -> Solved:
    """Best-fit decreasing; with proof if it needs just one of the cheapest devices."""
    first = start(problem, more)
    cost = cost_of(first.columns)
    cheapest = min(option.floor for option in problem.options)
    if judge.minimise in PER_DEVICE and not first.left_out and cost <= cheapest:
        return Solved(first.columns, (), cost, cost, ONE_DEVICE)
    return Solved(first.columns, first.left_out, cost, 0.0, UNKNOWN)


def _cheaper(
    judge: MixJudge, solved: Solved, opinion: SecondOpinion | None, *, more: Callable[[], bool], complete: bool
) -> tuple[MixJudge, Solved]:
    """Try what the solver doesn't: devices that a second opinion joins, and MIG instances for replicas."""
    if opinion is not None:
        solved = joined_devices(judge, solved, opinion, more)
    if complete and not solved.left_out and solved.cost <= solved.bound * (1 + 1e-9):
        return judge, solved
    below = solved.cost if complete and not solved.left_out else np.inf
    rough = judge.predictor if opinion is None else opinion.rough
    cut = plan_of_instances(judge.tenants, judge.kinds, rough, minimise=judge.minimise, below=below, more=more)
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


def _explained(
    judge: MixJudge,
    solved: Solved,
    ask: Ask,
    closer: MixPredictor | None,
    more: Callable[[], bool],
    *,
    replicas: Sequence[int],
) -> ServingPlan:
    columns = sorted(
        solved.columns, key=lambda column: (judge.ways[column.option].kind, -len(column.members), column.members)
    )
    devices = [
        with_sensitivity(judge, *pair, more) for pair in zip(columns, seated(judge, columns, closer, more), strict=True)
    ]
    why = reasons(judge, columns, devices, more)
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
        binding=why.binding,
        cheaper=why.cheaper,
        rejected=why.rejected,
        measure=why.measure,
        refusals=refusals(judge, columns, sorted(missing), replicas),
    )


def _require_consistent(tenants: Sequence[ServingTenant]) -> None:
    problems = contradictions(tenants)
    if problems:
        name, sentence = problems[0]
        raise CotenantError(f"{name} {sentence}", hint="drop one of the two constraints")


def _require_any(
    units: Sequence[Unit],
    tenants: Sequence[ServingTenant],
    counts: Sequence[int | None],
    kinds: Sequence[DeviceKind],
    predictor: MixPredictor,
) -> None:
    """Say why no tenant has room for all its replicas."""
    if units:
        return
    there = amount(sum(kind.available for kind in kinds), "device")
    names = tuple(tenant.name for tenant in tenants)
    sentences = []
    for number, (tenant, count) in enumerate(zip(tenants, counts, strict=True)):
        needs = f"{amount(count or 1, 'replica')} to serve {tenant.rate_rps:g}/s within its objectives"
        broken, _ = too_few(tenants, kinds, predictor, number, 1)
        with_one = f" (with one: {broken})" if broken else ""
        sentences.append(f"{tenant.name} needs {needs}, more than fit on {there}{with_one}")
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
    found = [floor[tenants.index(tenant)] for tenant in hopeless]
    sentences, measures = [sentence for sentence, _ in found], [measure for _, measure in found]
    # One that can't be served whatever a measurement says leaves the plan impossible.
    measure = measures[0] if None not in measures else None
    raise Impossible("; ".join(sentences), tuple(tenant.name for tenant in hopeless), measure)


# --- convert the solver's columns to devices with tenants


def seated(
    judge: MixJudge,
    columns: Sequence[PlacedGroup],
    closer: MixPredictor | None = None,
    more: Callable[[], bool] = lambda: True,
) -> tuple[PlannedDevice, ...]:
    """The devices of a plan, numbered by kind in column order, with the second predictor's figures if there is time."""
    used = [0] * len(judge.kinds)
    devices = []
    for number, column in enumerate(columns):
        way = judge.ways[column.option]
        laid = judge.lay_out(column.option, np.array([column.members], np.int64))
        # Mixes that it wasn't asked about in time keep the figures that they were chosen by.
        alone = len(column.members) == 1 and (number < ALWAYS or more())
        if closer is not None and (alone or (column.option, column.members) in judge.confirmed):
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
        bandwidth=min(1.0, float(laid.predicted.bandwidth[0])),
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
    elif laid.mixes.sharing == SCHEDULED:
        share = tenant.share  # of the time
    slowdown = predicted.slowdown.at(0, index)
    job = tenant.job
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
        slowdown=slowdown,
        ends_s=None if job is None else slowdown.scaled(job.seconds),
        due_s=None if job is None else job.seconds * job.stretch,
        kept=tuple(
            KeptObjective(objective.label, objective.limit_ms, predicted.latency_ms.at(0, index, number))
            for number, objective in enumerate(tenant.objectives)
        ),
    )
