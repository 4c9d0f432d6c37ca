"""Measures of fleets by their definitions, on small fleets worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates.warmup import Step
from cotenant.analyse.variability import decomposition, drift, variation
from cotenant.analyse.variability.readings import FleetReadings
from cotenant.tenancy.interval import Estimate, Missing

DAY = 86_400.0


def readings(times, **more):
    """Readings of GPUs g0, g1, ...: a list of times for each."""
    gpu = [f"g{number}" for number, runs in enumerate(times) for _ in runs]
    return FleetReadings.of(gpu, [time for runs in times for time in runs], **more)


# --- readings


def test_medians_by_gpu_leave_out_what_was_not_read():
    fleet = readings([[3, 1, 2], [4, 10], [7]], clock_mhz=[1, math.nan, 5, math.nan, math.nan, 9])
    assert fleet.gpu_times.tolist() == [2, 7, 7]
    assert fleet.medians(fleet.clock_mhz)[[0, 2]].tolist() == [3, 9]
    assert math.isnan(fleet.medians(fleet.clock_mhz)[1])
    assert (fleet.counts.tolist(), fleet.starts.tolist(), len(fleet)) == ([3, 2, 1], [0, 3, 5, 6], 6)


@pytest.mark.parametrize(
    ("names", "noun"),
    [(["cpu", "cpu:3"], "core"), (["cpu", "g"], "device"), (["a", "b"], "GPU"), (["a cpu:0-3"], "core")],
)
def test_what_they_are_called(names, noun):
    assert FleetReadings.of(names, [1.0] * len(names)).noun == noun


# --- how far apart


def test_whiskers_end_at_the_outermost_value_within_one_and_a_half_ranges():
    values = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 20, -8])
    low, middle, high = np.percentile(values, [25, 50, 75])
    assert (low, middle, high) == (2.5, 5, 7.5)
    assert variation.whisker_range(values) == pytest.approx((9 - 1) / 5)
    assert variation.upper_fence(values) == pytest.approx(15)
    edge = np.array([0.0, 1, 2, 3, 4, 5, 6, 13.5])
    low, _, high = np.percentile(edge, [25, 50, 75])
    assert variation.whisker_range(np.append(edge[:-1], high + 1.5 * (high - low))) > 0


def test_each_measure_of_a_small_fleet():
    fleet = readings([[10, 12], [11, 11], [30, 30]])
    found = variation.variation(fleet)
    assert (found.runs, found.gpus, found.median_ms) == (6, 3, 11.5)
    assert found.max_over_median.est == pytest.approx(30 / 11.5)
    assert found.cv.est == pytest.approx(np.std([11, 11, 30], ddof=1) / np.mean([11, 11, 30]))
    within = [math.sqrt(2) / 11, 0.0, 0.0]
    assert variation.repeatability(fleet) == pytest.approx(within)
    assert found.repeatability.est == 0.0
    assert found.repeatability_p95 == pytest.approx(np.percentile(within, 95))
    assert found.cv.lo is None, "no interval from three GPUs"
    single = variation.variation(readings([[10], [11]]))
    assert isinstance(single.repeatability, Missing)
    assert single.repeatability_p95 is None
    out = variation.variation(readings([[10, 11, 12, 13], [10, 11, 12, 99]]))
    assert out.outliers == pytest.approx(1 / 8)


def test_intervals_are_percentiles_over_resampled_gpus(fleet):
    many = fleet(gpus=40, runs=3)
    found = variation.variation(many)
    draws = decomposition.draws_of(40)
    times = many.gpu_times[draws]
    assert (found.cv.lo, found.cv.hi) == pytest.approx(
        tuple(np.quantile(times.std(axis=1, ddof=1) / times.mean(axis=1), [0.025, 0.975]))
    )
    ratios = [
        max(many.time_ms.reshape(40, 3)[drawn].ravel()) / np.median(np.repeat(many.time_ms.reshape(40, 3)[drawn], 1))
        for drawn in draws[:200]
    ]
    assert found.max_over_median.hi == pytest.approx(np.quantile(ratios, 0.975), rel=0.01)
    assert found.whisker_range.lo < found.whisker_range.est < found.whisker_range.hi


def test_many_runs_are_represented_by_quantiles():
    fleet = readings([list(range(1, 101)), [5.0] * 4])
    values, weights = variation._reduced(fleet, 20)
    assert values.shape == (2, 10)
    assert values[0].tolist() == [1, 12, 23, 34, 45, 56, 67, 78, 89, 100]
    assert (weights[0] == 10).all()
    assert weights[1].tolist() == [1] * 4 + [0] * 6


def test_profiles_and_boxes():
    fleet = readings(
        [[10, 14], [20]],
        clock_mhz=[1000, 1200, math.nan],
        power_w=[100, 100, math.nan],
        cabinet=["c", "c", ""],
        node=["n", "n", "m"],
    )
    first, second = variation.gpu_profiles(fleet)
    assert (first.time_ms, first.relative_time.est, first.worst_relative_time) == (12, 12 / 14, 1.0)
    half = stats.t.ppf(0.975, 1) * math.sqrt(8) / math.sqrt(2)
    assert first.relative_time.ends == pytest.approx(((12 - half) / 14, (12 + half) / 14))
    assert (first.clock_mhz, first.power_w, first.energy_j, first.runs) == (1100, 100, 1.2, 2)
    assert (second.relative_time.lo, second.relative_time.hi, second.clock_mhz, second.energy_j) == (None,) * 4
    assert (first.cabinet, first.node, second.cabinet, second.node) == ("c", "n", "", "m")
    slow, fast = readings([[9, 10, 11, 12, 30]]), readings([[1.0, 2, 3]])
    (box,) = variation.boxes(slow)
    assert (box.low, box.q1, box.median, box.q3, box.high, box.outliers, box.runs) == (9, 10, 11, 12, 12, 1, 5)
    assert variation.boxes(fast)[0].outliers == 0
    assert [each.gpu for each in variation.boxes(readings([[5, 6], [1, 2]]))] == ["g1", "g0"]


# --- where the variance comes from


@pytest.mark.parametrize(("gpus", "count"), [(1, 1000), (4000, 1000), (8000, 500), (10**6, 200)])
def test_as_many_resamples_as_a_second_allows(gpus, count):
    assert decomposition.resamples_for(gpus) == count


def test_draws_are_counted():
    assert decomposition.counted(np.array([[0, 0, 2], [1, 1, 1]])).tolist() == [[2, 0, 1], [0, 3, 0]]
    assert decomposition.draws_of(7).shape == (1000, 7)


@pytest.mark.parametrize(
    ("value", "resampled", "gpus", "lo"),
    [(math.nan, 100, 9, "missing"), (2.0, 100, 4, None), (2.0, 99, 5, None), (2.0, 100, 5, 0.025)],
)
def test_an_estimate_over_gpus_needs_five_and_a_hundred_resamples(value, resampled, gpus, lo):
    found = decomposition.estimated(value, lambda: np.append(np.linspace(0, 1, resampled), math.nan), gpus)
    if lo == "missing":
        assert isinstance(found, Missing)
    else:
        assert (found.est, found.n, found.lo) == (2.0, gpus, lo if lo is None else pytest.approx(lo))
        assert found.hi == (None if lo is None else pytest.approx(0.975))


def test_components_of_a_balanced_nest_are_those_of_the_analysis_of_variance():
    random = np.random.default_rng(3)
    outer, inner, repeats = 4, 3, 5
    values = (
        random.normal(0, 3, (outer, 1, 1))
        + random.normal(0, 2, (outer, inner, 1))
        + random.normal(0, 1, (outer, inner, repeats))
    )
    a, b = np.repeat(np.arange(outer), inner * repeats), np.tile(np.repeat(np.arange(inner), repeats), outer)
    found = decomposition.variance_components(values.ravel(), {"a": a.tolist(), "b": b.tolist()})
    cells = values.mean(axis=2)
    rest = ((values - cells[:, :, None]) ** 2).sum() / (outer * inner * (repeats - 1))
    between_b = repeats * ((cells - cells.mean(axis=1, keepdims=True)) ** 2).sum() / (outer * (inner - 1))
    between_a = inner * repeats * ((cells.mean(axis=1) - values.mean()) ** 2).sum() / (outer - 1)
    expected = [(between_a - between_b) / (inner * repeats), (between_b - rest) / repeats, rest]
    assert [component.variance for component in found] == pytest.approx(expected)
    assert [component.groups for component in found] == [4, 12, 60]
    assert [component.share for component in found] == pytest.approx([each / sum(expected) for each in expected])
    assert [component.level for component in found] == ["a", "b", "residual"]


@pytest.mark.parametrize(
    ("values", "levels", "why"),
    [
        ([1.0], {"a": [0]}, "two groups"),
        ([1.0, 2.0], {"a": [0, 0]}, "two groups"),
        ([1, 2, 3.0], {"a": [0, 1]}, "labels 2 values"),
        ([1, 2, 3, 4.0], {"a": [0, 0, 1, 1], "b": [5, 5, 6, 6]}, "splits nothing"),
        ([1, 2.0], {"a": [0, 1]}, "splits nothing"),
    ],
)
def test_levels_that_say_nothing_are_refused(values, levels, why):
    with pytest.raises(ValueError, match=why):
        decomposition.variance_components(values, levels)


def test_a_level_without_an_effect_has_no_variance():
    found = decomposition.variance_components([1.0, -1.0, 1.0, -1.0], {"a": [0, 0, 1, 1]})
    assert (found[0].variance, found[1].share) == (0.0, 1.0)


@pytest.mark.parametrize(("alone", "chance", "beyond"), [(0.5, 0.2, 0.375), (0.1, 0.2, 0.0), (0.5, 1.0, 0.0)])
def test_what_a_level_explains_beyond_chance(alone, chance, beyond):
    assert decomposition.VarianceLevel("gpu", 3, alone, chance, 0.0).beyond_chance == pytest.approx(beyond)


def test_shares_of_levels_alone_by_chance_and_added():
    times = [[10.0, 11], [10, 12], [20, 21], [22, 20], [20, 20]]
    nodes = ["n0"] * 4 + ["n1"] * 6
    found = decomposition.decompose(readings(times, node=nodes))
    flat = np.array(times).ravel()
    whole = ((flat - flat.mean()) ** 2).sum()
    by_gpu = sum(2 * (np.mean(runs) - flat.mean()) ** 2 for runs in times) / whole
    by_node = sum(len(part) * (part.mean() - flat.mean()) ** 2 for part in (flat[:4], flat[4:])) / whole
    node, gpu = found.level("node"), found.level("gpu")
    assert (node.alone, gpu.alone) == pytest.approx((by_node, by_gpu))
    assert (node.groups, gpu.groups) == (2, 5)
    assert (node.by_chance, gpu.by_chance) == pytest.approx((1 / 9, 4 / 9))
    assert (node.added, gpu.added, found.unexplained) == pytest.approx((by_node, by_gpu - by_node, 1 - by_gpu))
    assert found.between_gpus.est == pytest.approx(by_gpu)
    assert [component.level for component in found.components] == ["node", "gpu", "residual"]
    assert (found.level("day"), found.with_jobs, found.job_component, found.notes) == (None, (), None, ())
    assert {level["level"] for level in found.to_json()["levels"]} == {"node", "gpu"}


def test_the_share_between_gpus_needs_several_of_both_and_variation():
    for times in ([[1.0, 2.0]], [[1.0], [2.0]], [[5.0, 5.0], [5.0]]):
        assert isinstance(decomposition.between_gpus(readings(times)), Missing)
    assert decomposition.between_gpus(readings([[1.0, 2.0], [2.0]])).est > 0


def test_runs_that_began_together_on_a_node_are_a_job_if_every_run_has_its_own():
    times = [[10.0 + gpu + run for run in range(6)] for gpu in range(4)]
    at = [100.0 * run for _ in range(4) for run in range(6)]
    more = {"node": ["n"] * 24, "at_s": at}
    own = decomposition.decompose(readings(times, job=[str(number) for number in range(24)], **more))
    assert own.level("job").groups == 6
    assert any("every run has its own job number" in note for note in own.notes)
    shared = decomposition.decompose(readings(times, job=["a", "b"] * 12, **more))
    assert (shared.level("job").groups, shared.notes) == (2, ())
    assert shared.job_component is not None
    missing = decomposition.decompose(readings(times, node=["n"] * 6 + [""] * 18))
    assert missing.notes == ("the node of 18 of 24 runs is unknown; they count as one node",)


# --- over time


def change(gpu="g0", kind="step", at=5.0, before=1.0, after=1.2):
    return drift.Change(gpu, kind, at, before, after)


def test_a_change_is_relative_and_the_last_step_over_the_fence_tells_since_when():
    assert change(before=0.8, after=1.0).by == pytest.approx(0.25)
    assert change().to_json()["by"] == pytest.approx(0.2)
    steps = (
        change(at=1.0),
        change(at=2.0, before=1.2, after=1.0),
        change(at=3.0),
        change("g1", at=9.0),
        change(kind="drift", at=8.0),
    )
    assert drift.slow_since(steps, "g0", 1.0, 1.1) == 3.0
    assert drift.slow_since(steps, "g0", 1.0, 1.3) is None
    assert drift.slow_since((change(),), "g0", 1.0, 1.0) == 5.0
    assert drift.slow_since((change(after=1.1),), "g0", 1.0, 1.1) is None


def test_the_slope_of_days_is_per_month_and_needs_five():
    days, medians = np.arange(5.0), 1 + 0.01 * np.arange(5)
    found = drift._slope(days, medians)
    assert (found.est, found.n) == (pytest.approx(0.3), 5)
    assert found.lo == pytest.approx(0.3)
    assert isinstance(drift._slope(days[:4], medians[:4]), Missing)


def test_days_have_medians():
    days, medians = drift._days_of(np.array([0.1, 0.2, 0.9, 2.5]) * DAY, np.array([1, 5, 3, 7.0]))
    assert (days.tolist(), medians.tolist()) == ([0.0, 2 * DAY], [3.0, 7.0])


def test_noise_that_lasts_is_that_of_means_over_stretches():
    random = np.random.default_rng(1)
    slow = np.repeat(random.normal(size=40), 8)
    assert drift._lasting_noise([slow + 0.01 * random.normal(size=320)]) > 1.0
    white = [random.normal(size=320)]
    assert drift._lasting_noise(white) == pytest.approx(1.0, abs=0.35)
    assert drift._lasting_noise([np.array([1, 2, 1, 2.0])]) == pytest.approx(1.4826 / math.sqrt(2))


def test_a_line_is_a_drift_and_a_jump_is_a_step():
    at = np.arange(10.0)
    steps = [Step(5, 0.0, 1.0, 0.1)]
    assert drift._line_fits_better(at, at / 10, steps)
    assert not drift._line_fits_better(at, (at >= 5).astype(float), steps)


def test_single_bad_runs_are_not_steps_and_lasting_ones_of_two_percent_are():
    level = np.array([1.0] * 10 + [1.05] * 10)
    (step,) = drift._steps(level, 1, 0.001)
    assert (step.at, step.before, step.after) == (10, pytest.approx(1.0), pytest.approx(1.05))
    spike = np.ones(20)
    spike[7] = 2.0
    assert drift._steps(spike, 1, 0.001) == []
    assert drift._steps(np.array([1.0] * 10 + [1.019] * 10), 1, 0.0001) == []
    assert drift._fleet_steps(np.arange(7.0), np.array([1, 1, 1, 1, 2, 2, 2.0]), 9) == []
    found = drift._fleet_steps(np.arange(20.0) + 100, level, 2)
    assert (found[0].gpu, found[0].kind, found[0].at_s) == ("", "step", 110 * DAY)
    assert drift._fleet_steps(np.arange(20.0), level, 1) == []


def test_a_steady_rise_is_a_drift_if_it_is_clear_and_large_enough():
    at = np.arange(12) * DAY
    found = drift._drifted("g", at, 1 + 0.01 * np.arange(12.0), 1)
    assert (found.kind, found.at_s, found.before, found.after) == (
        "drift",
        0.0,
        pytest.approx(1.0),
        pytest.approx(1.11),
    )
    assert drift._drifted("g", at, 1 + 0.001 * np.arange(12.0), 1) is None
    assert drift._drifted("g", at[:4], 1 + 0.1 * np.arange(4.0), 1) is None
    assert drift._drifted("g", at[:5], 1 + 0.1 * np.arange(5.0), 1) is not None
    assert drift._drifted("g", at[:5], 1 + 0.1 * np.arange(5.0), 2) is None, "five days ascend by chance in 1 of 60"
    assert drift._drifted("g", at, 1 + 0.1 * (np.arange(12) % 2), 1) is None


def test_the_fleet_by_day(fleet):
    found = drift.find_drift(fleet(gpus=12, runs=10, days=9))
    assert found.days == pytest.approx(9)
    assert sum(runs for _, _, runs in found.daily) == 120
    assert all(ratio == pytest.approx(1, abs=0.01) for _, ratio, _ in found.daily)
    assert isinstance(found.per_month, Estimate)
    assert drift.find_drift(readings([[1.0, 2.0]])).days == 0.0
    assert [row["runs"] for row in found.to_json()["daily"]] == [runs for _, _, runs in found.daily]


def test_the_first_run_counts_among_the_levels_and_in_the_line():
    at, values = np.arange(4.0), np.array([4.0, 0.0, 0.0, 0.0])
    steps = [Step(2, 2.0, 0.0, 0.1)]
    # Around the levels 2 and 0: 4 + 4. Around the line 1 - 1.2 (t - 1.5): 12 - 1.44 x 5 = 4.8.
    assert drift._line_fits_better(at, values, steps)


def test_a_day_has_24_hours_and_days_without_runs_are_none():
    noon = 19_000 * DAY + DAY / 2
    at_s = [noon, noon + DAY / 2 - 1, noon + DAY / 2, noon + 3 * DAY, math.nan]
    found = drift.find_drift(readings([[10.0, 10.0, 20.0, 10.0, 10.0]], at_s=at_s))
    assert [(at, runs) for at, _, runs in found.daily] == [
        (19_000 * DAY, 2), (19_001 * DAY, 1), (19_003 * DAY, 1),
    ]  # fmt: skip
    assert [middle for _, middle, _ in found.daily] == [1.0, 2.0, 1.0]
    assert found.days == pytest.approx(3.0)


@pytest.mark.parametrize(("last_s", "days"), [(DAY - 1, 1), (DAY, 2)])
def test_the_variance_of_days_begins_with_the_second_day(last_s, days):
    begin = 20_000 * DAY
    at_s = [begin, begin + 1, begin + 2, begin + last_s] * 2
    times = [[1.0, 1.1, 1.2, 1.5], [1.0, 1.2, 1.1, 1.4]]
    found = decomposition.decompose(readings(times, at_s=at_s))
    assert [level.groups for level in found.levels if level.level == "day"] == [days][: days - 1]
