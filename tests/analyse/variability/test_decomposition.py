"""Sources of variance: built in at one level, found at that level."""

import numpy as np
import pytest

from cotenant.analyse.variability.decomposition import decompose
from cotenant.analyse.variability.readings import FleetReadings


def component(found, name):
    return next(one.share for one in found.components if one.level == name)


def test_variance_between_gpus_is_found_there(fleet):
    found = decompose(fleet(gpus=100))
    assert found.between_gpus.est > 0.99
    assert found.between_gpus.lo < found.between_gpus.est <= found.between_gpus.hi
    assert component(found, "gpu") > 0.9
    assert found.level("cabinet").beyond_chance < 0.15
    assert sum(level.added for level in found.levels) + found.unexplained == pytest.approx(1)


def test_noise_explains_no_more_than_chance(fleet):
    found = decompose(fleet(between=0.0, within=0.01, runs=4))
    level = found.level("gpu")
    assert level.alone == pytest.approx(level.by_chance, abs=0.06)
    assert component(found, "residual") > 0.8


def test_a_slow_node_is_attributed_to_the_node_not_the_gpus():
    random = np.random.default_rng(3)
    gpu = np.repeat(np.arange(80), 10)
    node = gpu // 4
    time = 100 * (1 + 0.03 * random.standard_normal(20)[node]) * (1 + 0.002 * random.standard_normal(gpu.size))
    found = decompose(FleetReadings.of([f"g{n:02d}" for n in gpu], time, node=[f"n{n}" for n in node]))
    assert component(found, "node") > 0.95
    assert component(found, "gpu") < 0.02
    assert found.level("gpu").added < 0.02


def test_jobs_are_found_although_each_run_has_its_own_number():
    random = np.random.default_rng(4)
    job = np.repeat(np.arange(100), 4)  # four GPUs of one node share a job
    gpu = (job % 10) * 4 + np.tile(np.arange(4), 100)
    time = 100 * (1 + 0.05 * random.standard_normal(100)[job]) * (1 + 0.001 * random.standard_normal(400))
    found = decompose(
        FleetReadings.of(
            [f"g{n:02d}" for n in gpu],
            time,
            node=[f"n{n % 10}" for n in job],
            job=[str(n) for n in range(400)],
            at_s=1e9 + 1000.0 * job,
        )
    )
    assert found.job_component > 0.9
    assert component(found, "gpu") < 0.1
    assert any("began on one node in the same second" in note for note in found.notes)


def test_a_change_from_day_to_day_is_distinguished_from_noise():
    random = np.random.default_rng(5)
    gpu, day = np.repeat(np.arange(30), 40), np.tile(np.repeat(np.arange(10), 4), 30)
    shift = 0.01 * random.standard_normal((30, 10))[gpu, day]
    time = 100 * (1 + shift) * (1 + 0.001 * random.standard_normal(gpu.size))
    found = decompose(FleetReadings.of([f"g{n:02d}" for n in gpu], time, at_s=86_400.0 * day + 3600))
    assert component(found, "day") > 0.9


def test_equal_times_and_single_runs_do_not_crash():
    assert decompose(FleetReadings.of(["a", "a", "b", "b"], [1.0, 1, 1, 1])).between_gpus.est is None
    assert decompose(FleetReadings.of(["a", "b"], [1.0, 2.0])).between_gpus.est is None
