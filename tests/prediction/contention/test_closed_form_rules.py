"""The closed form, traces and mixes against plain code that follows their descriptions line by line."""

import numpy as np
import pytest

from cotenant.prediction.contention import closed_form, mix
from cotenant.prediction.contention.closed_form import Terms, slowdowns
from cotenant.prediction.contention.demand import RATIOS, Demands, demands_of, joined
from cotenant.prediction.contention.layout import Part, Slicing
from cotenant.prediction.contention.mix import MixTenant, mean_slowdowns, stretches
from cotenant.prediction.contention.rates import fill_rates, lost_ns
from cotenant.prediction.contention.state import (
    COLUMNS,
    DRAM,
    DRAM_DOMAIN,
    FRESH,
    OCCUPANCY,
    PRIORITY,
    SM_DOMAIN,
    WEIGHT,
)
from cotenant.prediction.contention.trace import Trace, plain_trace, trace_of
from cotenant.prediction.kernels.columns import TRANSFER
from cotenant.prediction.kernels.cost import Costs

# --- the law of sharing


def water(wanted, weights, room):
    """Parts of the room in proportion to weights, none more than wanted."""
    if sum(wanted) <= room:
        return list(wanted)
    left, claims = max(room, 0.0), sum(weights)
    parts = {}
    for number in sorted(range(len(wanted)), key=lambda number: wanted[number] / weights[number]):
        parts[number] = min(wanted[number], left * weights[number] / claims)
        left, claims = left - parts[number], claims - weights[number]
    return [parts[number] for number in range(len(wanted))]


def law(kernels):
    """Speeds of kernels (occupancy, dram, weight, SM domain, DRAM domain, priority)."""
    if len(kernels) < 2 or (sum(k[0] for k in kernels) <= 1 and sum(k[1] for k in kernels) <= 1):
        return [1.0] * len(kernels)
    speeds = [1.0] * len(kernels)
    for domain in {k[3] for k in kernels}:
        room = 1.0
        for priority in sorted({k[5] for k in kernels}, reverse=True):
            group = [n for n, k in enumerate(kernels) if k[3] == domain and k[5] == priority]
            parts = water([kernels[n][0] for n in group], [kernels[n][2] for n in group], room)
            for n, part in zip(group, parts, strict=True):
                speeds[n] = part / kernels[n][0]
            room -= sum(parts)
    for domain in {k[4] for k in kernels}:
        group = [n for n, k in enumerate(kernels) if k[4] == domain]
        used = [speeds[n] * kernels[n][1] for n in group]
        for n, part, use in zip(group, water(used, [1.0] * len(used), 1.0), used, strict=True):
            if part < use:
                speeds[n] = part / kernels[n][1]
    return speeds


@pytest.mark.parametrize("seed", range(60))
def test_the_law_is_water_filling_by_priority_weight_and_domain(seed):
    dice = np.random.default_rng(seed)
    count = int(dice.integers(1, 6))
    kernels = [
        (
            dice.uniform(0.05, 1.0),
            dice.uniform(0, 1.0) * dice.integers(0, 2),
            dice.uniform(0.2, 2.0),
            int(dice.integers(0, 2)),
            int(dice.integers(0, 2)),
            int(dice.integers(0, 3)),
        )
        for _ in range(count)
    ]
    state = np.zeros((count, COLUMNS))
    for column, values in zip(
        (OCCUPANCY, DRAM, WEIGHT, SM_DOMAIN, DRAM_DOMAIN, PRIORITY), zip(*kernels, strict=True), strict=True
    ):
        state[:, column] = values
    order = np.array(sorted(range(count), key=lambda n: -kernels[n][5]))
    crowded = fill_rates(count, order, state)
    assert (state[:, FRESH] if crowded else np.ones(count)) == pytest.approx(np.array(law(kernels)), abs=1e-9)


