"""Predictions have a basis, intervals that hold, and suggestions of what to measure next."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.prediction.interference.correction import Correction, Evidence, no_evidence
from cotenant.prediction.interference.covariance import GPU
from cotenant.prediction.interference.next_cells import choose_next_cells
from cotenant.prediction.interference.predictor import FROM_PAIRS, MEASURED, PRIOR_ONLY, Predictor
from cotenant.prediction.interference.profiles import CROWDED, CpuProfiles, cores_wanted, roofline_shared
from cotenant.prediction.interference.setting import by_victim, mixes_of
from cotenant.prediction.interference.stacking import additive, additive_left_out, constant
from tests.prediction.interference.synthetic_matrix import TENANTS, measured, pairs, setting
from validation.interference.low_rank import low_rank

WHERE = setting()


def test_a_measured_mix_is_reproduced_and_the_others_name_their_basis():
    known = pairs()[:30]
    found = Predictor(WHERE, measured(WHERE, known), GPU, prior_half=0.3).slowdowns(pairs())
    assert (found.basis[:30] == MEASURED).all()
    assert (found.count[:30] == 5).all()
    assert (found.basis[30:] == FROM_PAIRS).all()
    bare = Predictor(WHERE, no_evidence(), GPU, prior_half=0.3).slowdowns(pairs())
    assert (bare.basis == PRIOR_ONLY).all()
    assert bare.high / bare.estimate == pytest.approx(np.exp(0.3))


def test_nine_of_ten_intervals_hold():
    everything = pairs()
    inside = []
    for seed in range(8):
        shuffled = np.random.default_rng(seed).permutation(everything)
        evidence = measured(WHERE, shuffled[:30], seed=seed)
        rest = shuffled[30:]
        found = Predictor(WHERE, evidence, GPU, prior_half=0.3).slowdowns(rest)
        truth = np.exp(measured(WHERE, rest, noise=0.0).logs).reshape(len(rest), 2)
        inside.append(((found.low <= truth) & (truth <= found.high)).mean())
    assert np.mean(inside) > 0.85


def test_few_measured_mixes_get_the_priors_interval_and_a_new_family_a_wider_one():
    few = Predictor(WHERE, measured(WHERE, pairs()[:10]), GPU, prior_half=0.3)
    assert few.slowdowns(mixes_of([(10, 11)])).high[0] == pytest.approx(
        few.slowdowns(mixes_of([(10, 11)])).estimate[0] * np.exp(0.3), rel=0.01
    )
    old = [row for row in pairs() if max(row) < TENANTS - 2]  # the last family was never measured
    many = Predictor(WHERE, measured(WHERE, np.array(old)[::2]), GPU, prior_half=0.3)
    assert many.widths.new >= many.widths.known
    assert TENANTS // 2 - 1 not in many.widths.known_families


def test_a_single_pair_moves_others_only_half_way_and_a_group_of_measured_pairs_all_the_way():
    one = Predictor(WHERE, measured(WHERE, pairs()[:1]), GPU, prior_half=0.3)
    other = mixes_of([(10, 11)])
    _, _, rows = by_victim(other)
    moved = np.log(one.slowdowns(other).estimate[0]) - WHERE.prior(other)[0]
    assert moved == pytest.approx(one.correction.mean(rows) / 2)
    three = Predictor(WHERE, measured(WHERE, mixes_of([(0, 1), (0, 2), (1, 2)])), GPU, prior_half=0.3)
    group = mixes_of([(0, 1, 2)])
    _, _, rows = by_victim(group)
    moved = np.log(three.slowdowns(group).estimate[0]) - WHERE.prior(group)[0]
    assert moved == pytest.approx(three.correction.mean(rows))


def test_pairs_to_measure_cover_tenants_that_look_alike():
    alike = replace(WHERE, likeness=np.ones((TENANTS, TENANTS)), families=np.zeros(TENANTS, np.int64))
    chosen = [cell for cell, _ in choose_next_cells(Correction(alike, no_evidence(), GPU), pairs(), TENANTS // 2)]
    assert len(np.unique(pairs()[chosen])) >= TENANTS - 2
    seen = measured(alike, pairs()[chosen])
    following = choose_next_cells(Correction(alike, seen, GPU), np.delete(pairs(), chosen, axis=0), 1)
    assert len(following) == 1


def test_the_next_mix_is_the_most_informative_given_earlier_choices():
    correction = Correction(WHERE, measured(WHERE, pairs()[:20]), GPU)
    candidates = pairs()[20:]
    chosen = choose_next_cells(correction, candidates, 6)
    gains = [gain for _, gain in chosen]
    assert len({cell for cell, _ in chosen}) == 6
    assert gains == sorted(gains, reverse=True)
    assert 0 < sum(gains) < 1


def test_no_more_mixes_are_suggested_than_it_takes_to_know_all():
    few = Predictor(WHERE, measured(WHERE, pairs()[:24]), GPU, prior_half=0.3)
    candidates = pairs()[24:]
    limits = [few.variance_within(half, candidates) for half in (0.12, 0.2, 9.0)]
    chosen = [[cell for cell, _ in choose_next_cells(few.correction, candidates, 99, enough=limit)] for limit in limits]
    assert len(candidates) > len(chosen[0]) > len(chosen[1])
    assert not chosen[2]
    after = measured(WHERE, np.concatenate([pairs()[:24], candidates[chosen[0]]]))
    left = np.delete(candidates, chosen[0], axis=0)
    assert (Correction(WHERE, after, GPU).variance(left) <= limits[0].max() + GPU.noise + 1e-9).all()


def test_a_group_of_measured_pairs_is_known_better_than_the_prior_and_worse_than_its_pairs():
    group = mixes_of([(0, 1, 2, 3)])
    own = np.array([row for row in pairs() if max(row) < 4])
    with_pairs, without = (Predictor(WHERE, measured(WHERE, some), GPU, prior_half=1.2) for some in (own, own[:6]))
    halves = [
        np.log(predictor.slowdowns(group).high / predictor.slowdowns(group).estimate)
        for predictor in (with_pairs, without)
    ]
    assert (halves[0] < 0.3).all()
    assert (halves[0] >= GPU.group_half).all()
    assert (halves[1] > 1.2).any()


def test_what_pairs_of_a_group_dont_show_is_no_smaller_for_well_known_pairs():
    everything = measured(WHERE, pairs(), noise=0.001)
    found = Predictor(WHERE, everything, GPU, prior_half=0.3).slowdowns(mixes_of([(0, 3, 6, 9), (1, 4, 7, 10)]))
    assert (np.log(found.high / found.estimate) >= GPU.group_half).all()


def test_a_plan_requests_the_mixes_it_would_use():
    correction = Correction(WHERE, no_evidence(), GPU)
    candidates = pairs()
    used = np.zeros(len(candidates))
    used[[5, 40]] = 1.0
    assert {cell for cell, _ in choose_next_cells(correction, candidates, 2, used)} == {5, 40}


def test_a_constant_that_predicts_as_well_is_reported():
    evidence = measured(WHERE, pairs()[::2])
    found = Predictor(WHERE, evidence, GPU, prior_half=0.3).typical()
    typical, of_constant, ours = found.slowdown.est, found.constant, found.ours
    assert found.slowdown.lo <= typical <= found.slowdown.hi
    assert typical == pytest.approx(np.exp(np.median(evidence.logs)))
    assert ours < of_constant


def test_cores_and_bandwidth_are_shared_evenly_and_small_demands_are_met():
    solo = CpuProfiles(
        solo_ns=np.full(3, 1e7),
        cores=np.array([1.0, 0.2, 0.3]),
        bandwidth=np.array([0.1, 0.9, 0.8]),
        intensity=np.ones(3),
    )
    found = np.exp(roofline_shared(solo, mixes_of([(0, 0), (0, 1), (1, 2), (0, 0, 1)])))
    crowd = {wanted: wanted**CROWDED for wanted in (2.0, 1.2, 2.2)}
    assert found[0, :2] == pytest.approx([2.0 * crowd[2.0]] * 2)
    assert found[1, :2] == pytest.approx([crowd[1.2] / 0.8, crowd[1.2]])
    assert found[2, :2] == pytest.approx([0.9 / 0.5, 0.8 / 0.5])  # by bandwidth: the cores suffice
    assert found[3] == pytest.approx([crowd[2.2] / 0.4, crowd[2.2] / 0.4, crowd[2.2]])


def test_every_thread_of_a_tenant_counts_as_busy_as_its_first():
    busy, threads = np.array([0.8, 1.0, 0.01, 1.9]), np.array([2, 1, 4, 1])
    assert cores_wanted(busy, threads, 4) == pytest.approx([0.4, 0.25, 0.01, 0.475])


def test_a_tenant_may_be_faster_than_alone_where_that_was_measured():
    few = measured(WHERE, pairs()[::2])
    faster = Evidence(few.rows, few.logs - 1.0, few.variance, few.cell, few.blocks, few.half)
    kept, lower = (
        Predictor(WHERE, evidence, GPU, prior_half=0.3).slowdowns(pairs()[1::2]) for evidence in (few, faster)
    )
    assert (np.nan_to_num(kept.low, nan=1.0) > 0.85).all()
    assert np.nanmedian(lower.estimate / lower.low) > 1.03


def test_baselines_recover_what_they_can_express():
    evidence = measured(WHERE, pairs(), noise=0.0)
    assert np.ptp(constant(evidence, evidence.rows)) == 0
    errors = [
        np.abs(guess - evidence.logs).mean()
        for guess in (
            constant(evidence, evidence.rows),
            additive(evidence, evidence.rows, TENANTS),
            low_rank(evidence, evidence.rows, TENANTS),
        )
    ]
    assert errors == sorted(errors, reverse=True)


def test_simple_laws_count_where_they_predict_mixes_left_out_better():
    """Effects that the prior can't know, and that add up: the victim's and its neighbour's."""
    draw = np.random.default_rng(3)
    victim, neighbour = draw.normal(0.3, 0.25, len(WHERE)), draw.normal(0.0, 0.25, len(WHERE))
    rows = [(tenant, other) for tenant in range(len(WHERE)) for other in range(len(WHERE)) if tenant != other]
    chosen = [rows[place] for place in draw.permutation(len(rows))[:80]]
    logs = np.array([victim[tenant] + neighbour[other] for tenant, other in chosen])
    count = len(chosen)
    known = Evidence(
        np.array(chosen), logs, np.zeros(count), np.arange(count), np.ones(count, np.int64), np.full(count, np.nan)
    )
    found = Predictor(WHERE, known, GPU, prior_half=0.3)
    assert found.stack.weights[1] > 0.5
    assert found.stack.weights.sum() == pytest.approx(1.0)
    assert np.abs(found.stack.errors).mean() < np.abs(found.correction.left_out(known.cell)[0]).mean()


def test_additive_effects_left_out_are_those_fitted_without_the_mix():
    evidence = measured(WHERE, pairs()[::3])
    found = additive_left_out(evidence, len(WHERE))
    for cell in np.unique(evidence.cell)[:3]:
        mine = evidence.cell == cell
        others = evidence.only(np.flatnonzero(~mine))
        assert found[mine] == pytest.approx(additive(others, evidence.rows[mine], len(WHERE)))


def test_few_pairs_leave_weights_to_the_correction():
    assert Predictor(WHERE, no_evidence(), GPU, prior_half=0.3).stack.weights.tolist() == [1.0, 0.0, 0.0]
