"""Each scorer agrees with an independent computation of its definition."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from cotenant.errors import CotenantError
from cotenant.ranking.scorers import SCORERS, find_scorer
from cotenant.ranking.scorers.classifiers import BATCH, DECAY, PASSES, folds, split, standardised, train
from cotenant.ranking.scorers.closed_forms import DISTORTION


def clouds(items=240, width=12, classes=4, apart=1.5, seed=0):
    """Features around one centre per class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(items, dtype=np.int64) % classes
    centres = rng.normal(size=(classes, width)) * apart
    features = (centres[labels] + rng.normal(size=(items, width)) * rng.uniform(0.5, 3, width)).astype(np.float32)
    return features, labels


def score(name, features, labels, classes=4, seed=0):
    return find_scorer(name).score(features, labels, classes=classes, seed=seed)


def test_the_split_is_the_same_for_all_and_has_every_class_on_both_sides():
    labels = np.array([0] * 10 + [1] * 3 + [2] * 2 + [3], np.int64)
    learnt, tested = split(labels, 3)
    assert sorted([*learnt, *tested]) == list(range(16))
    assert np.bincount(labels[tested], minlength=4).tolist() == [2, 1, 1, 0]
    again, _ = split(labels, 3)
    assert np.array_equal(again, learnt)


def test_where_no_class_has_two_items_all_are_trained_and_tested_on():
    learnt, tested = split(np.arange(5, dtype=np.int64), 0)
    assert learnt.tolist() == tested.tolist() == [0, 1, 2, 3, 4]


def test_folds_test_every_item_once_and_have_every_class_on_both_sides():
    labels = np.array([0] * 10 + [1] * 3 + [2] * 2 + [3], np.int64)
    parts = list(folds(labels, 3))
    assert sorted(np.concatenate([tested for _, tested in parts])) == list(range(15)), "all but the one of its kind"
    for learnt, tested in parts:
        assert sorted([*learnt, *tested]) == list(range(16))
        assert set(labels[tested]) <= set(labels[learnt])
    sizes = [len(tested) for _, tested in parts]
    assert max(sizes) - min(sizes) <= 1
    assert list(folds(np.arange(5, dtype=np.int64), 0)) == []


class TestLinear:
    @staticmethod
    def loss(flat, inputs, truth):
        """For weights and biases in one row, with its gradient."""
        weight, bias = flat[:-4].reshape(-1, 4), flat[-4:]
        logits = inputs @ weight + bias
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        onehot = np.eye(4)[truth]
        slope = (np.exp(logs) - onehot) / len(truth)
        value = -(onehot * logs).sum(axis=1).mean() + DECAY / 2 * (weight**2).sum()
        return value, np.concatenate([(inputs.T @ slope + DECAY * weight).ravel(), slope.sum(axis=0)])

    def optimum(self, inputs, truth):
        start = np.zeros((inputs.shape[1] + 1) * 4)
        return minimize(
            self.loss, start, args=(inputs, truth), jac=True, method="L-BFGS-B", options={"maxiter": 2000}
        ).x

    def test_it_reaches_the_loss_of_a_second_order_optimiser(self):
        import torch

        features, labels = clouds(apart=0.7)
        learnt, _ = split(labels, 0)
        inputs, truth = standardised(features, learnt)[learnt].astype(np.float64), labels[learnt]
        best, _ = self.loss(self.optimum(inputs, truth), inputs, truth)
        weight, bias = train(torch.from_numpy(inputs[None]).float(), torch.from_numpy(truth), 4, 0)
        flat = np.concatenate([weight[0].numpy().ravel(), bias[0, 0].numpy()]).astype(np.float64)
        assert self.loss(flat, inputs, truth)[0] == pytest.approx(best, rel=0.02)

    def test_items_tested_by_fold_are_classified_as_by_a_second_order_optimiser(self):
        features, labels = clouds(apart=0.7)
        found = find_scorer("linear").tested(features, labels, classes=4, seed=1)
        expected = np.full(len(labels), np.nan)
        for learnt, tested in folds(labels, 1):
            known = features[learnt].astype(float)
            inputs = (features - known.mean(axis=0)) / known.std(axis=0) / np.sqrt(features.shape[1])

            best = self.optimum(inputs[learnt], labels[learnt])
            guessed = (inputs[tested] @ best[:-4].reshape(-1, 4) + best[-4:]).argmax(axis=1)
            expected[tested] = guessed == labels[tested]
        assert (found != expected).mean() < 0.03, "items on the border apart"
        assert 0.4 < expected.mean() < 0.95, "neither trivial nor hopeless"

    def test_its_score_is_the_held_out_accuracy_of_that_optimum(self):
        features, labels = clouds(items=400, apart=3.0)
        assert score("linear", features, labels) == 1.0
        shuffled = np.random.default_rng(1).permutation(labels)
        assert score("linear", features, shuffled) < 0.45

    def test_candidates_of_several_widths_trained_together_score_as_alone(self):
        sets = [clouds(width=width, seed=width, apart=0.8)[0] for width in (8, 9, 12, 40)]
        labels = clouds()[1]
        together = find_scorer("linear").score_many(sets, labels, classes=4, seed=5)
        alone = [score("linear", one, labels, seed=5) for one in sets]
        assert together == pytest.approx(alone, abs=1.01 / len(split(labels, 5)[1]))

    def test_little_data_are_passed_over_at_most_a_hundred_times(self):
        from cotenant.ranking.scorers.classifiers import STEPS, _batches

        assert len(list(_batches(10, 0))) == PASSES
        assert len(list(_batches(100 * BATCH, 0))) == STEPS