def test_time_lost_to_blocks_of_others():
    assert lost_ns(0.8, 0.6, 0.01) == pytest.approx(min(0.5 * 0.5 * 0.6, 0.4) / 0.01)
    assert lost_ns(0.1, 1.0, 0.02) == pytest.approx(0.1 / 0.02), "all it needs is soon free"
    assert lost_ns(0.9, 1.0, 0.02) == pytest.approx(0.5 / 0.02), "half a block at most"
    assert [lost_ns(0.5, 0.5, 1.0), lost_ns(0.0, 2.0, 1.0), lost_ns(0.5, 0.9, 0.0)] == [0.0, 0.0, 0.0]


# --- the closed form, step by step

COUNT, DURATION, OCC, BW, CLAIM, BLOCK, HOLDS = range(7)
BEFORE, AFTER, LAUNCH, DEVICE, WAITED = range(5)


def paced_at(row, ratio):
    if ratio > RATIOS[-1]:
        return row[-1] * ratio / RATIOS[-1]
    return np.interp(np.log(ratio), np.log(RATIOS), row)


def alone_of(request, row):
    return request[BEFORE] + paced_at(row, 1.0) + request[AFTER]


def plainly_in_turns(requests, kernels, paced, rates, slicing):
    tenants = range(len(requests))
    alone = [alone_of(requests[n], paced[n]) for n in tenants]
    cycle, wants, waits = list(alone), [requests[n][DEVICE] for n in tenants], [0.0 for _ in tenants]
    turn, cost = [min(slicing.slice_ns, wants[n]) for n in tenants], [slicing.yield_ns for _ in tenants]
    time = list(alone)
    for _ in range(32):
        busy = [min(wants[n] / cycle[n], 1.0) for n in tenants]
        for n in tenants:
            others = [other for other in tenants if other != n]
            nobody = np.prod([1 - busy[other] for other in others])
            wait = sum(busy[other] * (turn[other] + cost[other]) for other in others)
            waits[n] = (waits[n] + wait + cost[n] * (1 - nobody)) / 2
        for n in tenants:
            device = requests[n][DEVICE]
            ahead = device / max(requests[n][LAUNCH], 1e-9)
            backlog = device if ahead >= 1 else waits[n] * ahead / (1 - ahead)
            kernel = device / kernels[n][:, COUNT].sum()
            turn[n] = (turn[n] + min(slicing.slice_ns, device, max(backlog, kernel))) / 2
            cost[n] = slicing.interrupt_ns if turn[n] > 0.95 * slicing.slice_ns else slicing.yield_ns
            wants[n] = (wants[n] + device + waits[n] * device / turn[n]) / 2
            time[n] = requests[n][BEFORE] + paced_at(paced[n], wants[n] / device) + requests[n][AFTER]
            time[n] += requests[n][WAITED] * waits[n]
            cycle[n] = max(time[n], 1 / rates[n]) if rates[n] else time[n]
    return np.array(time) / alone


def joint_states(n, of, until, turn):
    """Which class of kernel each other tenant has on the device (None: none), and the weight of that state."""
    others = [other for other in range(len(until)) if other != n]
    classes = len(until[0])
    if len(others) == 1:
        steps = np.diff(np.concatenate([[0.0], until[others[0]], [1.0]]))
        return [({others[0]: kind if kind < classes else None}, weight) for kind, weight in enumerate(steps)]
    states = []
    for point in closed_form._POINTS:
        kinds = {}
        for dimension, other in enumerate(others):
            at = (point[dimension] + 0.37 * n + 0.11 * of + 0.23 * turn) % 1.0
            kinds[other] = next((kind for kind in range(classes) if at < until[other][kind]), None)
        states.append((kinds, 1 / len(closed_form._POINTS)))
    return states


