"""Ask the slower predictor where the faster can't decide: its estimate keeps every limit, its upper end doesn't.

The fast predictor's range includes its difference from the slower predictor. Tenants alone on a whole device always get
a second opinion; groups get one where a plan depends on it.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from cotenant.planning.mixes.judge import PER_DEVICE, MixJudge
from cotenant.planning.mixes.predictor import Mixes, MixPredictor, PredictedMix, Range, limits_of
from cotenant.planning.mixes.tenants import ServingTenant, Unit
from cotenant.planning.solver.generation import Solved
from cotenant.planning.solver.problem import Bools, PlacedGroup, cost_of
from cotenant.text import amount

MOST_ROUNDS = 12
"""Plans that the second predictor may refuse before the best of those that it would accept is taken."""
ENOUGH = 0.3
"""Headroom, as a fraction of the limit, above which a simpler way to share is preferred."""
CLEARLY = 0.05
"""Headroom that is worth a less simple way to share."""
ALWAYS = 2
"""Mixes that the second predictor is asked about even if time is up, so that small plans are the same everywhere."""


class SecondOpinion:
    """A predictor that asks another about rows it leaves open."""

    def __init__(
        self,
        rough: MixPredictor,
        closer: MixPredictor,
        tenants: Sequence[ServingTenant],
    ) -> None:
        self.rough, self.closer = rough, closer
        self.limits = limits_of(tenants)
        self.also: set[tuple[int, ...]] = set()
        """Groups of tenants, sorted, that get a second opinion as well."""

    def about(self, units: Iterable[Unit]) -> "SecondOpinion":
        """The same, which asks about these units beside each other as well."""
        asking = copy(self)
        asking.also = {seats_of(units)}
        return asking

    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """What would happen."""
        predicted = self.rough(mixes)
        rows = np.flatnonzero(self.undecided(mixes, predicted) & self._asked(mixes))
        if not rows.size:
            return predicted
        second = self.closer(mixes.rows(rows))
        basis = list(predicted.basis)
        for row, source in zip(rows, second.basis, strict=True):
            basis[row] = source
        return replace(
            predicted,
            latency_ms=_replaced(predicted.latency_ms, second.latency_ms, rows),
            slowdown=_replaced(predicted.slowdown, second.slowdown, rows),
            basis=tuple(basis),
        )

    def undecided(self, mixes: Mixes, predicted: PredictedMix) -> Bools:
        """Mixes whose estimates keep every limit while an upper end doesn't."""
        limits = self.limits[mixes.tenants][..., : predicted.latency_ms.upper.shape[2]]
        there = mixes.there[..., None]
        possible = ~((predicted.latency_ms.estimate > limits) & there).any(axis=(1, 2))
        return np.asarray(possible & ((predicted.latency_ms.upper > limits) & there).any(axis=(1, 2)))

    def _asked(self, mixes: Mixes) -> Bools:
        alone = (mixes.there.sum(axis=1) == 1) & ~np.isfinite(mixes.share).any(axis=1)
        if not self.also:
            return np.asarray(alone)
        named = [tuple(sorted(int(tenant) for tenant in row if tenant >= 0)) in self.also for row in mixes.tenants]
        return np.asarray(alone | np.array(named, dtype=bool))


def seats_of(units: Iterable[Unit]) -> tuple[int, ...]:
    """The tenants of a group, as a second opinion knows it."""
    return tuple(sorted(seat.tenant for unit in units for seat in unit.seats))


def _replaced(before: Range, after: Range, rows: np.ndarray) -> Range:
    ends = []
    for name in ("lower", "estimate", "upper"):
        values = getattr(before, name).copy()
        values[rows] = getattr(after, name)
        ends.append(values)
    return Range(*ends)


# --- plans whose mixes it accepts


def confirmed_plan(
    judge: MixJudge,
    solved: Solved,
    closer: MixPredictor | None,
    refused: set[tuple[int, frozenset[int]]],
    *,
    more: Callable[[], bool],
    ask_more: Callable[[], bool],
    plan_again: Callable[[Solved], tuple[MixJudge, Solved]],
    progress: Callable[[str], None],
) -> tuple[MixJudge, Solved]:
    """The best plan whose mixes the second predictor accepts, as far as there is time to ask it."""
    best: tuple[MixJudge, Solved] | None = None if closer else (judge, _roomy(judge, solved))
    for _ in range(MOST_ROUNDS if closer else 0):
        assert closer is not None
        solved = _roomy(judge, solved)
        bad = _refused(judge, solved.columns, closer, ask_more)
        accepted = _taken_apart(judge, solved, bad, closer, more) if bad else solved
        value = len(accepted.left_out), accepted.cost
        if best is None or value < (len(best[1].left_out), best[1].cost):
            best = judge, accepted
        refused |= bad
        if not bad or not more():
            break
        mixes = amount(len(solved.columns), "mix", "mixes")
        so_far = f"so far {outcome_of(*best)}"
        progress(f"the second predictor refuses {len(bad)} of {mixes}; {so_far}; planning again")
        judge, solved = plan_again(best[1])
    assert best is not None
    best[0].refused = frozenset(refused)
    return best


