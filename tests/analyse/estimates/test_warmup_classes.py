import numpy as np
import pytest

from cotenant.analyse.estimates.warmup import classify, steadiness

LENGTHS = [60, 200, 1000, 20_000]


def series(shape, n, seed=0, noise=0.03):
    x = np.arange(n) / n
    rng = np.random.default_rng(seed)
    base = {
        "flat": np.ones(n),
        "ramp": 1 + 0.8 * np.exp(-15 * x),
        "step": 1 + 0.3 * (x < 0.2),
        "throttle": 1 + 0.3 * (x > 0.6),
        "throttle at the very end": 1 + 0.3 * (x > 0.85),
        "small step": 1 + 0.03 * (x < 0.3),
        "bump": 1 + 0.4 * ((x > 0.3) & (x < 0.6)),
    }[shape]
    return 10 * (base + noise * rng.normal(size=n))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ("flat", "flat"),
        ("ramp", "warm-up"),
        ("step", "warm-up"),
        ("throttle", "slowdown"),
        ("throttle at the very end", "no steady state"),
        ("bump", "no steady state"),
    ],
)
def test_shapes_are_classified_at_any_length(shape, kind, n):
    assert [classify(series(shape, n, seed)) for seed in range(5)] == [kind] * 5


@pytest.mark.parametrize("n", LENGTHS[1:])
def test_a_cycle_has_no_steady_state(n):
    cycle = 1 + 0.2 * (np.sin(np.arange(n) / n * 6 * np.pi) > 0)
    assert classify(cycle + 0.03 * np.random.default_rng(0).normal(size=n)) == "no steady state"


@pytest.mark.parametrize("n", LENGTHS)
def test_a_real_but_small_change_is_flat(n):
    assert classify(series("small step", n, noise=0.005)) == "flat"


@pytest.mark.parametrize("n", LENGTHS)
def test_outliers_and_skew_are_not_changes(n):
    rng = np.random.default_rng(1)
    kinds = set()
    for seed in range(10):
        kinds.add(classify(series("flat", n, seed) + 50 * (rng.random(n) < 0.03)))
        kinds.add(classify(10 * rng.lognormal(0, 0.5, n)))
    assert kinds == {"flat"}


def test_a_step_stays_visible_when_there_is_hardly_any_noise():
    assert classify(np.where(np.arange(500) < 350, 1.0, 1.3)) == "slowdown"
    assert classify(series("throttle", 2000, noise=1e-5)) == "slowdown"


@pytest.mark.parametrize("n", [0, 1, 19])
def test_short_series_are_called_flat_with_a_note(n):
    found = steadiness(np.arange(n, dtype=float))
    assert found.kind == "flat"
    assert "too few" in found.note


def test_constant_and_zero_series_are_flat():
    assert classify(np.full(100, 5.0)) == "flat"
    assert classify(np.zeros(100)) == "flat"


@pytest.mark.parametrize("n", [200, 4000])
def test_the_change_is_found_where_it_is(n):
    found = steadiness(series("throttle", n))
    assert len(found.changes) == 1
    assert found.changes[0] == pytest.approx(0.6 * n, abs=0.02 * n)
    assert found.levels == pytest.approx((10, 13), rel=0.02)


def test_integers_are_accepted():
    assert classify(np.full(100, 5, dtype=np.int64)) == "flat"