def speed_and_wait(n, of, kinds, kernels, seats, *, queued):
    """Of a kernel of class `of` of tenant n beside kernels of others."""
    others = [(other, kernels[other][kind]) for other, kind in kinds.items() if kind is not None]
    resident = [(n, kernels[n][of]), *others]
    speeds = law([(row[OCC], row[BW], row[CLAIM], *seats[who]) for who, row in resident])
    beside = [
        (speed, row) for speed, (who, row) in zip(speeds[1:], resident[1:], strict=True) if seats[who][0] == seats[n][0]
    ]
    ending = sum(row[HOLDS] / row[BLOCK] for _, row in beside if row[BLOCK] > 0)
    own = kernels[n][of][HOLDS]
    if ending <= 0 or own <= 0:
        return speeds[0], 0.0
    held, slowed = sum(row[HOLDS] for _, row in beside), sum(speed * row[HOLDS] for speed, row in beside)
    part = min(1.0, 1 / sum(row[OCC] for _, row in beside))
    lost = queued * lost_ns(own, slowed, ending / held * slowed)
    return speeds[0], lost + (1 - queued) * lost_ns(own, held * part, ending * part)


def host_factors(requests, host, cycle, turn):
    host = list(host)
    for n in range(len(requests)):
        hosting = 1 + sum(
            min((requests[other][BEFORE] + requests[other][LAUNCH]) * host[other] / cycle[other], 1.0)
            for other in range(len(requests))
            if other != n
        )
        host[n] = hosting if turn == 0 else (host[n] + hosting) / 2
    return host


def plainly_side_by_side(requests, kernels, paced, rates, seats, *, shared_host):
    tenants, classes = range(len(requests)), range(len(kernels[0]))
    alone = [alone_of(requests[n], paced[n]) for n in tenants]
    cycle, time, host, queued = list(alone), [0.0] * len(alone), [1.0] * len(alone), [1.0] * len(alone)
    speed, delay = np.ones((len(alone), len(classes))), np.zeros((len(alone), len(classes)))
    for turn in range(8):
        if shared_host:
            host = host_factors(requests, host, cycle, turn)
        until, moved = [], 0.0
        for n in tenants:
            numbers, lengths = kernels[n][:, COUNT], kernels[n][:, DURATION]
            lasts = (numbers * (lengths / speed[n] + delay[n])).sum()
            inside = host[n] * paced_at(paced[n], lasts / requests[n][DEVICE] / host[n])
            queued[n] = min(lasts / inside, 1.0)
            now = requests[n][BEFORE] * host[n] + inside + requests[n][AFTER]
            moved, time[n] = max(moved, abs(now - time[n]) / now), now
            cycle[n] = max(now, 1 / rates[n]) if rates[n] else now
            shares = np.cumsum(numbers * lengths / speed[n] / cycle[n])
            until.append(shares / max(shares[-1], 1.0))
        if turn > 1 and moved < 0.01:
            break
        fresh = 2 / (turn + 2)
        for n in tenants:
            for of in classes:
                if kernels[n][of][COUNT] == 0:
                    continue
                states = [state for state in joint_states(n, of, until, turn) if state[1] > 0]
                found = [speed_and_wait(n, of, kinds, kernels, seats, queued=queued[n]) for kinds, _ in states]
                mean = sum(weight * each[0] for each, (_, weight) in zip(found, states, strict=True))
                waits = sum(weight * each[1] for each, (_, weight) in zip(found, states, strict=True))
                speed[n][of] = max(speed[n][of] * (1 - fresh) + fresh * mean, 1e-4)
                delay[n][of] = delay[n][of] * (1 - fresh) + fresh * waits
    return np.array(time) / alone


def some_trace(dice):
    kernels = int(dice.integers(3, 30))
    one = np.ones(kernels)
    occupancy = dice.uniform(0.05, 1.0, kernels)
    duration = dice.exponential(1e5, kernels) + 1e3
    return Trace(
        duration_ns=duration,
        occupancy=occupancy,
        dram=dice.uniform(0, 0.9, kernels),
        tensor=0 * one,
        launch_ns=dice.uniform(1e3, dice.choice([1e4, 3e5]), kernels),
        slot=np.zeros(kernels, np.int64),
        block_ns=duration / 4,
        holds=np.minimum(occupancy * 1.2, 1.0),
        waited=(dice.random(kernels) < 0.1).astype(float),
        before_ns=float(dice.uniform(0, 1e6)),
        after_ns=float(dice.uniform(0, 1e5)),
    )


