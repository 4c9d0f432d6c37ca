"""Judge groups of tenants for the solver, on every way to use every kind of device.

A group fits if the upper end of the prediction meets every objective, it fits into memory, and constraints hold.
Batches are chosen along the way: every tenant starts with the batch that uses the least of the device and steps towards
faster ones while its objective is missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotenant.planning.mixes.kinds import OWN_PROCESS, DeviceKind
from cotenant.planning.mixes.predictor import Mixes, MixPredictor, PredictedMix
from cotenant.planning.mixes.second_opinion import limits_of
from cotenant.planning.mixes.tenants import ServingTenant, Unit
from cotenant.planning.solver.problem import NOBODY, Bools, Floats, Ints, JudgedGroups, WayToUse

Minimise = Literal["cost", "devices", "energy", "latency"]
PER_DEVICE = ("cost", "devices")
"""Quantities that a device adds to whatever runs on it."""
CAPPED = "mps with shares"
SHARES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
"""Percentages a tenant may be limited to."""
TOO_MUCH = 1000.0


@dataclass(frozen=True, slots=True)
class Way:
    """A way to use a kind of device."""

    kind: int
    sharing: str
    """The device's name for it; `CAPPED` is `mps` with a share per tenant."""
    clock_mhz: float | None = None
    """Fixed clock; None if unrestricted."""

    @property
    def mode(self) -> str:
        """The name of this sharing in studies."""
        return "mps" if self.sharing == CAPPED else self.sharing


def ways_of(kinds: Sequence[DeviceKind]) -> tuple[Way, ...]:
    """Every way to share every kind at every clock, plus `mps` with shares where `mps` is supported."""
    return tuple(
        Way(number, sharing, clock)
        for number, kind in enumerate(kinds)
        for clock in _clocks(kind)
        for way in kind.ways
        for sharing in ((way, CAPPED) if way == "mps" else (way,))
    )


def _clocks(kind: DeviceKind) -> tuple[float | None, ...]:
    return tuple(clock.mhz for clock in kind.clocks) or (None,)


