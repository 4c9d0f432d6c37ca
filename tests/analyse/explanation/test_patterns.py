"""Patterns in a matrix with known truth."""

import numpy as np
import pytest

from cotenant.analyse.explanation.patterns import PROPERTIES, Sufferer, pattern_sentences, patterns

NAMES = list(PROPERTIES)


def matrix(truth, *, mixes=20, noise=0.05, seed=1, sharing="mps"):
    """Pairs whose properties are random; ``truth`` maps them to the logarithm of slowdown."""
    rng = np.random.default_rng(seed)
    rows = []
    for mix in range(mixes):
        for tenant in "ab":
            properties = {name: float(rng.normal()) for name in NAMES}
            rows.append(Sufferer(f"m{mix}", sharing, tenant, properties, truth(properties) + noise * rng.normal()))
    return rows


def test_the_deciding_property_is_found_and_predicts_held_out_mixes():
    [found] = patterns(matrix(lambda of: 0.5 + 0.3 * of[NAMES[0]]))
    assert found.links[0].property == NAMES[0]
    assert found.links[0].r.lo > 0.8
    assert NAMES[0] in found.model
    assert found.left_out_r2 > 0.9
    first, second = pattern_sentences(found)
    assert first.startswith(f"Under mps, a tenant's slowdown depends on {NAMES[0]} (r = 0.9")
    assert "more slowdown the more of it" in first
    assert "of how slowdowns differ in held-out mixes" in second


def test_two_properties_are_used_where_both_matter():
    [found] = patterns(matrix(lambda of: 0.3 * of[NAMES[1]] - 0.3 * of[NAMES[3]]))
    assert set(found.model) == {NAMES[1], NAMES[3]}


@pytest.mark.parametrize("seed", range(5))
def test_noise_has_no_pattern(seed):
    [found] = patterns(matrix(lambda of: 0.0, noise=0.3, seed=seed))
    assert found.left_out_r2 < 0.3
    said = list(pattern_sentences(found))
    assert said == ["Under mps, no tenant property clearly correlates with slowdown (40 tenants in 20 mixes)."]


def test_false_alarms_are_rare_over_many_matrices():
    alarms = sum(
        any(link.p <= 0.05 for link in found.links)
        for seed in range(200)
        for found in patterns(matrix(lambda of: 0.0, noise=0.3, seed=seed))
    )
    assert alarms <= 0.08 * 200


def test_few_mixes_and_equal_slowdowns_have_no_pattern():
    assert patterns(matrix(lambda of: of[NAMES[0]], mixes=4)) == []
    assert patterns(matrix(lambda of: 0.7, noise=0.0)) == []


def test_ways_to_share_are_kept_apart():
    rows = matrix(lambda of: 0.4 * of[NAMES[0]]) + matrix(lambda of: -0.4 * of[NAMES[0]], sharing="processes")
    signs = {found.sharing: found.links[0].r.est > 0 for found in patterns(rows)}
    assert signs == {"mps": True, "processes": False}