def named_by_hand(features, labels, learnt, item):
    angles = [
        np.dot(features[item], features[other])
        / np.linalg.norm(features[item].astype(float))
        / np.linalg.norm(features[other].astype(float))
        for other in learnt
    ]
    votes = {}
    for one in np.argsort(angles)[::-1][:5]:
        votes.setdefault(int(labels[learnt[one]]), []).append(angles[one])
    return max(votes, key=lambda label: (len(votes[label]), sum(votes[label])))


def test_neighbours_vote_as_counted_by_hand():
    features, labels = clouds(apart=0.5)
    learnt, tested = split(labels, 2)
    right = [named_by_hand(features, labels, learnt, item) == labels[item] for item in tested]
    assert score("knn", features, labels, seed=2) == pytest.approx(np.mean(right))


def test_neighbours_vote_on_every_item_as_counted_by_hand():
    features, labels = clouds(items=100, apart=0.5)
    found = find_scorer("knn").tested(features, labels, classes=4, seed=2)
    for learnt, tested in folds(labels, 2):
        for item in tested:
            assert found[item] == (named_by_hand(features, labels, learnt, item) == labels[item])


@pytest.mark.parametrize(("items", "width"), [(60, 5), (24, 40)])
def test_logme_is_the_highest_evidence_that_a_general_optimiser_finds(items, width):
    features, labels = clouds(items=items, width=width, classes=3)
    evidences = []
    for kind in range(3):
        target = (labels == kind).astype(float)

        def less(logs, target=target):
            alpha, beta = np.exp(logs)
            covariance = np.eye(items) / beta + features.astype(float) @ features.T / alpha
            return -multivariate_normal(np.zeros(items), covariance).logpdf(target)

        starts = [(0.0, 0.0), (3.0, 3.0), (6.0, 2.0)]
        best = min((minimize(less, start, method="Nelder-Mead") for start in starts), key=lambda one: one.fun)
        evidences.append(-best.fun / items)
    assert score("logme", features, labels, classes=3) == pytest.approx(np.mean(evidences), rel=1e-3)


@pytest.mark.parametrize("width", [6, 150])
def test_hscore_is_the_trace_written_out_with_a_shrunk_covariance(width):
    features, labels = clouds(items=100, width=width)
    centred = features.astype(float) - features.astype(float).mean(axis=0)
    plain = np.cov(centred.T, bias=True)
    target = np.trace(plain) / width * np.eye(width)
    noise = sum(((np.outer(row, row) - plain) ** 2).sum() for row in centred) / 100**2
    share = min(1.0, noise / ((plain - target) ** 2).sum())
    means = np.stack([centred[labels == label].mean(axis=0) for label in labels])
    inverse = np.linalg.inv((1 - share) * plain + share * target)
    expected = (1 - share) * np.trace(inverse @ np.cov(means.T, bias=True))
    assert score("hscore", features, labels) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("width", [5, 90])
def test_transrate_is_the_difference_of_coding_rates(width):
    features, labels = clouds(items=130, width=width)

    def rate(rows):
        matrix = np.eye(width) + rows.T @ rows / (len(rows) * DISTORTION)
        return 0.5 * np.log(np.linalg.eigvalsh(matrix)).sum()

    centred = features.astype(float) - features.astype(float).mean(axis=0)
    within = sum((labels == kind).mean() * rate(centred[labels == kind]) for kind in range(4))
    assert score("transrate", features, labels) == pytest.approx(rate(centred) - within, rel=1e-6)


def test_leep_follows_its_definition_item_by_item():
    logits, labels = clouds(items=90, width=7)
    belief = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum(axis=1, keepdims=True)
    joint = np.zeros((4, 7))
    for row, label in enumerate(labels):
        joint[label] += belief[row] / 90
    total = 0.0
    for row, label in enumerate(labels):
        total += np.log(sum(belief[row, z] * joint[label, z] / joint[:, z].sum() for z in range(7)))
    assert score("leep", logits, labels) == pytest.approx(total / 90)


def test_nce_is_minus_the_entropy_that_the_choice_of_the_head_leaves():
    logits, labels = clouds(items=90, width=7)
    chosen = logits.argmax(axis=1)
    entropy = 0.0
    for z in set(chosen):
        shares = np.array([np.mean(labels[chosen == z] == kind) for kind in range(4)])
        entropy -= np.mean(chosen == z) * sum(share * np.log(share) for share in shares if share)
    assert score("nce", logits, labels) == pytest.approx(-entropy)


@pytest.mark.parametrize("name", list(SCORERS))
def test_features_that_separate_the_classes_score_higher_and_always_the_same(name):
    good, labels = clouds(apart=3)
    poor, _ = clouds(apart=0.05)
    assert score(name, good, labels) > score(name, poor, labels)
    assert score(name, good, labels) == score(name, good, labels)


@pytest.mark.parametrize("name", list(SCORERS))
def test_a_constant_feature_is_harmless(name):
    features, labels = clouds()
    features[:, 3] = 7.0
    assert np.isfinite(score(name, features, labels))


def test_an_unknown_scorer_is_named():
    with pytest.raises(CotenantError, match="logmee") as caught:
        find_scorer("logmee")
    assert "logme" in caught.value.hint
