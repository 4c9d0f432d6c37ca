"""The engine against a plain simulation of the same rules: everything is computed anew at every event."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from cotenant.prediction.contention import engine, rates, state
from cotenant.prediction.contention.layout import Slicing
from cotenant.prediction.contention.simulation import Player, claims, simulate
from cotenant.prediction.contention.trace import Trace

# --- the law: speeds of kernels side by side


def filled(wanted, weights, room):
    """Parts in proportion to the weights, none larger than wanted, that use the room up: by bisection."""
    if sum(wanted) <= room:
        return list(wanted)
    if room < 1e-9:
        return [0.0] * len(wanted)
    low, high = 0.0, max(w / weight for w, weight in zip(wanted, weights, strict=True))
    for _ in range(200):
        middle = (low + high) / 2
        used = sum(min(w, middle * weight) for w, weight in zip(wanted, weights, strict=True))
        low, high = (middle, high) if used < room else (low, middle)
    return [min(w, high * weight) for w, weight in zip(wanted, weights, strict=True)]


def speeds_of(kernels):
    """Speeds of kernels, each (occupancy, dram, weight, SM domain, DRAM domain, priority)."""
    speeds = [1.0] * len(kernels)
    for domain in {kernel[3] for kernel in kernels}:
        room = 1.0
        for priority in sorted({kernel[5] for kernel in kernels}, reverse=True):
            mine = [i for i, kernel in enumerate(kernels) if kernel[3] == domain and kernel[5] == priority]
            parts = filled([kernels[i][0] for i in mine], [kernels[i][2] for i in mine], room)
            for i, part in zip(mine, parts, strict=True):
                speeds[i] = part / kernels[i][0]
            room = max(room - sum(parts), 0.0)
    for domain in {kernel[4] for kernel in kernels}:
        mine = [i for i, kernel in enumerate(kernels) if kernel[4] == domain]
        parts = filled([speeds[i] * kernels[i][1] for i in mine], [1.0] * len(mine), 1.0)
        for i, part in zip(mine, parts, strict=True):
            if part < speeds[i] * kernels[i][1]:
                speeds[i] = part / kernels[i][1]
    return speeds


def random_kernels(random, count):
    return [
        (
            random.choice([0.2, 0.5, 0.9, 1.0]), random.choice([0.0, 0.3, 0.6, 1.0]), random.choice([1.0, 2.0, 7.5]),
            int(random.integers(2)), int(random.integers(2)), int(random.integers(2)),
        )
        for _ in range(count)
    ]  # fmt: skip


def filled_by_the_engine(kernels):
    floats = np.zeros((len(kernels), state.COLUMNS))
    columns = [state.OCCUPANCY, state.DRAM, state.WEIGHT, state.SM_DOMAIN, state.DRAM_DOMAIN, state.PRIORITY]
    floats[:, columns] = kernels
    order = np.array(sorted(range(len(kernels)), key=lambda i: -kernels[i][5]), np.int64)
    crowded = rates.fill_rates(len(kernels), order, floats)
    return floats[:, state.FRESH] if crowded else np.ones(len(kernels))


def test_speeds_are_those_of_filling_by_weight_and_priority():
    random = np.random.default_rng(1)
    for _ in range(250):
        kernels = random_kernels(random, int(random.integers(2, 6)))
        assert filled_by_the_engine(kernels) == pytest.approx(speeds_of(kernels), rel=1e-9), kernels


def test_host_times_vary_by_splitmix():
    def reference(seed, tenant, number):
        mask = 2**64 - 1
        z = (seed + tenant * 0xD1342543DE82EF95 + (number + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) / 2**53

    for case in ((0, 0, 0), (7, 2, 5), (2**51, 3, 10**6)):
        assert state.uniform(*case) == reference(*case)


# --- the whole: requests through host and device


@dataclass(eq=False)
class Running:
    """A tenant of the plain simulation."""

    player: Player
    phase: str = "idle"
    at: float = 0.0
    kernel: int = 0
    left: float = 0.0
    launches: float = 0.0
    work: float = 0.0
    total: float = 0.0
    due: float = 0.0
    began: float = 0.0
    first: float = -1.0
    device: float = 0.0
    slots: dict = field(default_factory=dict)
    ended: list = field(default_factory=list)
    rows: list = field(default_factory=list)

    def launched(self):
        return float(self.player.trace.launch_ns[: self.kernel + 1].sum())

    def next_due(self):
        number = len(self.rows)
        if self.player.outstanding:
            return 0.0 if number < self.player.outstanding else self.ended[number - self.player.outstanding]
        return float(self.player.arrivals_ns[number]) if number < len(self.player.arrivals_ns) else math.inf


def plainly(players, window_end, slicing=None):  # noqa: C901, PLR0912 - in one piece, as the rules are told
    """Rows (due, started, first, done, device) and ends of stages by tenant, activity in ns, the end."""
    tenants = [Running(player) for player in players]
    for tenant in tenants:
        tenant.due = tenant.at = tenant.next_due()
    activity, now, active, slice_end, switch_end = np.zeros(4), 0.0, 0, 0.0, 0.0
    resident: list[Running] = []
    for _ in range(100_000):
        speed = {}
        if slicing is None:
            speeds = speeds_of([
                (t.player.trace.occupancy[t.kernel], t.player.trace.dram[t.kernel], claims(t.player.trace)[t.kernel],
                 t.player.sm_domain, t.player.dram_domain, t.player.priority) for t in resident
            ])  # fmt: skip
            speed = {id(t): value for t, value in zip(resident, speeds, strict=True)}
        elif resident:
            mine = [tenants.index(t) for t in resident]
            if active not in mine or (slice_end <= now + 1e-3 and len(mine) > 1):
                chosen = min(mine, key=lambda i: (i - active - 1) % len(tenants))
                if chosen != active:
                    switch_end = now + (slicing.interrupt_ns if active in mine else slicing.yield_ns)
                active, slice_end = chosen, max(switch_end, now) + slicing.slice_ns
            if switch_end <= now + 1e-3:
                speed = {id(tenants[active]): 1.0}
        hosts = [t for t in tenants if t.player.shared_host and t.total - t.work > 1e-3]
        for t in tenants:
            if t.phase == "resident":
                t.at = now + t.left / speed[id(t)] if speed.get(id(t)) else math.inf
            elif t.phase == "launching" and t.player.shared_host:
                t.at = now + max(t.player.trace.before_ns + t.launched() - t.work, 0.0) * len(hosts)
        times = [t.at for t in tenants] + [now + (t.total - t.work) * len(hosts) for t in hosts]
        if slicing is not None and resident:
            times.append(switch_end if switch_end > now + 1e-3 else slice_end if len(resident) > 1 else math.inf)
        soon = max(min(times), now)
        passed = soon - now
        for t in resident:
            rate = speed.get(id(t), 0.0)
            t.left -= passed * rate
            t.device += passed if rate else 0.0
            trace, k = t.player.trace, t.kernel
            parts = (t.player.sm_part, t.player.sm_part, t.player.dram_part)
            activity[1:] += [
                passed * rate * c[k] * p
                for c, p in zip((trace.occupancy, trace.tensor, trace.dram), parts, strict=True)
            ]
        activity[0] += passed if any(speed.values()) else 0.0
        for t in hosts:
            t.work += passed / len(hosts)
        now = soon
        for t in tenants:
            while t.at <= now + 1e-3:
                before = len(resident)
                step(t, now, resident)
                if slicing is not None and (before, len(resident)) == (1, 2) and tenants.index(t) != active:
                    slice_end = now + slicing.slice_ns  # who was alone had no turn to end
                if done(tenants, window_end):
                    return [t.rows for t in tenants], activity, now
    raise AssertionError("never ends")


def done(tenants, window_end):
    return all(t.next_due() >= window_end for t in tenants)


def step(t, now, resident):
    trace = t.player.trace
    if t.phase == "resident":
        resident.remove(t)
        if t.kernel == t.player.first_output:
            t.first = now
        last = t.kernel + 1 == trace.slot.size
        if last or trace.slot[t.kernel + 1] != trace.slot[t.kernel]:
            t.slots[int(trace.slot[t.kernel]) + 1] = now
        if last:
            t.phase, t.at = "closing", now + trace.after_ns
            return
        if trace.waited[t.kernel]:
            t.launches = max(t.launches, now - t.launched())
        t.kernel += 1
        t.phase = "launching"
        t.at = max(now, t.launches + t.launched())
        if t.player.shared_host:
            t.at = now if trace.before_ns + t.launched() - t.work <= 1e-3 else math.inf
    elif t.phase == "closing":
        t.slots[int(trace.slot[-1]) + 2] = now
        t.rows.append(((t.due, t.began, t.first, now, t.device), dict(t.slots)))
        t.ended.append(now)
        t.due = t.next_due()
        t.phase, t.at = "idle", max(t.due, now)
    elif t.phase == "idle":
        t.began, t.first, t.device, t.kernel = now, -1.0, 0.0, 0
        t.launches = now + trace.before_ns
        t.slots = {0: t.launches}
        t.phase, t.at = "launching", t.launches + t.launched()
        if t.player.shared_host:
            t.work, t.total = 0.0, trace.before_ns + float(trace.launch_ns.sum())
            t.at = math.inf
    else:
        t.phase, t.left, t.at = "resident", float(trace.duration_ns[t.kernel]), math.inf
        resident.append(t)


def random_trace(random, kernels):
    return Trace(
        duration_ns=random.uniform(2e3, 2e5, kernels),
        occupancy=random.choice([0.25, 0.75, 1.0], kernels),
        dram=random.choice([0.0, 0.375, 0.875], kernels),
        tensor=random.choice([0.0, 0.5], kernels),
        launch_ns=random.uniform(1e3, 1e5, kernels),
        slot=np.sort(random.integers(0, 3, kernels)),
        block_ns=random.choice([1e3, 2e4], kernels),
        holds=np.full(kernels, 0.1),
        waited=(random.random(kernels) < 0.3).astype(float),
        before_ns=float(random.choice([0.0, 3e4])),
        after_ns=float(random.choice([0.0, 2e4])),
    )


def random_player(random, **more):
    trace = random_trace(random, int(random.integers(2, 7)))
    load = {"outstanding": int(random.integers(1, 3))}
    if random.random() < 0.5:
        load = {"outstanding": 0, "arrivals_ns": np.sort(random.integers(0, 2_000_000, 5))}
    return Player(
        trace, **load, sm_part=float(random.choice([1.0, 0.5])), dram_part=float(random.choice([1.0, 0.25])),
        first_output=int(random.integers(-1, trace.slot.size)), **more,
    )  # fmt: skip


def compare(players, slicing=None, window_end=2e6):
    outcome = simulate(players, window_end_ns=window_end, deadline_ns=1e9, slicing=slicing, period_ns=1e12)
    rows, activity, end = plainly(players, window_end, slicing)
    assert outcome.finished
    assert outcome.end_ns == pytest.approx(end, rel=1e-9)
    for mine, theirs in zip(outcome.requests, rows, strict=True):
        columns = np.column_stack((mine.intended, mine.started, mine.first, mine.done, mine.device))
        assert columns == pytest.approx(np.array([row for row, _ in theirs]).reshape(-1, 5), rel=1e-7, abs=1)
        for ends, (_, slots) in zip(mine.slot_ends, theirs, strict=True):
            assert {slot: ends[slot] for slot in slots} == pytest.approx(slots, rel=1e-7, abs=1)
    assert outcome.activity[0] * end == pytest.approx(activity, rel=1e-6, abs=10)
    return outcome


@pytest.mark.parametrize("seed", range(12))
def test_side_by_side(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 4))
    players = [
        random_player(
            random, sm_domain=int(random.integers(2)), dram_domain=int(random.integers(2)) if count == 3 else 0,
            priority=int(random.integers(2)),
        )
        for _ in range(count)
    ]  # fmt: skip
    compare(players)


@pytest.mark.parametrize("seed", range(4))
def test_tenants_that_hardly_meet(seed):
    random = np.random.default_rng(seed)
    players = [
        replace(random_player(random), outstanding=0, arrivals_ns=np.sort(random.integers(0, 20_000_000, 6)))
        for _ in range(2)
    ]
    compare(players, window_end=2e7)
    compare(players[:1], window_end=2e7)


@pytest.mark.parametrize("seed", range(8))
def test_in_turns(seed):
    random = np.random.default_rng(seed)
    players = [random_player(random) for _ in range(int(random.integers(2, 4)))]
    compare(players, Slicing(1e5, 2e4, 7e3))


@pytest.mark.parametrize("seed", range(4))
def test_one_thread_that_launches_for_all(seed):
    random = np.random.default_rng(seed)
    compare([random_player(random, shared_host=True) for _ in range(int(random.integers(2, 4)))])


def test_activity_by_period_adds_up_and_a_deadline_cuts_it():
    players = [random_player(np.random.default_rng(3)), random_player(np.random.default_rng(4))]
    whole = simulate(players, window_end_ns=2e6, deadline_ns=1e9, period_ns=1e12)
    parts = simulate(players, window_end_ns=2e6, deadline_ns=1e9, period_ns=1e5)
    lengths = np.full(len(parts.activity), 1e5)
    lengths[-1] = parts.end_ns - 1e5 * (len(lengths) - 1)
    assert lengths @ parts.activity == pytest.approx(whole.activity[0] * whole.end_ns, rel=1e-6)
    assert (parts.activity <= 1 + 1e-9).all()
    assert parts.completions == whole.completions
    cut = simulate(players, window_end_ns=2e6, deadline_ns=7e5)
    assert (cut.end_ns, cut.finished) == (7e5, False)
    for mine, all_of in zip(cut.requests, whole.requests, strict=True):
        assert mine.done.tolist() == [time for time in all_of.done if time < 7e5]


def test_reasons_are_told_apart():
    assert (engine.EMPTY_BUFFER, engine.ALL_DONE, engine.DEADLINE) == (0, 1, 2)
