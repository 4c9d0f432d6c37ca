"""Corrections learnt on some families apply to others as far as the evidence shows that they do."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.prediction.interference.correction import Correction, Evidence
from cotenant.prediction.interference.covariance import GPU
from cotenant.prediction.interference.predictor import Predictor, shares
from cotenant.prediction.interference.setting import mixes_of
from tests.prediction.interference.synthetic_matrix import measured, pairs, setting

WHERE = setting()
KNOWN = np.array([row for row in pairs() if max(row) < 8])
"""The last two families (tenants 8 to 11) were never measured."""


def wrong_by(effects: np.ndarray) -> Evidence:
    """The prior is wrong by the sum of the effects of both tenants' families."""
    evidence = measured(WHERE, KNOWN, noise=0.0)
    families = WHERE.families[evidence.rows]
    return replace(evidence, logs=WHERE.prior(evidence.rows)[:, 0] + effects[families].sum(axis=1))


def test_an_error_that_all_families_share_is_corrected_for_new_ones():
    found = shares(Correction(WHERE, wrong_by(np.full(6, 0.1)), GPU))
    assert found.some > 0.9
    assert found.every > 0.9


def test_where_families_differ_without_pattern_the_prior_stands_for_mixes_of_new_ones():
    evidence = wrong_by(np.array([0.3, -0.3, 0.25, -0.25, 0.0, 0.0]))
    predictor = Predictor(WHERE, evidence, GPU, prior_half=0.27)
    assert predictor.carried_over.every == 0.0
    mixes = mixes_of([(8, 10)])
    found = predictor.slowdowns(mixes)
    assert np.log(found.estimate) == pytest.approx(WHERE.prior(mixes))
    assert (np.log(found.high / found.estimate) >= 0.27).all()


def test_an_interval_reaches_as_far_as_with_the_whole_correction():
    predictor = Predictor(WHERE, wrong_by(np.array([0.3, -0.3, 0.25, -0.25, 0.0, 0.0])), GPU, prior_half=0.27)
    rows = mixes_of([(8, 0), (9, 4)])
    whole = WHERE.prior(rows)[:, 0] + predictor.correction.mean(rows)
    half = predictor.widths.half(np.sqrt(predictor.correction.variance_of_pairs(rows)), np.ones(2, bool))
    assert (np.log(predictor.slowdowns(rows).high[:, 0]) >= whole + half - 1e-9).all()


def test_families_with_evidence_get_the_whole_correction():
    found = shares(Correction(WHERE, wrong_by(np.array([0.3, -0.3, 0.25, -0.25, 0.0, 0.0])), GPU))
    rows = mixes_of([(0, 2), (0, 8), (8, 10), (0, 2, 4), (8, 0, 2), (8, 9, 10)])
    assert found.of(WHERE.families, rows) == pytest.approx([1, found.some, found.every, 1, found.some, found.every])
    assert found.some < 1


def test_one_family_cannot_tell_and_leaves_the_correction_to_its_variances():
    evidence = measured(WHERE, np.array([(0, 1), (0, 0)]))
    found = shares(Correction(WHERE, evidence, GPU))
    assert (found.some, found.every) == (1.0, 1.0)
