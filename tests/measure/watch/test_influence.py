"""Who slows whom, on simulated time, where the truth is known."""

import numpy as np
import pytest

from cotenant.analyse.neighbours.influence import TenantSeries, influences
from cotenant.analyse.neighbours.totals import Totals
from cotenant.analyse.neighbours.watching import TenantTotals, answer_sentences, sentence, watched_of
from cotenant.tenancy.interval import Estimate, Missing
from validation.scripted_neighbours import Script, play
from validation.watching import judged, readings

STEP = 10.0
ROLES = ("requests", "latency_s", "latency_count")


def series(name, rate, mean_s, *, timed=True):
    """A tenant with these requests per interval and this mean time of each."""
    requests = np.asarray(rate, float) * STEP
    times = requests * np.asarray(mean_s, float)
    empty = np.empty(0)
    return TenantSeries(
        name, STEP, requests, requests if timed else empty, times if timed else empty, "latency", requests / STEP, "/s"
    )


def on_off(n, length, draw):
    """A neighbour that is busy and idle in turns."""
    return np.where((np.arange(n) // length) % 2 == 0, 0.0, 40.0) * draw.uniform(0.9, 1.1, n)


def of(found, neighbour, tenant):
    return next(one for one in found if (one.neighbour, one.tenant) == (neighbour, tenant))


@pytest.mark.parametrize("factor", [1.0, 1.2, 2.0])
def test_an_hour_of_ordinary_traffic_tells_the_truth(factor):
    outcome = judged(Script(3, factor))
    busy = outcome.found.busy
    assert outcome.holds
    assert busy.relative_half_width < 0.2
    assert (outcome.found.verdict == "slows") == (factor > 1)


@pytest.mark.slow
def test_it_is_right_over_many_seeds():
    none, some, much = ([judged(Script(seed, factor)) for seed in range(100, 112)] for factor in (1.0, 1.2, 2.0))
    for outcomes in (none, some, much):
        assert sum(one.holds for one in outcomes) >= 10
        assert np.median([one.found.busy.relative_half_width for one in outcomes]) <= 0.15
    assert sum(one.found.verdict == "slows" for one in none) <= 1
    assert sum(one.found.verdict == "slows" for one in some) >= 9
    assert all(one.found.verdict == "slows" for one in much)


def test_two_servers_that_are_always_busy_give_no_number_but_an_experiment():
    a, b, _ = play(Script(1, 2.0, minutes=30, always_busy=True))
    t_s = np.arange(0, 1800.0, 2.0)
    watched = watched_of([readings("A", a, t_s), readings("B", b, t_s)], device="cpu")
    one = of(watched.influences, "A", "B")
    assert isinstance(one.busy, Missing)
    assert one.verdict == "can't tell"
    assert one.more_minutes is None  # watching longer would not help
    pauses, seconds = one.experiment
    assert pauses >= 4
    assert seconds >= STEP
    assert f"Pausing A {pauses} times" in sentence(one)


def test_a_neighbour_in_short_turns_is_not_said_to_be_always_busy():
    n = 36
    turns = np.where((np.arange(n) // 2) % 2 == 0, 40.0, 0.0) * np.where(np.arange(n) % 5 == 0, 0.3, 1.0)
    turns[::7] = 12.0
    turns[np.arange(n) % 4 == 3] = 12.0
    one = of(
        influences([series("A", turns, np.full(n, 0.01)), series("B", np.full(n, 10.0), np.full(n, 0.05))]), "A", "B"
    )
    assert "rarely stayed at one level" in one.busy.reason


def test_own_bursts_alone_are_not_taken_for_a_neighbour():
    """The neighbour's traffic comes with the tenant's own bursts, which are what slows it."""
    draw = np.random.default_rng(0)
    n = 360
    bursts = draw.random(n) < 0.4
    neighbour = np.where(np.roll(bursts, 0), 40.0, 0.0) * draw.uniform(0.9, 1.1, n)
    neighbour = np.where(draw.random(n) < 0.35, 40.0 - neighbour.clip(0, 40), neighbour)  # not always
    own = np.where(bursts, 30.0, 10.0) * draw.uniform(0.9, 1.1, n)
    mean = 0.05 * (own / 10) ** 0.5 * draw.lognormal(0, 0.05, n)
    one = of(influences([series("A", neighbour, np.full(n, 0.01)), series("B", own, mean)]), "A", "B")
    assert one.raw > 1.1  # what a dashboard would show
    assert one.verdict != "slows"


def test_a_tenant_that_was_slow_before_its_neighbour_came_is_not_its_victim():
    """A retries what B is late with: A's load follows B's slowness."""
    draw = np.random.default_rng(1)
    n = 540
    slow = ((np.arange(n) + 7) % 27) < 12
    neighbour = np.where(np.roll(slow, 3), 40.0, 0.0) * draw.uniform(0.9, 1.1, n)
    mean = 0.05 * np.where(slow, 1.6, 1.0) * draw.lognormal(0, 0.05, n)
    one = of(influences([series("A", neighbour, np.full(n, 0.01)), series("B", np.full(n, 10.0), mean)]), "A", "B")
    assert one.verdict == "can't tell"
    assert "already" in one.busy.reason


def test_a_neighbour_that_was_never_idle_is_compared_with_its_lightest_load():
    draw = np.random.default_rng(2)
    n = 360
    light = (np.arange(n) // 9) % 2 == 0
    neighbour = np.where(light, 10.0, 40.0) * draw.uniform(0.9, 1.1, n)
    mean = 0.05 * np.where(light, 1.0, 1.5) * draw.lognormal(0, 0.05, n)
    one = of(influences([series("A", neighbour, np.full(n, 0.01)), series("B", np.full(n, 10.0), mean)]), "A", "B")
    assert one.reference == "light"
    assert one.verdict == "slows"
    assert one.busy.lo <= 1.5 <= one.busy.hi
    assert "never idle" in sentence(one)


def test_two_neighbours_that_are_always_busy_together_are_not_separated():
    draw = np.random.default_rng(3)
    n = 360
    a = on_off(n, 9, draw)
    c = np.where(a > 0, 20.0, 0.0)
    mean = 0.05 * np.where(a > 0, 1.5, 1.0) * draw.lognormal(0, 0.05, n)
    found = influences(
        [series("A", a, a * 0 + 0.01), series("B", np.full(n, 10.0), mean), series("C", c, c * 0 + 0.01)]
    )
    assert "at the same times" in of(found, "A", "B").busy.reason


def test_of_two_neighbours_the_right_one_is_named():
    draw = np.random.default_rng(4)
    n = 540
    a, c = on_off(n, 9, draw), on_off(n, 7, draw)
    mean = 0.05 * np.where(a > 0, 1.5, 1.0) * draw.lognormal(0, 0.05, n)
    found = influences(
        [series("A", a, a * 0 + 0.01), series("B", np.full(n, 10.0), mean), series("C", c, c * 0 + 0.01)]
    )
    assert of(found, "A", "B").verdict == "slows"
    assert of(found, "C", "B").verdict == "hardly"


def test_gaps_and_restarts_cost_intervals_and_nothing_else():
    a, b, truth = play(Script(3, 2.0))
    t_s = np.arange(0, 3600.0, 2.0)
    t_s = t_s[(t_s < 1000) | (t_s > 1200)]  # the collector was down
    early, late = readings("B", b, t_s), readings("B", b, t_s)
    restarted = {
        role: type(one)(one.t_s, np.where(one.t_s > 2000, one.value - one.value[one.t_s <= 2000][-1], one.value))
        for role, one in late.totals.items()
    }
    watched = watched_of([readings("A", a, t_s), type(early)("B", "scripted", restarted, early.buckets)], device="cpu")
    one = of(watched.influences, "A", "B")
    assert one.busy.lo <= truth <= one.busy.hi
    assert watched.tenants[1].restarts == 1
    assert watched.tenants[1].unknown_s == pytest.approx(202, abs=3)


def test_a_look_at_any_time_has_a_wider_interval():
    a, b, _ = play(Script(3, 1.2))
    t_s = np.arange(0, 3600.0, 2.0)
    both = [readings("A", a, t_s), readings("B", b, t_s)]
    once, often = (of(watched_of(both, device="cpu", looks=looks).influences, "A", "B") for looks in ("once", "often"))
    assert isinstance(often.busy, Estimate)
    assert often.busy.relative_half_width > 1.2 * once.busy.relative_half_width


def test_a_tenant_without_times_is_only_ever_a_neighbour():
    draw = np.random.default_rng(5)
    n = 360
    a = on_off(n, 9, draw)
    mean = 0.05 * np.where(a > 0, 1.5, 1.0) * draw.lognormal(0, 0.05, n)
    found = influences([series("A", a, a, timed=False), series("B", np.full(n, 10.0), mean)])
    assert [(one.neighbour, one.tenant) for one in found] == [("A", "B")]


def test_the_answer_says_how_much_longer_it_takes():
    """At noise of this size, 5 % can't be told from nothing in half an hour."""
    t_s = np.arange(0, 1800.0, 2.0)
    draw = np.random.default_rng(6)
    busy = (t_s // 50) % 2 == 1
    noise = np.repeat(draw.lognormal(0, 0.4, t_s.size // 25), 25)
    totals = {
        "A": (np.cumsum(np.where(busy, 80.0, 0.0)), np.cumsum(np.where(busy, 0.8, 0.0))),
        "B": (np.cumsum(np.full(t_s.size, 20.0)), np.cumsum(noise * np.where(busy, 1.05, 1.0))),
    }
    watched = watched_of(
        [
            TenantTotals(
                name,
                "scripted",
                {role: Totals.of(t_s, total) for role, total in zip(ROLES, (count, time, count), strict=True)},
            )
            for name, (count, time) in totals.items()
        ],
        device="cpu",
    )
    assert of(watched.influences, "A", "B").verdict == "can't tell"
    assert any("more of such traffic would decide" in one for one in answer_sentences(watched))
