"""Judge groups of tenants for the solver, on every way to use every kind of device.

A group fits if the upper end of the prediction meets every objective, it fits into memory, and constraints hold.
Batches are chosen along the way: every tenant starts with the batch that uses the least of the device and steps towards
faster ones while its objective is missed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotenant.planning.mixes.alone import TOO_MUCH, KnownTenants, LoneTenants
from cotenant.planning.mixes.kinds import CAPPED, OWN_PROCESS, DeviceKind, Way, ways_of
from cotenant.planning.mixes.predictor import Mixes, MixPredictor, PredictedMix
from cotenant.planning.mixes.tenants import ServingTenant, Unit
from cotenant.planning.solver.problem import NOBODY, Bools, Floats, Ints, JudgedGroups, WayToUse
from cotenant.tenancy.ways import SCHEDULED

Minimise = Literal["cost", "devices", "energy", "latency"]
PER_DEVICE = ("cost", "devices")
"""Quantities that a device adds to whatever runs on it."""
MOST_ON_ONE = 16
"""Units that a plan puts on one device, unless it is asked for another number."""


@dataclass(frozen=True, slots=True)
class Laid:
    """Groups of units laid out on a device, with their predictions, row by row."""

    mixes: Mixes
    predicted: PredictedMix
    fits: Bools
    allowed: Bools
    """Constraints hold, and all have their share of the device and of its memory."""


class MixJudge:
    """Judges groups of units, with a cache."""

    def __init__(
        self,
        tenants: Sequence[ServingTenant],
        kinds: Sequence[DeviceKind],
        units: Sequence[Unit],
        predictor: MixPredictor,
        *,
        minimise: Minimise = "cost",
        refused: frozenset[tuple[int, frozenset[int]]] = frozenset(),
        known: KnownTenants | None = None,
        simple: bool = False,
        more: Callable[[], bool] = lambda: True,
    ) -> None:
        """A judge.

        Args:
            tenants: All of them.
            kinds: Available devices.
            units: What is placed.
            predictor: Predicts mixes.
            minimise: What a plan costs.
            refused: Groups that may not be used, by option.
            known: What other judges of the same tenants and kinds found out.
            simple: Leave out ways that divide a device.
            more: Whether there is time to describe further parts of devices; parts that weren't are not used.
        """
        self.tenants, self.kinds, self.units, self.predictor = tenants, kinds, units, predictor
        self.minimise, self.refused, self.simple, self.more = minimise, refused, simple, more
        self.known = known or KnownTenants()
        self._alone = LoneTenants(tenants, kinds, units, predictor, known=self.known, more=more)
        self._requirements = self._alone.requirements
        self.ways = ways_of(kinds)
        self.seats = max(len(unit.seats) for unit in units)
        self._apart = _apart(tenants)
        self.confirmed: set[tuple[int, tuple[int, ...]]] = set()
        """Groups that a second predictor accepts, by option."""
        self._known: dict[tuple[int, bytes], tuple[bool, float, float]] = {}

    @property
    def hurried(self) -> bool:
        """Some parts of devices were not described for lack of time, so that a better plan may have been overlooked."""
        return self._alone.hurried

    def options(self) -> tuple[WayToUse, ...]:
        """For the solver."""
        return tuple(WayToUse(way.kind, self.least(self.kinds[way.kind])) for way in self.ways)

    def least(self, kind: DeviceKind) -> float:
        """Lower bound on the cost of a device, in units of the objective."""
        return {"cost": kind.price_per_h, "devices": 1.0, "energy": kind.idle_w, "latency": 0.0}[self.minimise]

    def __call__(self, option: int, groups: Ints) -> JudgedGroups:
        """The solver's interface."""
        if self.simple and self.ways[option].divides:
            none = np.zeros(len(groups), dtype=bool)
            return JudgedGroups(none, np.full(len(groups), TOO_MUCH), np.full(len(groups), np.inf))
        # In ascending order, as plans have them, with empty seats last: close to saturation the order of seats matters.
        groups = np.sort(np.where(groups == NOBODY, len(self.units), groups), axis=1)
        groups[groups == len(self.units)] = NOBODY
        keys = [(option, row.tobytes()) for row in groups]
        fresh = {key: row for row, key in enumerate(keys) if key not in self._known}
        if fresh:
            rows = list(fresh.values())
            laid = self.lay_out(option, groups[rows])
            cost = self.cost(option, laid)
            # What spans several devices has columns of its own.
            single = ~np.isin(laid.mixes.tenants, self._wide(self.ways[option])).any(axis=1)
            for key, fits, busy, price in zip(fresh, laid.fits & single, laid.predicted.busy, cost, strict=True):
                self._known[key] = bool(fits), float(busy), float(price)
        answers = np.array([self._known[key] for key in keys]).reshape(len(keys), 3)
        return JudgedGroups(answers[:, 0] > 0, answers[:, 1], answers[:, 2])

    def lay_out(self, option: int, groups: Ints) -> Laid:
        """Choose batches and shares, and predict."""
        way = self.ways[option]
        tenants, rates = self._seated(groups)
        allowed = self._allowed(way, tenants, groups, option)
        if way.sharing == "mig":
            return self._cut(way, tenants, rates, allowed)
        share, room = self._shares(way, tenants)
        ladder = self._alone.at_once(way)
        step = np.zeros(tenants.shape, np.int64)
        last = (ladder > 0).sum(axis=1) - 1
        for _ in range(ladder.shape[1]):
            batch = np.maximum(ladder[tenants, step], 1)
            mixes = Mixes(self.kinds[way.kind].name, way.mode, tenants, rates, batch, share, way.clock_mhz)
            predicted = self.predictor(mixes)
            late = self._requirements.late(tenants, predicted)
            climb = late & (step < last[tenants])
            if not climb.any():
                break
            step = np.where(climb, step + 1, step)
        allowed &= room & (predicted.memory_bytes.sum(axis=1) <= self.kinds[way.kind].memory_bytes)
        return Laid(mixes, predicted, allowed & ~late.any(axis=1) & (predicted.busy <= 1), allowed)

    def strains(self, mixes: Mixes, predicted: PredictedMix) -> Floats:
        """By seat of the only mix: the largest ratio of a latency to its limit, at the upper end."""
        return np.asarray(self._requirements.strains(mixes.tenants, predicted)[0])

    def strain(self, laid: Laid) -> float:
        """The largest of them for a group."""
        return float(self.strains(laid.mixes, laid.predicted).max())

    def keeps(self, option: int, mixes: Mixes, predictor: MixPredictor | None = None) -> Bools:
        """Mixes that meet every objective and fit into memory, by this or another predictor."""
        predicted = (predictor or self.predictor)(mixes)
        return self._requirements.kept(mixes, predicted, self.kinds[self.ways[option].kind])

    def confirms(self, option: int, members: Sequence[int], closer: MixPredictor) -> bool:
        """Whether a second predictor accepts a group too."""
        mixes = self.lay_out(option, np.array([members], np.int64)).mixes
        kept = bool(self.keeps(option, mixes, closer)[0])
        if kept:
            self.confirmed.add((option, tuple(members)))
        return kept

    def _seated(self, groups: Ints) -> tuple[Ints, Floats]:
        """Units to seats."""
        width = groups.shape[1] * self.seats
        table = np.full((len(self.units) + 1, self.seats), NOBODY, np.int64)
        rate = np.zeros((len(self.units) + 1, self.seats))
        for number, unit in enumerate(self.units):
            for column, seat in enumerate(unit.seats):
                table[number, column], rate[number, column] = seat.tenant, seat.rate_rps
        tenants = table[groups].reshape(len(groups), width)
        rates = rate[groups].reshape(len(groups), width)
        if self.seats > 1:
            order = np.argsort(tenants == NOBODY, axis=1, kind="stable")
            tenants, rates = np.take_along_axis(tenants, order, axis=1), np.take_along_axis(rates, order, axis=1)
        used = max(int((tenants != NOBODY).sum(axis=1).max(initial=1)), 1)
        return tenants[:, :used], rates[:, :used]

    def _allowed(self, way: Way, tenants: Ints, groups: Ints, option: int) -> Bools:
        """Constraints: isolation, `apart`, and groups already refused."""
        fine = np.ones(len(tenants), dtype=bool)
        strict = [
            number
            for number, tenant in enumerate(self.tenants)
            if (tenant.isolation == "mig" and way.sharing != "mig")
            or (tenant.isolation == "process" and way.sharing not in {*OWN_PROCESS, CAPPED})
            or (way.sharing == SCHEDULED and not tenant.can_take_turns(self.kinds[way.kind].name))
            or tenant.devices_on(self.kinds[way.kind].name) > self.kinds[way.kind].available
        ]
        if strict:
            fine &= ~np.isin(tenants, strict).any(axis=1)
        if way.sharing not in {CAPPED, SCHEDULED}:  # nothing else guarantees a part of a device
            shared = [number for number, tenant in enumerate(self.tenants)
                      if tenant.share is not None and tenant.isolation != "mig"]  # fmt: skip
            fine &= ~np.isin(tenants, shared).any(axis=1) | ((tenants != NOBODY).sum(axis=1) == 1)
        if wide := self._wide(way):
            spread = np.isin(tenants, wide).any(axis=1)
            fine &= ~spread | ((tenants != NOBODY).sum(axis=1) == 1) & (way.sharing not in {"mig", CAPPED})
        if self._apart.any():
            there = np.zeros((len(tenants), len(self.tenants) + 1), dtype=bool)
            there[np.arange(len(tenants))[:, None], tenants] = True
            there = there[:, :-1]
            fine &= ~((there @ self._apart) & there).any(axis=1)
        for number, tenant in enumerate(self.tenants):
            if tenant.name in tenant.apart:  # its replicas go on separate devices
                fine &= (tenants == number).sum(axis=1) <= 1
        if self.refused:
            for row, group in enumerate(groups):
                members = frozenset(int(unit) for unit in group if unit != NOBODY)
                fine[row] &= not any(where == option and bad <= members for where, bad in self.refused)
        return fine

    def _wide(self, way: Way) -> list[int]:
        """Tenants that span several devices of this kind."""
        kind = self.kinds[way.kind].name
        return [number for number, tenant in enumerate(self.tenants) if tenant.devices_on(kind) > 1]

    def _shares(self, way: Way, tenants: Ints) -> tuple[Floats, Bools]:
        """Each seat's share, and whether all fit."""
        room = np.ones(len(tenants), dtype=bool)
        share = np.full(tenants.shape, np.nan)
        if way.sharing != CAPPED:
            return share, room
        needs = np.append(self._alone.shares(way), 0.0)[tenants]
        needs[tenants == NOBODY] = 0.0
        total = needs.sum(axis=1)
        room = total <= 100
        grown = np.floor(needs * (100 / np.maximum(total, 1e-9))[:, None])
        share = np.where((tenants != NOBODY) & room[:, None], np.clip(grown, 1.0, 100.0), np.nan)
        return share, room

    def _cut(self, way: Way, tenants: Ints, rates: Floats, allowed: Bools) -> Laid:
        """MIG: give every tenant the smallest sufficient instance."""
        kind = self.kinds[way.kind]
        assert kind.mig is not None
        pairs, index = np.unique(np.stack([tenants, rates], axis=-1).reshape(-1, 2), axis=0, return_inverse=True)
        cuts = np.array([self._alone.instance(way, int(tenant), float(rate)) for tenant, rate in pairs])
        profile = cuts[index, 0].reshape(tenants.shape)
        batch = cuts[index, 1].reshape(tenants.shape).astype(np.int64)
        mixes = Mixes(kind.name, "mig", tenants, rates, batch, profile, way.clock_mhz)
        predicted = self.predictor(mixes)
        has = ~np.isnan(profile) | (tenants == NOBODY)
        counts = np.stack([(profile == number).sum(axis=1) for number in range(len(kind.mig.profiles))], axis=1)
        held = {tuple(row): kind.mig.holds(tuple(row)) for row in np.unique(counts, axis=0).tolist()}
        stands = np.array([held[tuple(row)] for row in counts.tolist()], dtype=bool)
        allowed &= has.all(axis=1) & stands
        return Laid(mixes, predicted, allowed & ~self._requirements.late(tenants, predicted).any(axis=1), allowed)

    def cost(self, option: int, laid: Laid) -> Floats:
        """By group, of a device in units of the objective."""
        kind = self.kinds[self.ways[option].kind]
        if self.minimise in PER_DEVICE:
            return np.full(len(laid.fits), self.least(kind))
        if self.minimise == "energy":
            return laid.predicted.power_w
        strain = self._requirements.ratios(laid.mixes.tenants, laid.predicted.latency_ms.estimate)
        strain = np.where(laid.mixes.there[..., None] & np.isfinite(strain), strain, 0.0)
        return np.asarray(strain.max(axis=2).sum(axis=1) + 1e-3)


def _apart(tenants: Sequence[ServingTenant]) -> Bools:
    number = {tenant.name: index for index, tenant in enumerate(tenants)}
    apart = np.zeros((len(tenants), len(tenants)), dtype=bool)
    for index, tenant in enumerate(tenants):
        for name in (tenant.apart & number.keys()) - {tenant.name}:
            apart[index, number[name]] = apart[number[name], index] = True
    return apart
