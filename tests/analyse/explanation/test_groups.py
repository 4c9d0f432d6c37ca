"""Groups of pairs compared, with a known truth."""

from dataclasses import replace

import numpy as np

from cotenant.analyse.explanation.patterns import Sufferer, contrast_sentences, contrasts

KINDS = {"e1": "encoder", "e2": "encoder", "d1": "decoder", "d2": "decoder"}


def pairs(members, log_slowdown, *, count=8, noise=0.03, seed=1, sharing="mps", times=(10.0, 10.0)):
    rng = np.random.default_rng(seed)
    return [
        Sufferer(f"{members}{n}", sharing, tenant, {}, log_slowdown + noise * rng.normal(), 1, time)
        for n in range(count)
        for tenant, time in zip(members, times, strict=True)
    ]


def test_a_group_that_suffers_more_is_named_with_its_interval():
    rows = pairs(("e1", "e2"), 0.1) + pairs(("d1", "d2"), 0.6, seed=2)
    [found] = contrasts(rows, lambda: KINDS)
    assert found.shown
    assert {found.one.name, found.other.name} == {"encoders", "decoders"}
    [said] = contrast_sentences([found], ["mps"])
    assert said.startswith("Under mps, pairs of decoders (8) slow each other down 1.6")
    assert "after Holm's correction" in said


def test_equal_groups_are_not_reported_as_different():
    rows = pairs(("e1", "e2"), 0.3) + pairs(("d1", "d2"), 0.3, seed=2)
    [found] = contrasts(rows, lambda: KINDS)
    assert not found.shown
    assert list(contrast_sentences([found], ["mps"])) == [
        "Under mps, no group differs from another beyond chance, after Holm's correction: decoders, encoders."
    ]


def test_a_small_one_beside_a_big_one_is_a_separate_group():
    rows = pairs(("e1", "e2"), 0.1) + pairs(("e1", "e2"), 0.5, seed=2, times=(1.0, 20.0))
    rows = [replace(one, mix=f"m{place // 2}") for place, one in enumerate(rows)]
    shown = contrasts(rows, lambda: KINDS)
    [found] = [one for one in shown if "a small beside a big tenant" in (one.one.name, one.other.name)]
    assert found.shown


def test_false_alarms_are_rare_over_many_runs():
    alarms = 0
    for seed in range(100):
        rows = [
            one
            for number, members in enumerate((("e1", "e2"), ("d1", "d2"), ("e1", "d1")))
            for one in pairs(members, 0.3, count=6, noise=0.2, seed=10 * seed + number)
        ]
        alarms += any(one.shown for one in contrasts(rows, lambda: KINDS))
    assert alarms <= 8


def test_few_mixes_do_not_make_a_group():
    assert contrasts(pairs(("e1", "e2"), 0.1, count=2) + pairs(("d1", "d2"), 0.6, count=2), lambda: KINDS) == []


def test_kinds_are_not_asked_for_where_there_are_too_few_mixes_for_two_groups():
    def asked():
        raise AssertionError("the catalogue is slow to read")

    assert contrasts(pairs(("e1", "e2"), 0.1, count=5), asked) == []
