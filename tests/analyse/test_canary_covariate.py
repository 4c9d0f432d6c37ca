"""The canary removes variation in the core's speed, and never a part of the effect."""

import numpy as np
import pytest

from cotenant.analyse.estimates.robust import adjusted

BLOCKS = range(40)


def ratios(effect=0.3, canary_effect=0.0, follows=0.9, seed=1):
    rng = np.random.default_rng(seed)
    speed = rng.normal(size=40) * 0.2
    logs = effect + follows * speed + 0.02 * rng.normal(size=40)
    return dict(zip(BLOCKS, logs, strict=True)), dict(zip(BLOCKS, canary_effect + speed, strict=True))


def test_blocks_scatter_less_once_the_cores_speed_is_taken_out():
    logs, canaries = ratios()
    canaries = {block: value - np.mean(list(canaries.values())) for block, value in canaries.items()}
    found = adjusted(logs, canaries)
    assert np.std(list(found.values())) < 0.3 * np.std(list(logs.values()))
    assert np.mean(list(found.values())) == pytest.approx(np.mean(list(logs.values())))


def test_over_many_studies_the_mean_stays_where_it_is():
    means = []
    for seed in range(200):
        logs, canaries = ratios(seed=seed)
        means.append(np.mean(list(adjusted(logs, canaries).values())))
    assert np.mean(means) == pytest.approx(0.3, abs=0.01)


def test_a_canary_that_the_neighbours_slow_down_is_not_used():
    logs, canaries = ratios(canary_effect=0.1)
    assert adjusted(logs, canaries) == logs


@pytest.mark.parametrize("kept", [0, 11, 31])
def test_a_canary_that_is_missing_in_many_blocks_is_not_used(kept):
    logs, canaries = ratios()
    assert adjusted(logs, dict(list(canaries.items())[:kept])) == logs


def test_a_block_without_a_canary_keeps_its_ratio_and_the_others_are_corrected():
    logs, canaries = ratios()
    canaries = {block: value - np.mean(list(canaries.values())) for block, value in canaries.items()}
    found = adjusted(logs, {block: value for block, value in canaries.items() if block != 7})
    assert found[7] == logs[7]
    assert np.std(list(found.values())) < 0.5 * np.std(list(logs.values()))


def test_an_uninformative_canary_is_not_used():
    logs, canaries = ratios(follows=0.0)
    assert adjusted(logs, canaries) == logs
