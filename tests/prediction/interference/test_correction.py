"""The correction learns from evidence, states its uncertainty, and leaves the rest to the prior."""

import numpy as np
import pytest

from cotenant.prediction.interference.correction import Correction, no_evidence
from cotenant.prediction.interference.covariance import GPU, atoms_of, covariance
from cotenant.prediction.interference.setting import by_victim, every_mix, mixes_of
from tests.prediction.interference.synthetic_matrix import measured, pairs, setting


def rows_of(mixes):
    return by_victim(mixes)[2]


def test_without_evidence_the_prior_is_unchanged():
    correction = Correction(setting(), no_evidence(), GPU)
    rows = rows_of(pairs())
    assert not correction.mean(rows).any()
    assert (correction.variance(rows) > GPU.noise).all()


def test_evidence_removes_a_third_of_the_error_on_unmeasured_pairs():
    where = setting()
    everything = pairs()
    known, rest = everything[::3], np.delete(everything, slice(None, None, 3), axis=0)
    correction = Correction(where, measured(where, known), GPU)
    truth = measured(where, rest, noise=0.0)
    prior = where.prior(truth.rows)[:, 0]
    without = np.abs(truth.logs - prior).mean()
    with_evidence = np.abs(truth.logs - prior - correction.mean(truth.rows)).mean()
    assert with_evidence < 0.65 * without


def test_means_of_all_pairs_match_the_full_covariance():
    where = setting()
    evidence = measured(where, np.concatenate([pairs()[::5]]))
    correction = Correction(where, evidence, GPU)
    rows = rows_of(pairs())
    across = covariance(where, GPU, atoms_of(where, rows), atoms_of(where, evidence.rows))
    within = covariance(where, GPU, atoms_of(where, evidence.rows), atoms_of(where, evidence.rows))
    within += np.diag(evidence.variance + GPU.noise + 1e-8)
    expected = across @ np.linalg.solve(within, correction.residual)
    assert correction.mean(rows) == pytest.approx(expected, abs=1e-9)


def test_variances_of_all_pairs_match_the_full_covariance():
    where = setting()
    evidence = measured(where, np.concatenate([pairs()[::5]]))
    rows = rows_of(pairs())
    correction = Correction(where, evidence, GPU)
    assert correction.variance(rows) == pytest.approx(np.diag(correction.posterior(rows)) + GPU.noise, abs=1e-9)


def test_a_group_is_never_more_certain_than_its_pairs():
    where = setting()
    correction = Correction(where, measured(where, pairs()[::3]), GPU)
    rows = rows_of(mixes_of([(0, 3, 7), (1, 2, 5)]))
    assert (correction.variance(rows) >= np.diag(correction.posterior(rows))).all()


def test_leaving_out_in_closed_form_equals_refitting():
    where = setting()
    evidence = measured(where, pairs()[::4])
    errors, deviations = Correction(where, evidence, GPU).left_out(evidence.cell)
    mine = np.flatnonzero(evidence.cell == evidence.cell[4])
    others = np.flatnonzero(evidence.cell != evidence.cell[4])
    without = Correction(where, evidence.only(others), GPU)
    rows = evidence.rows[mine]
    assert errors[mine] == pytest.approx(evidence.logs[mine] - where.prior(rows)[:, 0] - without.mean(rows), abs=1e-6)
    assert deviations[mine] == pytest.approx(np.sqrt(without.variance(rows) + evidence.variance[mine]), rel=1e-4)


def test_a_groups_correction_is_a_mean_of_its_pairs_never_their_sum():
    where = setting()
    correction = Correction(where, measured(where, pairs()[::2]), GPU)
    group = rows_of(mixes_of([(0, 3, 7)]))[:1]
    of_pairs = correction.mean(np.array([[0, 3], [0, 7]]))
    assert min(of_pairs) - 1e-9 <= correction.mean(group)[0] <= max(of_pairs) + 1e-9


def test_measured_triples_are_evidence_too():
    where = setting()
    triples = every_mix(len(where), 3)[::9]
    correction = Correction(where, measured(where, triples), GPU)
    truth = measured(where, pairs(), noise=0.0)
    prior = where.prior(truth.rows)[:, 0]
    error = np.abs(truth.logs - prior - correction.mean(truth.rows)).mean()
    assert error < 0.7 * np.abs(truth.logs - prior).mean()


def test_using_fewer_rows_only_widens_variances(monkeypatch):
    where = setting()
    evidence = measured(where, pairs()[::2])
    rows = rows_of(pairs())
    full = Correction(where, evidence, GPU).variance(rows)
    monkeypatch.setattr("cotenant.prediction.interference.correction._WITNESSES", 20)
    monkeypatch.setattr("cotenant.prediction.interference.correction._MOST_WORK", 10.0)
    assert (Correction(where, evidence, GPU).variance(rows) >= full - 1e-9).all()
