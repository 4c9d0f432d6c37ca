"""On measurements of 392 real V100s in a database: values computed independently."""

import os
from pathlib import Path

import numpy as np
import pytest

from cotenant.analyse.variability.sensor_quality import compare_sensors
from cotenant.store import imports as importing
from cotenant.store.database.additions import add
from cotenant.store.database.database import Database
from cotenant.store.database.questions import stuck_sensors, variabilities

DATA = Path(os.environ.get("COTENANT_DATA", Path(__file__).parents[4] / "shared" / "data")) / "power"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no measured data: set COTENANT_DATA to its folder")
SICK = {"GPU-87570fdd", "GPU-bf17fd1b", "GPU-8bd5126e", "GPU-8ebc1398"}


@pytest.fixture(scope="module")
def works(tmp_path_factory):
    home = tmp_path_factory.mktemp("longhorn") / "db"
    add([DATA / f"v100_{name}-longhorn.csv" for name in ("sgemm", "resnet", "bert")], home)
    with Database.open(home) as database:
        return {work.work: found for work, found in variabilities(database)}


def test_sgemm_varies_by_nine_percent_and_gpus_repeat_themselves(works):
    found = works["sgemm"].variation
    assert (found.runs, found.gpus) == (11_087, 392)
    assert found.whisker_range.est == pytest.approx(0.0874, abs=0.0005)
    assert found.whisker_range.lo < 0.0874 < found.whisker_range.hi
    assert found.max_over_median.est == pytest.approx(1.21, abs=0.005)
    assert found.cv.est == pytest.approx(0.0199, abs=0.0002)
    assert found.repeatability.est == pytest.approx(0.00125, abs=0.00003)
    assert found.repeatability_p95 == pytest.approx(0.0035, abs=0.0001)


def test_its_variance_lies_between_gpus(works):
    found = works["sgemm"].decomposition
    assert found.between_gpus.est == pytest.approx(0.971, abs=0.001)
    assert next(one.share for one in found.components if one.level == "gpu") > 0.93


def test_its_time_correlates_with_the_clock_and_not_with_power(works):
    found = works["sgemm"].correlations
    assert found["clock_mhz"].est == pytest.approx(-0.98, abs=0.005)
    assert found["temperature_c"].est == pytest.approx(0.53, abs=0.01)
    assert found["power_w"].est == pytest.approx(0.0, abs=0.02)


def test_the_four_sick_gpus_are_named_with_their_cause(works):
    causes = {one.gpu[:12]: one.cause for one in works["sgemm"].slow}
    assert {gpu for gpu, cause in causes.items() if cause == "heat or power brake"} == SICK
    assert set(causes.values()) == {"heat or power brake", "silicon"}


def test_a_synchronous_job_pays_for_the_slowest(works):
    found = works["sgemm"].straggler
    for gpus, cost in ((4, 1.020), (8, 1.029), (16, 1.039), (64, 1.073), (256, 1.157)):
        assert found[gpus].est == pytest.approx(cost, abs=0.002)


def test_nothing_drifts_over_six_weeks_and_only_slow_gpus_step(works):
    found = works["sgemm"].drift
    assert abs(found.per_month.est) < 0.001
    assert {change.gpu[:12] for change in found.changes} <= SICK | {"GPU-01f6142b"}


@pytest.mark.parametrize(("work", "range_", "share"), [("resnet", 0.205, 0.138), ("bert", 0.075, 0.207)])
def test_applications_vary_by_job_and_not_by_gpu(works, work, range_, share):
    found = works[work]
    assert found.variation.whisker_range.est == pytest.approx(range_, abs=0.001)
    assert found.decomposition.between_gpus.est == pytest.approx(share, abs=0.002)
    assert found.decomposition.job_component > 0.85
    assert next((one.share for one in found.decomposition.components if one.level == "gpu"), 0) < 0.05
    assert found.slow == ()


def test_the_stuck_sensor_is_caught_and_healthy_ones_are_not(tmp_path):
    add(sorted((DATA / "sensors").glob("*.csv")), tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        [found] = stuck_sensors(database)
    assert found.gpu == "stuck_sensor.csv: GPU 0"
    assert found.stuck.value == pytest.approx(46.19)
    assert (found.stuck.witness_from, found.stuck.witness_to) == (32, 63)


def test_a_vendors_average_is_seen_to_be_one_of_a_second():
    series = {one.sensor: one for one in importing.read(DATA / "sensors" / "a5000_transient.csv").series}
    fine, coarse = series["power_instant_w"], series["power_average_w"]
    begin = int(fine.t_ns[0])
    at = [np.asarray((one.t_ns - begin) / 1e9) for one in (fine, coarse)]
    found = compare_sensors(at[0], fine.value, at[1], coarse.value)
    assert found.window_s == 1.0
    assert found.gain == pytest.approx(1.0, abs=0.1)  # one step up and one down: few transitions to detect it by
    assert found.held_out_rmse < found.uncorrected_rmse / 2
