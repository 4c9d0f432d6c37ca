"""The precision of a study in words, and what windows tell, by hand."""

import math

import pytest

from cotenant.analyse.sharing.accuracy import (
    Accuracy,
    Agree,
    Moments,
    accuracy_of,
    carry_over,
    settled_after,
    speed_variation,
)
from cotenant.tenancy.interval import Estimate


def said(**more):
    given = {"widest": 0.05, "typical": 0.05, "blocks": 12, "disturbed": 0, "speed_variation": None, "block_s": 1.0}
    return Accuracy(**given | more).sentence()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "Slowdowns are good to ±5.0 %."),
        ({"widest": 1.0, "typical": 0.75}, "Slowdowns are good to ±100 %."),
        ({"widest": 1.01, "typical": 0.75}, "Not precise yet: some slowdown is known to no better than ±100 %."),
        ({"widest": 0.5, "typical": 0.375}, "Slowdowns are good to ±50 %."),
        ({"typical": 0.037}, "Slowdowns are good to ±5.0 %, half of them to ±3.7 %."),
        (
            {"speed_variation": 0.04},
            "Slowdowns are good to ±5.0 %, because this machine's speed varies by 4.0 % from block to block.",
        ),
        ({"speed_variation": 0.03}, "Slowdowns are good to ±5.0 %."),
        (
            {"speed_variation": 0.025, "scatter": 0.05},
            "Slowdowns are good to ±5.0 %, because this machine's speed varies by 2.5 % from block to block.",
        ),
        (
            {"speed_variation": 0.02, "scatter": 0.05},
            "Slowdowns are good to ±5.0 %, because slowdowns vary by 5.0 % from block to block.",
        ),
        ({"scatter": 0.04}, "Slowdowns are good to ±5.0 %."),
        ({"disturbed": 2}, "Slowdowns are good to ±5.0 %; 2 of 12 blocks were disturbed and count less."),
        ({"foreign_share": 0.099}, "Slowdowns are good to ±5.0 %."),
    ],
)
def test_precision_in_a_sentence(more, text):
    assert said(**more) == text


def test_others_are_named_from_a_tenth_of_the_device_on():
    assert said(foreign_share=0.1).endswith(
        ". Other processes used 10 % of the device meanwhile: without them slowdowns may differ."
    )


def test_the_accuracy_of_a_run():
    found = accuracy_of([0.1, None, 0.3, 0.2], [{0: 0.0, 1: 0.1}, {2: 0.0}], [], 2.0, [0.2, None, 0.4])
    assert (found.widest, found.typical, found.blocks, found.block_s) == (0.3, 0.2, 3, 2.0)
    assert found.foreign_share == pytest.approx(0.3)
    assert accuracy_of([0.1], [], [], 1.0, [None]).foreign_share is None
    assert accuracy_of([None], [], [], 1.0) is None


def test_speed_varies_by_half_the_squared_steps_between_blocks():
    steps = {0: 0.0, 2: 0.2, 1: 0.1, 3: 0.3}
    assert speed_variation([steps]) == pytest.approx(math.expm1(0.1 / math.sqrt(2)))
    assert speed_variation([{0: 0.0, 1: 1.0, 2: 2.0}]) is None


@pytest.mark.parametrize(
    ("lo", "hi", "answer"),
    [
        (0.953, 1.05, "agree"), (0.952, 1.05, "can't tell"), (0.953, 1.051, "can't tell"), (1.001, 1.051, "differ"),
        (0.9, 0.999, "differ"), (1.0, 1.051, "can't tell"), (0.9, 1.0, "can't tell"), (None, None, "can't tell"),
    ],
)  # fmt: skip
def test_long_windows_agree_within_the_margin(lo, hi, answer):
    found = Agree(Estimate(1.0, lo, hi, 9, ""))
    assert found.answer == answer
    ends = "" if lo is None else f" [{lo:.2f}, {hi:.2f}]"
    assert f"1.000x{ends} from 9 long windows" in found.sentence()
    assert ("--set window=2s" in found.sentence()) is (answer == "differ")


def moments(*values):
    found = Moments()
    for value in values:
        found.add(value)
    return found


def test_moments_are_the_mean_and_its_error():
    found = moments(1.0, 2.0, 3.0, 6.0)
    assert (found.n, found.mean, found.error2) == (4, 3.0, pytest.approx(14 / 3 / 4))
    assert moments(1.0).error2 == math.inf


def test_carry_over_is_weighted_by_precision():
    sure, vague = (moments(0.11, 0.09), moments(0.01, -0.01)), (moments(1.0, 3.0), moments(1.0, -1.0))
    found = carry_over([sure, vague, (moments(9.0), moments(1.0, 2.0)), (moments(1.0, 1.0), moments(2.0, 2.0))])
    weights = 1 / 2e-4, 1 / 2.0
    mean = (0.1 * weights[0] + 2.0 * weights[1]) / sum(weights)
    half = 1.96 / math.sqrt(sum(weights))
    assert (found.ratio.est, found.ratio.lo, found.ratio.hi) == pytest.approx(
        (math.exp(mean), math.exp(mean - half), math.exp(mean + half))
    )
    assert found.windows == 8
    assert carry_over([]) is None


def test_settled_is_within_tolerance_and_error_three_times_in_a_row():
    calm, loud = moments(0.02, 0.02), moments(0.03, 0.03)
    assert settled_after({0: loud, 1: calm, 2: calm, 3: loud, 4: calm, 5: calm, 6: calm}, 0.5) == 2.0
    assert settled_after({0: calm, 1: calm}, 0.5) is None
    assert settled_after({0: calm, 1: moments(9.0), 2: calm, 3: calm}, 0.5) == 0.0, "single requests tell nothing"
    assert settled_after(dict.fromkeys(range(3), moments(0.03, 0.05)), 1.0) == 0.0, "0.04 less two errors of 0.01"
    assert settled_after(dict.fromkeys(range(3), moments(0.045, 0.055)), 1.0) is None
