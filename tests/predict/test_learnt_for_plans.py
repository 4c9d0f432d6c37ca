"""Corrections for plans: a factor where mixes were measured, none elsewhere."""

import numpy as np
import pytest

from cotenant.planning.mixes.learnt import Learnt
from cotenant.planning.mixes.predictor import Mixes
from cotenant.prediction.interference.correction import no_evidence
from cotenant.prediction.interference.predictor import Predictor
from cotenant.prediction.interference.shipped import GPU
from tests.prediction_interference.synthetic_matrix import measured, pairs, setting

WHERE = setting()
EVIDENCE = measured(WHERE, pairs()[::2])
PLACES = {(number, 4): number for number in range(len(WHERE))}


def mixes(*rows, batch=4):
    tenants = np.array(rows)
    return Mixes("gpu", "mps", tenants, np.ones(tenants.shape), np.full(tenants.shape, batch), tenants * np.nan)


def learnt(evidence=EVIDENCE):
    return Learnt(Predictor(WHERE, evidence, GPU, prior_half=0.3), PLACES)


def test_at_full_load_a_measured_mix_is_reproduced():
    first, second = EVIDENCE.rows[2]
    asked = mixes((first, second))
    prior = np.exp(WHERE.prior(asked.tenants))
    found = learnt().factors(asked, prior)
    truth = {tuple(row): log for row, log in zip(EVIDENCE.rows.tolist(), EVIDENCE.logs, strict=True)}
    expected = [np.exp(truth[first, second]), np.exp(truth[second, first])]
    assert found.basis == ("measured",)
    assert (prior * found.factor)[0] == pytest.approx(expected, rel=1e-6)


def test_a_mix_of_idle_tenants_is_not_corrected():
    found = learnt().factors(mixes((0, 3)), np.ones((1, 2)))
    assert found.factor == pytest.approx(1.0)


def test_batches_without_measurements_are_left_to_the_simulation():
    found = learnt().factors(mixes((0, 3), batch=8), np.full((1, 2), 1.5))
    assert found.factor == pytest.approx(1.0)
    assert found.basis == (None,)
    assert np.isnan(found.half).all()
    assert learnt(no_evidence()).factors(mixes((0, 3)), np.full((1, 2), 1.5)).basis == (None,)


def test_mixes_of_different_sizes_keep_their_seats():
    asked = mixes((5, 2, -1), (2, 7, 5))
    slow = np.where(asked.tenants < 0, 1.0, np.exp(np.nan_to_num(WHERE.prior(asked.tenants))))
    found = learnt().factors(asked, slow)
    swapped = learnt().factors(mixes((2, 5, -1), (5, 7, 2)), slow[:, [1, 0, 2]])
    assert found.factor[0, :2] == pytest.approx(swapped.factor[0, [1, 0]])
    assert np.isfinite(found.half[1]).all()