@dataclass(frozen=True, slots=True)
class Laid:
    """Groups of units laid out on a device, with their predictions, row by row."""

    mixes: Mixes
    predicted: PredictedMix
    fits: Bools


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
    ) -> None:
        self.tenants, self.kinds, self.units, self.predictor = tenants, kinds, units, predictor
        self.minimise, self.refused = minimise, refused
        self.ways = ways_of(kinds)
        self.seats = max(len(unit.seats) for unit in units)
        self._present = np.array(sorted({seat.tenant for unit in units for seat in unit.seats}), np.int64)
        self._limits = limits_of(tenants)
        self._stretch = np.array([tenant.job.stretch if tenant.job else np.inf for tenant in tenants] + [np.inf])
        self._apart = _apart(tenants)
        self._known: dict[tuple[int, bytes], tuple[bool, float, float]] = {}
        self._ladders: dict[tuple[int, float | None], Ints] = {}
        self._needs: dict[tuple[int, float | None], Floats] = {}
        self._cuts: dict[tuple[Way, int, float], tuple[float, int]] = {}

    def options(self) -> tuple[WayToUse, ...]:
        """For the solver."""
        return tuple(WayToUse(way.kind, self.least(self.kinds[way.kind])) for way in self.ways)

    def least(self, kind: DeviceKind) -> float:
        """Lower bound on the cost of a device, in units of the objective."""
        return {"cost": kind.price_per_h, "devices": 1.0, "energy": kind.idle_w, "latency": 0.0}[self.minimise]

    def __call__(self, option: int, groups: Ints) -> JudgedGroups:
        """The solver's interface."""
        groups = np.sort(groups, axis=1)[:, ::-1].copy()  # sort empty seats last
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
        ladder = self._ladder(way)
        step = np.zeros(tenants.shape, np.int64)
        last = (ladder > 0).sum(axis=1) - 1
        for _ in range(ladder.shape[1]):
            batch = np.maximum(ladder[tenants, step], 1)
            mixes = Mixes(self.kinds[way.kind].name, way.mode, tenants, rates, batch, share, way.clock_mhz)
            predicted = self.predictor(mixes)
            late = self._late(tenants, predicted)
            climb = late & (step < last[tenants])
            if not climb.any():
                break
            step = np.where(climb, step + 1, step)
        fits = allowed & room & ~late.any(axis=1) & (predicted.busy <= 1)
        fits &= predicted.memory_bytes.sum(axis=1) <= self.kinds[way.kind].memory_bytes
        return Laid(mixes, predicted, fits)

    def strain(self, laid: Laid) -> float:
        """The largest ratio of a mix's latencies to their limits, at the upper end."""
        upper = laid.predicted.latency_ms.upper[0]
        return float((upper / self._limits[laid.mixes.tenants[0]][:, : upper.shape[1]]).max())

    def keeps(self, option: int, mixes: Mixes, predictor: MixPredictor | None = None) -> Bools:
        """Mixes that meet every objective and fit into memory, by this or another predictor."""
        predicted = (predictor or self.predictor)(mixes)
        kind = self.kinds[self.ways[option].kind]
        fine = ~self._late(mixes.tenants, predicted).any(axis=1)
        if mixes.sharing == "mig":
            assert kind.mig is not None
            room = np.append([profile.memory_bytes for profile in kind.mig.profiles], np.inf)
            number = np.where(np.isnan(mixes.share), -1, mixes.share).astype(np.int64)
            return np.asarray(fine & (predicted.memory_bytes <= room[number]).all(axis=1))
        enough = predicted.memory_bytes.sum(axis=1) <= kind.memory_bytes
        return np.asarray(fine & (predicted.busy <= 1) & enough)

    def keeps_alone(self, option: int, tenant: int, rates: Floats, batches: Ints, share: float) -> Bools:
        """The same for a single tenant at many rates and batches, limited to a share or profile."""
        way = self.ways[option]
        seat = np.full((rates.size, 1), tenant, np.int64)
        held = np.full((rates.size, 1), share)
        name = self.kinds[way.kind].name
        mixes = Mixes(name, way.mode, seat, rates[:, None], batches[:, None], held, way.clock_mhz)
        return self.keeps(option, mixes)

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
            or tenant.devices_on(self.kinds[way.kind].name) > self.kinds[way.kind].available
        ]
        if strict:
            fine &= ~np.isin(tenants, strict).any(axis=1)
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

    def _late(self, tenants: Ints, predicted: PredictedMix) -> Bools:
        """Seats whose objective is missed at the upper end, or whose rate exceeds capacity."""
        over = predicted.latency_ms.upper > self._limits[tenants][..., : predicted.latency_ms.upper.shape[2]]
        slow = predicted.slowdown.upper > self._stretch[tenants]
        return np.asarray((over.any(axis=2) | slow) & (tenants != NOBODY))

    def _shares(self, way: Way, tenants: Ints) -> tuple[Floats, Bools]:
        """Each seat's share, and whether all fit."""
        room = np.ones(len(tenants), dtype=bool)
        share = np.full(tenants.shape, np.nan)
        if way.sharing != CAPPED:
            return share, room
        needs = np.append(self._need(way), 0.0)[tenants]
        needs[tenants == NOBODY] = 0.0
        total = needs.sum(axis=1)
        room = total <= 100
        grown = np.floor(needs * (100 / np.maximum(total, 1e-9))[:, None])
        share = np.where((tenants != NOBODY) & room[:, None], np.clip(grown, 1.0, 100.0), np.nan)
        return share, room

    def _need(self, way: Way) -> Floats:
        """Share in percent at which each tenant alone meets its objectives; above 100 if none of `SHARES` does."""
        key = (way.kind, way.clock_mhz)
        if key not in self._needs:
            needs = np.full(len(self.tenants), TOO_MUCH)
            ladder = self._ladder(way)
            everyone = self._present
            rates = self._unit_rates()[everyone]
            for share in SHARES[::-1]:
                mixes = Mixes(
                    self.kinds[way.kind].name, "mps", everyone[:, None], rates[:, None],
                    np.maximum(ladder[everyone, 0], 1)[:, None], np.full((everyone.size, 1), share), way.clock_mhz,
                )  # fmt: skip
                predicted = self.predictor(mixes)
                fine = ~self._late(everyone[:, None], predicted)[:, 0] & (predicted.busy <= 1)
                needs[everyone] = np.where(fine, share, needs[everyone])
            own = np.array([np.nan if tenant.share is None else tenant.share for tenant in self.tenants])
            self._needs[key] = np.where(np.isnan(own), needs, own)
        return self._needs[key]

    def _unit_rates(self) -> Floats:
        rates = np.zeros(len(self.tenants))
        for unit in self.units:
            for seat in unit.seats:
                rates[seat.tenant] = max(rates[seat.tenant], seat.rate_rps)
        return rates

    def _ladder(self, way: Way) -> Ints:
        """Batches worth trying by tenant: least use of the device first, then faster batches."""
        key = (way.kind, way.clock_mhz)
        if key in self._ladders:
            return self._ladders[key]
        kind = way.kind
        everyone = self._present
        batches = [self.tenants[number].batches for number in everyone]
        width = max(map(len, batches))
        ladder = np.zeros((len(self.tenants) + 1, width), np.int64)
        rates = self._unit_rates()[everyone]
        busy = np.full((everyone.size, width), np.inf)
        late = np.full((everyone.size, width), np.inf)
        for step in range(width):
            batch = np.array([(*own, *[own[-1]] * width)[step] for own in batches])
            mixes = Mixes(
                self.kinds[kind].name, self.kinds[kind].ways[0], everyone[:, None], rates[:, None],
                batch[:, None], np.full((everyone.size, 1), np.nan), way.clock_mhz,
            )  # fmt: skip
            predicted = self.predictor(mixes)
            busy[:, step] = predicted.busy
            late[:, step] = _strain(predicted, self._limits[everyone])
        for row, (number, own) in enumerate(zip(everyone, batches, strict=True)):
            steps: list[int] = []
            best = np.inf
            for step in np.argsort(busy[row, : len(own)], kind="stable"):
                if late[row, step] < best or not steps:
                    steps.append(own[step])
                    best = late[row, step]
            ladder[number, : len(steps)] = steps
        self._ladders[key] = ladder
        return ladder

    def _cut(self, way: Way, tenants: Ints, rates: Floats, allowed: Bools) -> Laid:
        """MIG: give every tenant the smallest sufficient instance."""
        kind = self.kinds[way.kind]
        assert kind.mig is not None
        pairs, index = np.unique(np.stack([tenants, rates], axis=-1).reshape(-1, 2), axis=0, return_inverse=True)
        cuts = np.array([self._instance(way, int(tenant), float(rate)) for tenant, rate in pairs])
        profile = cuts[index, 0].reshape(tenants.shape)
        batch = cuts[index, 1].reshape(tenants.shape).astype(np.int64)
        mixes = Mixes(kind.name, "mig", tenants, rates, batch, profile, way.clock_mhz)
        predicted = self.predictor(mixes)
        has = ~np.isnan(profile) | (tenants == NOBODY)
        counts = np.stack([(profile == number).sum(axis=1) for number in range(len(kind.mig.profiles))], axis=1)
        held = {tuple(row): kind.mig.holds(tuple(row)) for row in np.unique(counts, axis=0).tolist()}
        stands = np.array([held[tuple(row)] for row in counts.tolist()], dtype=bool)
        return Laid(mixes, predicted, allowed & has.all(axis=1) & stands & ~self._late(tenants, predicted).any(axis=1))

    def _instance(self, way: Way, tenant: int, rate: float) -> tuple[float, int]:
        """The smallest sufficient instance for a tenant at this rate (NaN if none), and its batch."""
        if tenant == NOBODY:
            return np.nan, 1
        if (way, tenant, rate) not in self._cuts:
            where = self.kinds[way.kind]
            assert where.mig is not None
            steps = [int(batch) for batch in self._ladder(way)[tenant] if batch > 0]
            rank = sorted(range(len(where.mig.profiles)), key=lambda profile: _size(where, profile))
            tried = [(number, batch) for number in rank for batch in steps]
            seat = np.full((len(tried), 1), tenant, np.int64)
            mixes = Mixes(
                where.name,
                "mig",
                seat,
                np.full((len(tried), 1), rate),
                np.array([[batch] for _, batch in tried], np.int64),
                np.array([[float(number)] for number, _ in tried]),
                way.clock_mhz,
            )
            fine = np.flatnonzero(self.keeps(self.ways.index(way), mixes))
            smallest = tried[fine[0]] if fine.size else None
            self._cuts[way, tenant, rate] = (float(smallest[0]), smallest[1]) if smallest else (np.nan, steps[0])
        return self._cuts[way, tenant, rate]

    def cost(self, option: int, laid: Laid) -> Floats:
        """By group, of a device in units of the objective."""
        kind = self.kinds[self.ways[option].kind]
        if self.minimise in PER_DEVICE:
            return np.full(len(laid.fits), self.least(kind))
        if self.minimise == "energy":
            return laid.predicted.power_w
        strain = (
            laid.predicted.latency_ms.estimate
            / self._limits[laid.mixes.tenants][..., : laid.predicted.latency_ms.estimate.shape[2]]
        )
        strain = np.where(laid.mixes.there[..., None] & np.isfinite(strain), strain, 0.0)
        return np.asarray(strain.max(axis=2).sum(axis=1) + 1e-3)


def _size(kind: DeviceKind, profile: int) -> tuple[int, int]:
    assert kind.mig is not None
    size = kind.mig.profiles[profile]
    return size.memory, size.compute


def _strain(predicted: PredictedMix, limits: Floats) -> Floats:
    """The largest ratio of a lone seat's latencies to their limits."""
    latency = predicted.latency_ms.upper[:, 0, :]
    return np.asarray((latency / limits[:, : latency.shape[1]]).max(axis=1))


def _apart(tenants: Sequence[ServingTenant]) -> Bools:
    number = {tenant.name: index for index, tenant in enumerate(tenants)}
    apart = np.zeros((len(tenants), len(tenants)), dtype=bool)
    for index, tenant in enumerate(tenants):
        for name in (tenant.apart & number.keys()) - {tenant.name}:
            apart[index, number[name]] = apart[number[name], index] = True
    return apart
