"""Whether short windows agree with long ones, when tenants have settled, and carry-over between windows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cotenant.analyse.sharing.accuracy import (
    Moments,
    accuracy_of,
    carry_over,
    disturbed_blocks,
    settled_after,
    short_windows_agree,
    speed_variation,
)
from cotenant.tenancy.records import TenantObservation

SEEN = TenantObservation(
    run="r", trial=0, block=0, mix="a+b", sharing="processes", settings="{}", load="closed(1)", device="cpu",
    simulated=False, solo=False, tenant="a", of="a", verdict="valid", failed_checks=(), n=10, unfinished=0,
    throughput_rps=100.0, mean_latency_ns=1e7, window_s=0.1,
)  # fmt: skip


def windows(bias=0.0, noise=0.02, blocks=60):
    rng = np.random.default_rng(1)
    return [
        (
            replace(SEEN, trial=block, block=block, window_s=0.8 if block % 4 == 3 else 0.1),
            noise * rng.normal() + (0.0 if block % 4 == 3 else bias),
        )
        for block in range(blocks)
    ]


def test_windows_that_say_the_same_agree():
    found = short_windows_agree([windows()])
    assert found.answer == "agree"
    assert found.ratio.n == 15


def test_a_bias_of_short_windows_is_found():
    found = short_windows_agree([windows(bias=0.08)])
    assert found.answer == "differ"
    assert found.ratio.est == pytest.approx(math.exp(-0.08), abs=0.02)
    assert "--set window=2s" in found.sentence()


def test_a_few_noisy_long_windows_are_inconclusive():
    assert short_windows_agree([windows(noise=0.4, blocks=12)]).answer == "can't tell"


def test_without_long_windows_there_is_no_comparison():
    assert short_windows_agree([[(SEEN, 0.0), (replace(SEEN, block=1), 0.1)]]) is None


def moments(values):
    found = Moments()
    for value in values:
        found.add(value)
    return found


def test_moments_are_those_of_the_values():
    values = [1.0, 2.5, -3.0, 4.0]
    assert moments(values).mean == pytest.approx(np.mean(values))
    assert moments(values).error2 == pytest.approx(np.var(values, ddof=1) / 4)


def test_settling_ends_where_requests_take_as_long_as_later_on():
    rng = np.random.default_rng(2)
    level = [0.3, 0.2, 0.1, 0.06] + [0.0] * 20
    bins = {number: moments(mean + 0.01 * rng.normal(size=50)) for number, mean in enumerate(level)}
    assert settled_after(bins, 0.005) == pytest.approx(4 * 0.005)
    assert settled_after({0: moments([0.0] * 9), **{n: moments([0.2] * 9) for n in range(1, 20)}}, 0.005) is None


def test_carry_over_from_the_previous_window_shows():
    rng = np.random.default_rng(3)
    warm, cold = moments(0.02 * rng.normal(size=80)), moments(0.1 + 0.02 * rng.normal(size=80))
    found = carry_over([(warm, cold)])
    assert found.ratio.hi < 1
    assert found.ratio.est == pytest.approx(math.exp(-0.1), abs=0.02)
    assert carry_over([(Moments(), cold)]) is None


def test_a_block_that_is_an_outlier_everywhere_was_disturbed():
    rng = np.random.default_rng(4)
    logs = [dict(enumerate(0.02 * rng.normal(size=30))) for _ in range(6)]
    assert disturbed_blocks(logs) == 0
    for one in logs:
        one[7] += 0.5
    assert disturbed_blocks(logs) == 1


def test_the_verdict_on_a_study_names_its_precision_and_what_limits_it():
    rng = np.random.default_rng(5)
    shared = [dict(enumerate(0.3 + 0.1 * rng.normal(size=30)))]
    alone = [dict(enumerate(0.1 * rng.normal(size=30)))]
    found = accuracy_of([0.03, 0.12, None], shared, alone, 1.5)
    assert found.widest == 0.12
    assert found.speed_variation == pytest.approx(0.1, rel=0.3)
    assert found.sentence().startswith(
        "Slowdowns are good to ±12 %, half of them to ±7.5 %, because this machine's speed"
    )
    calm = accuracy_of([0.03], shared, [dict(enumerate(0.001 * rng.normal(size=30)))], 1.5)
    assert calm.sentence() == "Slowdowns are good to ±3.0 %, because slowdowns vary by 8.7 % from block to block."
    crowded = accuracy_of([0.03], shared, [dict(enumerate(0.001 * rng.normal(size=30)))], 1.5, [0.2, 0.25, None, 0.3])
    assert crowded.sentence() == (
        "Slowdowns are good to ±3.0 %, because slowdowns vary by 8.7 % from block to block. "
        "Other processes used 25 % of the device meanwhile: without them slowdowns may differ."
    )
    assert accuracy_of([None], shared, alone, 1.5) is None
    assert speed_variation([{0: 1.0}]) is None
