"""Jobs go only to free GPUs, never to one twice; with our policy they finish sooner and use less energy."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.job_policies import OURS, POLICIES, Jobs, cluster_factors, compare, draw_jobs, replay, running_at
from cotenant.analyse.variability.variation import GpuProfile
from cotenant.errors import CotenantError
from cotenant.planning.assignment import (
    WaitingJob,
    clocks_within,
    estimated_slowdown,
    pair_up,
    plan,
    thriftiest_clock,
    waiting_clocks,
)
from cotenant.planning.gpu_fleet import GpuFleet, fleet_of
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.jobs import CLASSES, JobClass

pytestmark = pytest.mark.slow

GEMM, RESNET, BERT, PAGERANK = CLASSES
LONGHORN = Path(__file__).parents[3] / "shared/data/power/v100_sgemm-longhorn.csv"


def fleet(times, *, node_size=4, power=297.0):
    times = np.asarray(times, dtype=float)
    return GpuFleet(
        gpus=tuple(f"gpu{n}" for n in range(times.size)),
        relative_time=times,
        clock_mhz=1365.0 / times,
        power_w=np.full(times.size, power),
        node=np.arange(times.size) // node_size,
    )


def varied(count=64, seed=0):
    return fleet(1 + 0.02 * np.random.default_rng(seed).standard_normal(count))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(POLICIES)), kind=st.sampled_from(CLASSES))
def test_a_job_gets_the_requested_number_of_distinct_free_gpus(data, name, kind):
    here = varied(24)
    free = np.array(data.draw(st.lists(st.booleans(), min_size=24, max_size=24).filter(any)))
    count = data.draw(st.integers(1, int(free.sum())))
    chosen = POLICIES[name](here, 1).choose(kind, count, free)
    assert len(set(chosen.tolist())) == count
    assert free[chosen].all()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_no_gpu_ever_runs_two_jobs(name):
    here, jobs = varied(16), draw_jobs(120, 16, seed=3)
    policy, busy = POLICIES[name](here, 1), []
    choose = policy.choose

    def watched(kind, count, free):
        gpus = choose(kind, count, free)
        busy.append((gpus, free.copy()))
        return gpus

    policy.choose = watched
    outcome = replay(here, jobs, policy)
    assert len(busy) == len(jobs)
    assert all(free[gpus].all() for gpus, free in busy)
    assert (outcome.completion_s > 0).all()


def test_a_job_on_median_gpus_of_one_node_takes_its_own_time():
    jobs = Jobs(CLASSES, np.array([1]), np.array([4]), np.array([5.0]), np.array([100.0]))
    outcome = replay(fleet(np.ones(8)), jobs, POLICIES["packed"](fleet(np.ones(8)), 0))
    assert outcome.completion_s[0] == pytest.approx(100)
    assert outcome.makespan_s == pytest.approx(105)


def test_energy_counts_idle_gpus_too():
    here = fleet(np.ones(8))
    jobs = Jobs(CLASSES, np.array([0]), np.array([4]), np.array([0.0]), np.array([100.0]))
    outcome = replay(here, jobs, POLICIES["packed"](here, 0))
    assert outcome.energy_j == pytest.approx(100 * (4 * 297 + 4 * here.kind.idle_w))


def test_a_job_runs_at_the_pace_of_its_slowest_gpu_and_pays_for_leaving_a_node():
    here = fleet([1.0, 1.0, 1.0, 1.2, 1.0, 1.0, 1.0, 1.0])
    pace, _ = running_at(here, GEMM, np.array([0, 3]), slows_waiting=False)
    assert pace == pytest.approx(1 + 0.97 * 0.2, rel=1e-3)
    across, _ = running_at(here, RESNET, np.array([0, 4]), slows_waiting=False)
    assert across == pytest.approx(RESNET.across)


def test_a_gpu_that_would_wait_is_slowed_down_to_finish_with_the_slowest():
    here = fleet([0.95, 1.0, 1.05])
    gpus = np.arange(3)
    slowest = float(here.work(GEMM).time.max())
    clocks = waiting_clocks(here, GEMM, gpus, slowest)
    assert here.time_at(GEMM, gpus, clocks) == pytest.approx(np.full(3, slowest), rel=1e-6)
    quick, watts = running_at(here, GEMM, gpus, slows_waiting=False)
    same, fewer = running_at(here, GEMM, gpus, slows_waiting=True)
    assert same == pytest.approx(quick)
    assert fewer < watts


def test_work_below_the_power_limit_runs_at_the_highest_clock_on_every_die():
    here = varied()
    assert np.ptp(here.work(PAGERANK).clock_mhz) == 0
    assert here.work(PAGERANK).time.std() < 0.2 * here.work(GEMM).time.std()


def test_the_thriftiest_clock_lies_below_the_highest_for_work_at_the_limit():
    here = varied()
    clock = thriftiest_clock(here, GEMM, np.arange(4))
    assert here.kind.curve.knee_mhz * 0.9 < clock < here.work(GEMM).clock_mhz[:4].min()


def test_three_groups_of_gpus_are_seen_as_three_and_an_outlier_as_itself():
    rng = np.random.default_rng(1)
    groups = np.concatenate([centre + 0.001 * rng.standard_normal(40) for centre in (0.95, 1.0, 1.06)])
    factors = cluster_factors(np.append(groups, 1.5))
    assert len(np.unique(factors)) == 4
    assert factors[-1] == factors.max()


def test_insensitive_work_takes_the_slow_gpu():
    here = fleet([0.95, 1.0, 1.0, 1.1])
    free = np.ones(4, dtype=bool)
    ours = POLICIES[OURS](here, 0)
    assert ours.choose(PAGERANK, 1, free).tolist() == [3]
    assert ours.choose(GEMM, 1, free).tolist() == [0]


@pytest.mark.parametrize("budget_w", [1000.0, 800.0])
def test_a_power_budget_is_kept_and_costs_time_where_a_watt_is_cheapest(budget_w):
    here = fleet(np.ones(4))
    placed = [(GEMM, np.array([0, 1])), (JobClass("copy", 0.1, 0.9), np.array([2, 3]))]
    clocks = [here.work(kind).clock_mhz[gpus] for kind, gpus in placed]
    lowered = clocks_within(here, placed, clocks, budget_w)
    drawn = sum(here.power_at(k, g, c).sum() for (k, g), c in zip(placed, lowered, strict=True))
    assert drawn <= budget_w
    assert lowered[1].min() < lowered[0].min()


def test_an_infeasible_budget_is_refused_in_one_sentence():
    with pytest.raises(CotenantError, match="more than the budget of 100 W"):
        plan(fleet(np.ones(4)), [WaitingJob("a", GEMM, 4, 60)], budget_w=100)


def test_objectives_trade_time_for_energy():
    jobs = [WaitingJob("a", GEMM, 2, 3600), WaitingJob("b", BERT, 1, 3600)]
    soon, thrifty = (plan(varied(8), jobs, objective=objective) for objective in ("time", "energy"))
    assert sum(row.energy_j for row in thrifty.placed) < sum(row.energy_j for row in soon.placed)
    assert max(row.stretch for row in thrifty.placed) > max(row.stretch for row in soon.placed)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_jobs_on_large_nodes_stay_within_one(name):
    here = fleet(1 + 0.001 * np.arange(96), node_size=48)
    chosen = POLICIES[name](here, 0).choose(RESNET, 24, np.ones(96, dtype=bool))
    assert len(set(here.node[chosen])) == (2 if name == "random" else 1)


def test_nodes_of_the_same_number_in_different_cabinets_are_different_nodes():
    def profile(gpu, cabinet):
        return GpuProfile(gpu, cabinet, "1", 3, 2400.0, Interval(1.0), 1.0, 1365.0, 60.0, 297.0, 700.0)

    here = fleet_of([profile("a", "c1"), profile("b", "c1"), profile("c", "c2")])
    assert here.node.tolist() == [0, 0, 1]


def test_when_gpus_are_short_shareable_jobs_pair_up_with_the_least_harmful_partner():
    jobs = [WaitingJob(name, kind, 1, 60, shareable=True) for name, kind in
            (("g1", GEMM), ("g2", GEMM), ("p1", PAGERANK), ("p2", PAGERANK))]  # fmt: skip
    found = plan(fleet([1.0, 1.0]), jobs)
    assert {frozenset((row.job.name[0], row.beside[0])) for row in found.placed} == {frozenset("gp")}
    assert found.waiting == ()


def test_jobs_without_a_gpu_wait():
    found = plan(fleet([1.0, 1.0]), [WaitingJob("a", GEMM, 2, 60), WaitingJob("b", GEMM, 1, 60)])
    assert [job.name for job in found.waiting] == ["b"]


def test_a_large_job_that_came_first_does_not_wait_for_small_ones_that_may_share():
    small = [WaitingJob(f"s{number}", GEMM, 1, 60, shareable=True) for number in range(6)]
    found = plan(fleet([1.0] * 4), [WaitingJob("large", GEMM, 3, 60), *small])
    assert "large" in {row.job.name for row in found.placed}
    assert len(found.placed) == 3, "and two of the small ones on the remaining GPU"
    assert len(found.waiting) == 4
    assert [job.name for job in found.waiting] == sorted(job.name for job in found.waiting)


def test_two_products_on_one_gpu_take_turns():
    jobs = [WaitingJob("a", GEMM, 1, 60, shareable=True), WaitingJob("b", GEMM, 1, 60, shareable=True)]
    assert plan(fleet([1.0]), jobs).placed[0].stretch == pytest.approx(estimated_slowdown(GEMM, GEMM))


@given(st.lists(st.floats(0, 1), min_size=6, max_size=6, unique=True))
def test_pairs_can_not_be_improved_by_exchanging_partners(values):
    pairs = pair_up(values, 3, lambda a, b: abs(a - b))
    total = sum(abs(a - b) for a, b in pairs)
    for (a, b), (c, d) in ((pairs[i], pairs[j]) for i in range(3) for j in range(i)):
        rest = total - abs(a - b) - abs(c - d)
        assert total <= rest + min(abs(a - c) + abs(b - d), abs(a - d) + abs(b - c)) + 1e-9


def test_on_the_gpus_of_a_real_cluster_ours_is_sooner_than_every_other_policy_at_less_energy():
    if not LONGHORN.exists():
        pytest.skip(f"{LONGHORN} not found: measurements of a real cluster are needed")

    from cotenant.planning.gpu_fleet import fleet_of
    from cotenant.store.database.additions import add
    from cotenant.store.database.database import Database
    from cotenant.store.database.questions import variabilities

    with tempfile.TemporaryDirectory() as folder:
        add([LONGHORN], Path(folder) / "db")
        with Database.open(Path(folder) / "db") as database:
            [(_, found)] = variabilities(database, "sgemm")
    here = fleet_of(found.profiles)
    assert len(here) == 392
    for one in compare(here, count=600, seeds=range(1, 7), load=0.9):
        if one.policy != OURS:
            assert one.completion_ratio.lo > 1, one.policy
            assert one.energy_ratio.lo > 1, one.policy
