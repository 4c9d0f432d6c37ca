"""Judging predictions: left-out rows stay out, and the baselines are real."""

import numpy as np
import pytest

from cotenant.prediction.interference.covariance import GPU
from tests.prediction.interference.synthetic_matrix import TENANTS, measured, pairs, profiles, setting
from validation.interference.gavel_data import Job
from validation.interference.gavel_matrix import Matrix
from validation.interference.judged import judged
from validation.interference.protocols import both_new, grown, new_jobs
from validation.interference.trees import boosted


@pytest.fixture(scope="module")
def matrix():
    where = setting()
    jobs = tuple(Job(f"job {number}", f"model-{number // 2}", 1, 0.01) for number in range(TENANTS))
    return Matrix("V100", jobs, where, measured(where, pairs()), profiles().features())


def test_a_new_jobs_family_is_left_out_except_for_its_given_pairs(matrix):
    families = np.array(matrix.families)
    for given in (0, 2):
        for job, (_, split) in enumerate(new_jobs(matrix, GPU, given, lambda _: matrix.setting)):
            own = (families[matrix.evidence.rows] == split.family).any(axis=1)
            assert np.unique(matrix.evidence.cell[split.train][own[split.train]]).size == given
            assert (matrix.evidence.rows[split.test] == job).any(axis=1).all()
            assert not np.intersect1d(split.train, split.test).size


def test_of_two_new_families_nothing_is_known(matrix):
    families = np.array(matrix.families)
    for split in both_new(matrix):
        new = set(split.family.split(" + "))
        assert not np.isin(families[matrix.evidence.rows[split.train]], list(new)).any()
        assert set(families[matrix.evidence.rows[split.test]].ravel()) == new


def test_a_matrix_grows_by_the_requested_number_of_pairs(matrix):
    split = grown(matrix, GPU, 20)
    assert np.unique(matrix.evidence.cell[split.train]).size == 20
    found = judged(matrix, [(matrix.setting, split)], GPU, trees=False)
    ours = found.error()
    assert ours.value < min(ours.baselines[name] for name in ("constant", "prior only"))


def test_boosted_trees_find_a_step():
    features = np.random.default_rng(0).uniform(size=(200, 3))
    values = np.where(features[:, 1] > 0.4, 1.0, 0.0)
    asked = np.array([[0.5, 0.1, 0.5], [0.5, 0.9, 0.5]])
    assert boosted(features, values, asked) == pytest.approx([0.0, 1.0], abs=0.01)
