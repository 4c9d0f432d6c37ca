"""The best pairs, and which to measure first."""

import numpy as np
import pytest

from cotenant.planning.pair_plan import best_pairs, next_pairs, together
from cotenant.prediction.interference.correction import Evidence, no_evidence
from cotenant.prediction.interference.covariance import GPU, GPU_PRIOR_HALF
from cotenant.prediction.interference.predictor import Predictor
from cotenant.prediction.interference.setting import setting_of

PAIRS = np.array([(a, b) for a in range(6) for b in range(a + 1, 6)], np.int64)


def predictor(evidence):
    features = np.arange(6.0)[:, None]
    harm = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) / 10

    def prior(mixes):
        return np.stack([harm[mixes[:, 0], mixes[:, 1]], harm[mixes[:, 1], mixes[:, 0]]], axis=1)

    return Predictor(setting_of(list("abcdef"), features, prior), evidence, GPU, prior_half=GPU_PRIOR_HALF)


def test_all_tenants_are_paired_at_the_largest_total_worth():
    worth = np.array([10.0 if tuple(pair) in {(0, 5), (1, 4), (2, 3)} else 1.0 for pair in PAIRS])
    chosen = best_pairs(worth, PAIRS, 6)
    assert {tuple(pair) for pair in PAIRS[chosen].tolist()} == {(0, 5), (1, 4), (2, 3)}


def test_of_an_odd_number_one_tenant_stays_alone():
    mine = PAIRS[(PAIRS < 5).all(axis=1)]
    worth = np.where((mine == 2).any(axis=1), 1.0, 2.0)
    assert {int(one) for one in mine[best_pairs(worth, mine, 5)].ravel()} == {0, 1, 3, 4}


def test_pairs_that_cannot_cover_all_tenants_are_refused():
    with pytest.raises(ValueError, match="can't cover all tenants"):
        best_pairs(np.ones(1), np.array([[0, 1]]), 4)


def test_pairs_the_plan_would_use_are_measured_first_and_only_once():
    unknown = predictor(no_evidence())
    used = set(best_pairs(together(unknown.slowdowns(PAIRS).estimate), PAIRS, 6).tolist())
    assert len(used & set(next_pairs(unknown, PAIRS, 4))) >= 2
    measured = next_pairs(unknown, PAIRS, 4)
    rows = np.concatenate([PAIRS[measured], PAIRS[measured][:, ::-1]])
    count = len(rows)
    cells = np.tile(np.arange(4), 2)
    evidence = Evidence(rows, np.full(count, 0.1), np.zeros(count), cells, np.ones(count, np.int64), np.zeros(count))
    assert not set(next_pairs(predictor(evidence), PAIRS, 5)) & set(measured)
