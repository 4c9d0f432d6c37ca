"""Complete matrices: how often an A/A study alarms, and how often a real effect is found."""

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates.effects import holm, independent_effect

CELLS, LEVEL = 50, 0.05


def matrix(rng, *, blocks, effects, noise=0.01, drift=0.05, correlation=0.5):
    """Log ratios of a matrix of cells: noise shared by a block's cells, outliers, and a drift along the run."""
    common = rng.normal(0, noise * np.sqrt(correlation), (1, blocks))
    own = rng.normal(0, noise * np.sqrt(1 - correlation), (CELLS, blocks))
    outliers = rng.choice([-1, 1], (CELLS, blocks)) * 5 * noise * (rng.random((CELLS, blocks)) < 0.03)
    within_block = drift / blocks * rng.uniform(-0.5, 0.5, (CELLS, blocks))
    return np.log1p(np.asarray(effects))[:, None] + common + own + outliers + within_block


def alarms(logs):
    return holm(stats.ttest_1samp(logs, 0, axis=1).pvalue) <= LEVEL


@pytest.mark.parametrize("blocks", [4, 8, 11])
def test_a_matrix_of_same_against_same_alarms_at_most_at_the_stated_level(blocks):
    rng = np.random.default_rng(blocks)
    studies = [alarms(matrix(rng, blocks=blocks, effects=np.zeros(CELLS))).any() for _ in range(200)]
    assert np.mean(studies) <= LEVEL + 0.03  # two standard errors of 200 studies


def test_without_the_correction_most_matrices_would_alarm():
    rng = np.random.default_rng(0)
    studies = [
        stats.ttest_1samp(matrix(rng, blocks=8, effects=np.zeros(CELLS), correlation=0.0), 0, axis=1).pvalue.min()
        for _ in range(30)
    ]
    assert np.mean(np.array(studies) <= LEVEL) > 0.8


def test_a_slowdown_of_five_per_cent_in_one_cell_is_found_and_named():
    """Power of at least 90 % with 8 blocks at 1 % noise, after correction for 50 cells."""
    rng = np.random.default_rng(1)
    effects = np.zeros(CELLS)
    effects[17] = 0.05
    found = np.array([alarms(matrix(rng, blocks=8, effects=effects)) for _ in range(60)])
    assert found[:, 17].mean() >= 0.9
    assert np.delete(found, 17, axis=1).any(axis=1).mean() <= LEVEL + 0.06


def test_two_runs_of_the_same_study_alarm_at_most_at_the_stated_level():
    rng = np.random.default_rng(2)
    any_alarm = []
    for _ in range(100):
        one, two = np.exp(rng.normal(0, 0.02, (2, CELLS, 6)))
        p_values = [independent_effect(a, b).p_value for a, b in zip(one, two, strict=True)]
        any_alarm.append((holm(p_values) <= LEVEL).any())
    assert np.mean(any_alarm) <= LEVEL + 0.04