def case(seed):
    dice = np.random.default_rng(seed)
    count = int(dice.integers(2, 5))
    demands = demands_of([some_trace(dice) for _ in range(count)])
    rates = np.where(dice.random(count) < 0.4, 0.6 / demands.alone_ns, 0.0)
    return dice, count, demands, rates


@pytest.mark.parametrize("seed", range(14))
def test_side_by_side_as_described(seed):
    dice, count, demands, rates = case(seed)
    seats = np.stack([dice.integers(0, 2, count) * (seed % 2), 0 * rates, dice.integers(0, 3, count)], 1).astype(int)
    shared = bool(seed % 3 == 0)
    order = dice.permutation(count)
    terms = Terms(
        shared_host=shared,
        sm_domain=seats[None, order, 0],
        dram_domain=seats[None, order, 1],
        priority=seats[None, order, 2],
        rate_per_ns=rates[None, order],
    )
    least = np.argsort(demands.request[:, BEFORE])  # whatever the order in the mix
    expected = plainly_side_by_side(
        demands.request[least], demands.kernels[least], demands.paced[least], rates[least], seats[least],
        shared_host=shared,
    )  # fmt: skip
    found = np.empty(count)
    found[order] = slowdowns(demands, order[None], terms)[0]
    assert found[least] == pytest.approx(np.maximum(expected, 1.0), rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_in_turns_as_described(seed):
    dice, _, demands, rates = case(seed + 100)
    slicing = Slicing(float(dice.choice([2e5, 2e6])), 2e5, 1e4)
    mixed = np.arange(len(demands))[None]
    expected = plainly_in_turns(demands.request, demands.kernels, demands.paced, rates, slicing)
    found = slowdowns(demands, mixed, Terms(slicing, rate_per_ns=rates[None]))[0]
    assert found == pytest.approx(np.maximum(expected, 1.0), rel=1e-6)


def test_gaps_in_a_mix_stay_empty_and_columns_keep_their_terms():
    _, _, demands, _ = case(3)
    full = slowdowns(demands, np.array([[0, 1]]), Terms(priority=np.array([[1, 0]])))
    columns = np.array([[-1, 0, -1, 1], [-1, -1, -1, -1]])
    gaps = slowdowns(demands, columns, Terms(priority=np.array([[7, 1, 9, 0]] * 2)))
    assert gaps[0, [1, 3]] == pytest.approx(full[0])
    assert np.isnan(gaps[0, [0, 2]]).all()
    assert np.isnan(gaps[1]).all()
    assert closed_form.log_slowdowns(demands, np.array([[0, 1]])) == pytest.approx(
        np.log(slowdowns(demands, np.array([[0, 1]])))
    )


def test_only_tenants_that_share_neither_sms_nor_memory_are_apart():
    full = plain_trace(kernels=20, device_ns=1e7, dram=0.9)
    demands = demands_of([full, full])
    for sms, memory, apart in (([0, 1], [0, 1], True), ([0, 1], [0, 0], False), ([0, 0], [0, 1], False)):
        found = slowdowns(demands, np.array([[0, 1]]), Terms(sm_domain=np.array([sms]), dram_domain=np.array([memory])))
        assert (found == 1.0).all() == apart


# --- demands and traces


def test_kernels_are_sorted_into_classes_by_number_and_time():
    dice = np.random.default_rng(2)
    trace = some_trace(dice)
    demands = demands_of([trace])
    table, request = demands.kernels[0], demands.request[0]
    assert table[:, COUNT].sum() == trace.duration_ns.size
    assert (table[:, COUNT] * table[:, DURATION]).sum() == pytest.approx(trace.duration_ns.sum())
    assert (table[:, COUNT] * table[:, DURATION] * table[:, OCC]).sum() == pytest.approx(
        trace.duration_ns @ trace.occupancy
    )
    lengths = table[table[:, COUNT] > 0, DURATION]
    assert (np.diff(lengths) > 0).all()
    assert request == pytest.approx(
        [trace.before_ns, trace.after_ns, trace.launch_ns.sum(), trace.duration_ns.sum(), trace.waited.sum()]
    )
    assert demands.alone_ns[0] == pytest.approx(trace.alone_ns(), rel=0.01)
    both = joined([demands, demands])
    assert (len(both), both.paced.shape) == (2, (2, RATIOS.size))
    assert isinstance(both, Demands)
    even = plain_trace(kernels=12, device_ns=1.2e6)
    assert demands_of([even]).kernels[0, :, COUNT].tolist() == [2.0] * 6


def test_the_time_alone_follows_launches_kernels_and_waits():
    dice = np.random.default_rng(6)
    for _ in range(20):
        trace = some_trace(dice)
        host = device = 0.0
        for number in range(trace.duration_ns.size):
            host += trace.launch_ns[number]
            device = max(device, host) + trace.duration_ns[number]
            if trace.waited[number]:
                host = device
        assert trace.alone_ns() == pytest.approx(trace.before_ns + device + trace.after_ns)
    assert trace.host_ns == pytest.approx(trace.launch_ns.sum() + trace.before_ns + trace.after_ns)
    assert trace.alone_ns(1) == pytest.approx(trace.before_ns + trace.launch_ns[0] + trace.duration_ns[0])
    assert trace.slowed(1.0) is trace
    slow = trace.slowed(2.0)
    assert slow.duration_ns == pytest.approx(2 * trace.duration_ns)
    assert slow.block_ns == pytest.approx(2 * trace.block_ns)
    assert trace.towards(slow, 0.25).duration_ns == pytest.approx(1.25 * trace.duration_ns)


def test_a_trace_of_kernels_and_their_costs():
    zeros = np.zeros(4)
    columns = dict.fromkeys(Costs.__dataclass_fields__, zeros)
    columns |= {
        "duration_ns": np.array([1000.0, 2000.0, 500.0, 0.0]),
        "fixed_ns": np.array([200.0, 1000.0, 600.0, 0.0]),
        "sms": np.array([50.0, 200.0, 10.0, 0.0]),
        "filled": np.array([80.0, 300.0, 10.0, 0.0]),
        "waves": np.array([2.0, 4.0, 1.0, 1.0]),
        "dram_bytes": np.array([1e5, 1e6, 0.0, 0.0]),
        "compute_ns": np.array([500.0, 9000.0, 100.0, 0.0]),
        "tensor": np.array([True, True, False, False]),
    }

    class Four:
        kind = np.array([TRANSFER, TRANSFER, TRANSFER + 1, TRANSFER])

        def __len__(self):
            return 4

    launch = np.array([1.0, 2.0, 3.0, 4.0])
    trace = trace_of(
        Four(), Costs(**columns), domain_sms=100, bytes_per_ns=200.0, launch_ns=launch, before_us=2.0, after_us=3.0
    )
    assert trace.duration_ns.tolist() == [1000.0, 2000.0, 500.0, 1.0]
    assert trace.occupancy == pytest.approx([0.5 * (800 + 0.35 * 200) / 1000, 0.675, 0.1 * 0.35 * 600 / 500, 1e-6])
    assert trace.dram == pytest.approx([0.5, 1.0, 0.0, 0.0])
    assert trace.tensor == pytest.approx([0.25, 1.0, 0.0, 0.0])
    assert trace.block_ns == pytest.approx([400.0, 250.0, 0.0, 0.0])
    assert trace.holds == pytest.approx([0.8, 1.0, 0.1, 0.0])
    assert trace.waited.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert (trace.before_ns, trace.after_ns, trace.slot.tolist()) == (2000.0, 3000.0, [0] * 4)
    with pytest.raises(ValueError, match="at least one kernel"):
        Trace(*[np.empty(0)] * 9)
    with pytest.raises(ValueError, match="one entry per kernel"):
        Trace(*[np.ones(1)] * 8, np.ones(2))
    for bad in ({"device_ns": 0.0}, {"device_ns": 1.0, "occupancy": 0.0}, {"device_ns": 1.0, "occupancy": 1.1}):
        with pytest.raises(ValueError, match="must take time"):
            plain_trace(kernels=1, **bad)
    plain = plain_trace(kernels=4, device_ns=8.0, host_ns=2.0)
    assert (plain.block_ns[0], plain.launch_ns[0], plain.holds[0]) == (0.5, 0.5, 1.0)


# --- mixes


def windows_of(monkeypatch, tenants, done=None, **options):
    """What the event simulation is asked, with answers of two requests of a second each, or as many as given."""
    asked = {}

    def simulated(players, **more):
        asked.update(more, players=players)
        sizes = done or [2] * len(players)
        requests = [
            type("Requests", (), {"done": np.arange(1, size + 1) * 2e9, "started": np.arange(1, size + 1) * 2e9 - 1e9})
            for size in sizes
        ]
        return type("Outcome", (), {"requests": requests})

    monkeypatch.setattr(mix, "simulate", simulated)
    return asked, stretches(tenants, **options)


WORK = plain_trace(kernels=10, device_ns=1e6)
ALL = Part(sms=100, sm_domain=0, domain_sms=100, memory_bytes=1)


def test_what_a_mix_asks_of_the_simulation(monkeypatch):
    closed = MixTenant(WORK, ALL)
    asked, factors = windows_of(monkeypatch, [closed, closed], shared_host=True, slicing=Slicing(1e6, 0.0, 0.0), seed=3)
    assert asked["window_end_ns"] == pytest.approx(12 * 1e6 * 2)
    assert asked["deadline_ns"] == pytest.approx(20 * 24e6)
    assert (asked["host_spread"], asked["seed"], asked["slicing"].slice_ns) == (0.03, 3, 1e6)
    assert all(player.outstanding == 1 and player.shared_host for player in asked["players"])
    assert factors[0] == pytest.approx([1000.0, 1000.0])
    asked, _ = windows_of(monkeypatch, [closed], shared_host=True, slicing=Slicing(1e6, 0.0, 0.0))
    assert asked["slicing"] is None
    assert not asked["players"][0].shared_host
    open_ = MixTenant(WORK, ALL, rate_rps=50.0, priority=2, first_output=4)
    asked, _ = windows_of(monkeypatch, [open_, closed])
    assert asked["window_end_ns"] == pytest.approx(8e9)
    assert asked["deadline_ns"] == pytest.approx(24e9)
    player = asked["players"][0]
    assert (player.outstanding, player.priority, player.first_output) == (0, 2, 4)
    assert player.arrivals_ns.size == pytest.approx(400, rel=0.2)
    assert player.arrivals_ns[-1] < 8e9
    assert not player.shared_host
    for rate, window in ((1000.0, 4e9), (1.0, 120e9)):
        asked, _ = windows_of(monkeypatch, [MixTenant(WORK, ALL, rate_rps=rate)])
        assert asked["window_end_ns"] == pytest.approx(window)
    even = MixTenant(WORK, ALL, rate_rps=50.0, cv=0.0)
    asked, _ = windows_of(monkeypatch, [even])
    gaps = np.diff(asked["players"][0].arrivals_ns)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(0.05, rel=0.2)


def test_a_mix_that_falls_behind_takes_for_ever(monkeypatch):
    closed = MixTenant(WORK, ALL)
    for done, first in ((0, np.inf), (1, np.inf), (2, 1000.0)):
        _, (factors,) = windows_of(monkeypatch, [closed], done=[done])
        assert factors[0] == first
    assert windows_of(monkeypatch, [closed], done=[3])[1][0].size == 3
    assert windows_of(monkeypatch, [closed], done=[4])[1][0].size == 3, "the first may find the device empty"
    due = windows_of(monkeypatch, [MixTenant(WORK, ALL, rate_rps=50.0)])[0]["players"][0].arrivals_ns.size
    keeps = int(np.ceil(0.98 * due))
    for done, finite in ((keeps, True), (keeps - 1, False)):
        _, (factors,) = windows_of(monkeypatch, [MixTenant(WORK, ALL, rate_rps=50.0)], done=[done])
        assert np.isfinite(factors).all() == finite
    assert mean_slowdowns([np.array([1.0, 3.0]), np.array([0.5, 0.7])]) == [2.0, 1.0]