def _refused(
    judge: MixJudge, columns: Sequence[PlacedGroup], closer: MixPredictor, more: Callable[[], bool]
) -> set[tuple[int, frozenset[int]]]:
    bad = set()
    for number, column in enumerate(columns):
        if number >= ALWAYS and not more():
            break
        if len(column.members) > 1 and not judge.confirms(column.option, column.members, closer):
            bad.add((column.option, frozenset(column.members)))
    return bad


def _taken_apart(
    judge: MixJudge,
    solved: Solved,
    bad: set[tuple[int, frozenset[int]]],
    closer: MixPredictor,
    more: Callable[[], bool],
) -> Solved:
    """The plan without refused mixes: their most strained units go on further devices, or are left out."""
    columns = [column for column in solved.columns if (column.option, frozenset(column.members)) not in bad]
    left = [kind.available for kind in judge.kinds]
    for column in columns:
        left[judge.ways[column.option].kind] -= column.devices
    missing = list(solved.left_out)
    for column in solved.columns:
        if column in columns:
            continue
        for members in _accepted(judge, column.option, list(column.members), closer, more):
            if left[judge.ways[column.option].kind] < 1:
                missing += members
                continue
            left[judge.ways[column.option].kind] -= 1
            group = np.array([members], np.int64)
            cost = float(judge.cost(column.option, judge.lay_out(column.option, group))[0])
            columns.append(PlacedGroup(column.option, tuple(members), cost))
    cost = cost_of(columns)
    return replace(
        solved, columns=tuple(columns), left_out=tuple(missing), cost=cost, bound=0.0 if missing else solved.bound
    )


def _accepted(
    judge: MixJudge, option: int, members: list[int], closer: MixPredictor, more: Callable[[], bool]
) -> list[list[int]]:
    """A group in parts that the second predictor accepts: the most strained unit leaves, until the rest is accepted.

    Once time is up, the more strained half leaves, which takes fewer questions.
    """
    apart: list[int] = []
    while len(members) > 1 and not judge.confirms(option, members, closer):
        laid = judge.lay_out(option, np.array([members], np.int64))
        strains = judge.strains(laid.mixes, closer(laid.mixes))
        seats = np.cumsum([0, *(len(judge.units[unit].seats) for unit in members)])
        strain = {unit: strains[seats[number] : seats[number + 1]].max() for number, unit in enumerate(members)}
        order = sorted(members, key=lambda unit: strain[unit])
        leaving = order[-1:] if more() else order[len(order) // 2 :]
        apart += leaving
        members = [unit for unit in members if unit not in leaving]
    return [members, *(_accepted(judge, option, sorted(apart), closer, more) if apart else [])]


def _roomy(judge: MixJudge, solved: Solved) -> Solved:
    return replace(solved, columns=tuple(_roomiest(judge, column) for column in solved.columns))


def _roomiest(judge: MixJudge, column: PlacedGroup) -> PlacedGroup:
    """The same group under the simplest way to share that leaves `ENOUGH` of every limit, else the most."""
    if column.devices > 1 or judge.minimise not in PER_DEVICE:
        return column
    kind = judge.ways[column.option].kind
    best = (-np.inf, column.option)
    for option, way in enumerate(judge.ways):
        if way.kind == kind and best[0] < ENOUGH:
            laid = judge.lay_out(option, np.array([column.members], np.int64))
            if bool(laid.fits[0]):
                left = min(round(1 - judge.strain(laid), 1), ENOUGH)
                best = max(best, (left, option), key=lambda room: (room[0], -room[1]))
    return PlacedGroup(best[1], column.members, column.cost)


def with_headroom(
    judge: MixJudge, column: PlacedGroup, closer: MixPredictor | None, more: Callable[[], bool]
) -> PlacedGroup:
    """The same group under another way to share if the second predictor leaves it much more of every limit there."""
    if closer is None or column.devices > 1 or len(column.members) == 1 or judge.minimise not in PER_DEVICE:
        return column
    group, kind = np.array([column.members], np.int64), judge.ways[column.option].kind
    ways = [option for option, way in enumerate(judge.ways) if way.kind == kind and option != column.option]
    best = (np.inf, column.option)
    for option in [column.option, *ways]:
        if best[0] <= 1 - ENOUGH or not more():
            break
        laid = judge.lay_out(option, group)
        if option == column.option or (bool(laid.fits[0]) and judge.confirms(option, column.members, closer)):
            strain = float(judge.strains(laid.mixes, closer(laid.mixes)).max())
            best = (strain, option) if strain < best[0] - CLEARLY else best
    return PlacedGroup(best[1], column.members, column.cost)


def outcome_of(judge: MixJudge, solved: Solved) -> str:
    """`5 devices, $8.95/h`."""
    devices = amount(sum(column.devices for column in solved.columns), "device")
    value = {"cost": f", ${solved.cost:.2f}/h", "energy": f", {solved.cost:.0f} W"}.get(judge.minimise, "")
    missing = {seat.tenant for unit in solved.left_out for seat in judge.units[unit].seats}
    without = f", {amount(len(missing), 'tenant')} left out" if missing else ""
    return f"{devices}{value}{without}"
