"""Which GPUs are slow and why, and since when."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cotenant.analyse.variability.drift import find_drift
from cotenant.analyse.variability.slow import power_cap, sick_sensors, slow_gpus
from cotenant.analyse.variability.summary import analyse_variability
from cotenant.analyse.variability.wording import anomalies, headline, opening, undecided_sentences

RUNS = 20


def changed(readings, number, **values):
    """The same fleet with other sensor values for one GPU."""
    columns = {}
    for name, value in values.items():
        columns[name] = getattr(readings, name).copy()
        columns[name][number * RUNS : (number + 1) * RUNS] = value
    return replace(readings, **columns)


def only(readings):
    [found] = slow_gpus(readings)
    return found


def test_slow_at_the_cap_is_silicon(fleet):
    found = only(fleet(slow={5: 1.12}))
    assert (found.gpu, found.cause) == ("GPU-005", "silicon")
    assert found.ratio == pytest.approx(1.12, abs=0.01)
    assert "297 W" in found.because


def test_slow_hot_and_below_the_cap_is_heat_or_a_power_brake(fleet):
    found = only(changed(fleet(slow={5: 1.12}), 5, power_w=250.0, temperature_c=82.0))
    assert found.cause == "heat or power brake"
    assert "hot and below" in found.because


def test_a_low_clock_that_never_moves_is_locked(fleet):
    readings = fleet(slow={5: 1.12}, clock_mhz=None)
    clock = 1365 / np.repeat(readings.gpu_times / 1000, RUNS) + np.tile([0.0, 7.5], 600)
    readings = changed(replace(readings, clock_mhz=clock), 5, clock_mhz=1200.0, power_w=240.0, temperature_c=55.0)
    found = only(readings)
    assert found.cause == "clock locked"
    assert "1200 MHz in all 20 runs" in found.because


def test_slow_at_the_usual_clock_is_not_the_clock(fleet):
    readings = fleet(slow={5: 1.12}, power_w=np.random.default_rng(0).normal(200, 20, 1200))
    readings = changed(readings, 5, clock_mhz=1365.0, temperature_c=60.0)
    assert only(readings).cause == "not the clock"


def test_the_drivers_own_reason_decides_where_it_is_known(fleet):
    readings = replace(fleet(slow={5: 1.12}), reasons=("power cap",) * 5 + ("heat",) + ("power cap",) * 54)
    assert only(readings).cause == "heat or power brake"
    assert "driver names heat" in only(readings).because


def test_a_recorded_limit_takes_the_place_of_an_inferred_cap():
    assert power_cap(np.array([100.0, 200, 250, 300]), 300.0) == (291.0, "the limit of 300 W")
    assert power_cap(np.array([100.0, 200, 250, 300]))[0] is None


def test_a_fleet_without_outliers_has_no_slow_gpu(fleet):
    assert slow_gpus(fleet(between=0.005, gpus=40, seed=2)) == ()


def test_with_few_gpus_three_percent_is_slow(fleet):
    readings = fleet(gpus=4, between=0.0, slow={2: 1.05})
    assert only(readings).gpu == "GPU-002"
    assert slow_gpus(fleet(gpus=4, between=0.0, slow={2: 1.02})) == ()


def test_no_gpu_is_called_slow_where_gpus_are_indistinguishable(fleet):
    found = analyse_variability(fleet(between=0.0, within=0.05, runs=6, seed=1), "resnet")
    assert "indistinguishable" in found.undecided
    assert found.slow == ()
    assert any("indistinguishable" in sentence for sentence in undecided_sentences([found]))


def test_a_power_reading_that_never_changes_over_many_runs_is_sick(fleet):
    readings = fleet(power_w=np.random.default_rng(0).normal(290, 5, 1200))
    [found] = sick_sensors(changed(readings, 9, power_w=46.19))
    assert (found.gpu, found.sensor) == ("GPU-009", "power_w")
    assert "46.2 W in all 20 runs" in found.because


def test_half_the_power_at_full_speed_is_sick(fleet):
    readings = changed(fleet(), 9, power_w=np.linspace(80, 90, RUNS))
    slowest = int(np.argmin(readings.gpu_times))
    readings = changed(fleet(), slowest, power_w=np.linspace(80, 90, RUNS))
    [found] = sick_sensors(readings)
    assert found.gpu == readings.gpus[slowest]


def test_a_gpu_that_became_slow_is_reported_with_the_day(fleet):
    readings = fleet(runs=30, days=29)
    time = readings.time_ms.copy()
    time[4 * 30 + 18 : 5 * 30] *= 1.15
    readings = replace(readings, time_ms=time)
    [step] = [change for change in find_drift(readings).changes if change.gpu == "GPU-004"]
    assert step.kind == "step"
    assert step.by == pytest.approx(0.15, abs=0.01)
    assert step.at_s == pytest.approx(1.6e9 + 18 * 86_400, abs=1)
    found = analyse_variability(readings, "sgemm")
    [slow] = [one for one in found.slow if one.gpu == "GPU-004"]
    assert slow.since_s == step.at_s
    assert any("GPU-004" in sentence and "since 2020-10-01" in sentence for sentence in anomalies(found))


def test_one_bad_run_is_not_a_step_and_noise_is_not_a_change(fleet):
    readings = fleet(runs=30)
    time = readings.time_ms.copy()
    time[4 * 30 + 18] *= 1.5
    assert find_drift(replace(readings, time_ms=time)).changes == ()


def test_random_differences_between_days_are_not_steps(fleet):
    random = np.random.default_rng(4)
    alarms = 0
    for seed in range(20):
        readings = fleet(gpus=12, runs=40, days=9, within=0.005, seed=seed)
        day = ((readings.at_s - 1.6e9) // 86_400).astype(int)
        moods = 1 + 0.02 * random.standard_normal((12, day.max() + 1))
        alarms += bool(find_drift(replace(readings, time_ms=readings.time_ms * moods[readings.gpu, day])).changes)
    assert alarms <= 4  # about 1 is expected; if runs of a day counted as independent, all 20 would alarm


def test_five_ordered_days_of_one_gpu_in_many_are_not_a_drift(fleet):
    readings = fleet(gpus=60, runs=5, days=4)
    time = readings.time_ms.copy()
    time[15:20] = [1000, 1010, 1020, 1030, 1040]
    assert find_drift(replace(readings, time_ms=time)).changes == ()


def test_a_fleet_that_slows_down_drifts_as_a_whole_and_no_gpu_is_blamed(fleet):
    readings = fleet(runs=30, days=60)
    days = (readings.at_s - 1.6e9) / 86_400
    found = find_drift(replace(readings, time_ms=readings.time_ms * (1 + 0.0005 * days)))
    assert found.per_month.est == pytest.approx(0.015, abs=0.002)
    assert found.per_month.lo > 0
    assert all(change.gpu == "" for change in found.changes)


def test_one_gpu_that_drifts_is_named(fleet):
    readings = fleet(runs=30, days=60)
    time = readings.time_ms.copy()
    time[3 * 30 : 4 * 30] *= np.linspace(1, 1.04, 30)
    found = [change for change in find_drift(replace(readings, time_ms=time)).changes if change.gpu]
    assert {change.gpu for change in found} == {"GPU-003"}
    assert sum(change.by for change in found) == pytest.approx(0.04, abs=0.015)


def test_without_times_there_is_no_trend(fleet):
    found = find_drift(fleet(at_s=None))
    assert found.per_month.est is None
    assert found.changes == ()


def test_the_headline_says_spread_source_companions_and_cost(fleet):
    text = " ".join(headline(analyse_variability(fleet(), "sgemm", simulated=True)))
    for part in ("Simulated: sgemm on 60 GPUs", "whiskers over median", "between GPUs", "clock (-", "synchronous job"):
        assert part in text
    assert re.search(r"takes 1\.\d{3} times as long on 4 random GPUs as on median ones, 1\.\d{3} on 32", text)


def test_over_many_kinds_of_work_three_findings_come_first(fleet):
    calm = analyse_variability(fleet(), "bert")
    troubled = analyse_variability(fleet(slow={5: 1.12}), "sgemm")
    apart, slow, cost = opening([calm, troubled])
    assert apart.startswith("60 GPUs differ most under ")
    assert apart.endswith(" of 2 kinds of work by 1 % or more.")
    assert slow.startswith("Under sgemm GPU-005 (cabinet c0, node n1) is 12 % slower than the median GPU: silicon;")
    assert cost.startswith("A job on ")
    assert "waits for the slowest" in cost
    assert opening([calm])[1] == "No GPU is slow here."
    assert opening([calm, calm])[1] == "No GPU is slow under any of 2 kinds of work."


def test_gpus_that_are_alike_open_without_a_cost(fleet):
    readings = fleet()
    alike = analyse_variability(replace(readings, time_ms=readings.time_ms**0.01), "sgemm")
    apart, slow = opening([alike, alike])
    assert apart.endswith("under none of 2 kinds of work by 1 % or more.")
    assert slow.startswith("No GPU is slow under any")
