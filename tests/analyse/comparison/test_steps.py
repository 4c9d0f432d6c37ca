"""Steps in a history: the exact best partition, no step in noise, and true steps found."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.analyse.comparison.history import compare_history, history_sentences
from cotenant.analyse.estimates.warmup import find_steps, noise_of, penalty


def cost(values, bounds, noise, price):
    pieces = [values[a:b] for a, b in itertools.pairwise(bounds)]
    return sum(((piece - piece.mean()) ** 2).sum() for piece in pieces) / noise**2 + price * (len(bounds) - 2)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8), st.floats(0.1, 20))
def test_no_other_partition_is_better(values, price):
    data = np.asarray(values)
    found = [0, *(step.at for step in find_steps(data, 1.0, price)), data.size]
    inner = range(1, data.size)
    best = min(
        cost(data, [0, *cuts, data.size], 1.0, price)
        for many in range(data.size)
        for cuts in itertools.combinations(inner, many)
    )
    assert cost(data, found, 1.0, price) == pytest.approx(best, abs=1e-9)


def test_mere_noise_has_steps_as_rarely_as_stated():
    rng = np.random.default_rng(1)
    price = penalty(20, 1, 1000)
    found = [bool(find_steps(rng.normal(size=20), 1.0, price)) for _ in range(400)]
    assert sum(found) <= 0.08 * 400


def test_the_noise_estimate_ignores_the_step():
    rng = np.random.default_rng(2)
    stepped = rng.normal(0, 0.01, (40, 20)) + np.where(np.arange(20) < 12, 0, 0.5)
    assert noise_of(list(stepped)) == pytest.approx(0.01, rel=0.15)


def test_steps_below_the_least_are_merged():
    values = np.asarray([0.0] * 5 + [0.01] * 5 + [0.2] * 5)
    assert [step.at for step in find_steps(values, 1e-4, 10, least=0.03)] == [10]


def runs(synthetic, count, **options):
    slow_from = options.pop("slow_from", count)
    changed = options.pop("changed", {})
    return [
        item
        for number in range(count)
        for item in synthetic(
            run=f"run{number}", started=f"2026-01-{number + 1:02d}T10:00", **options,
            **(changed if number >= slow_from else {}),
        ).evidence()
    ]  # fmt: skip


def test_a_quiet_history_has_no_steps(synthetic):
    false = [bool(compare_history(runs(synthetic, 6, seed=seed, blocks=5)).steps) for seed in range(10)]
    assert sum(false) <= 1


def test_a_step_of_one_tenant_is_found_at_its_run_and_named(synthetic):
    found = compare_history(runs(synthetic, 7, slow_from=4, changed={"slow": {"t1": 1.08}}, blocks=5))
    assert {(step.row.tenant, step.run) for step in found.steps} == {("t1", "run4")}
    assert found.regression
    assert history_sentences(found)[0].startswith("Slower than before, and still so: t1")


def test_a_regression_that_was_fixed_is_not_reported(synthetic):
    slow = runs(synthetic, 3, blocks=5) + [
        item
        for number in range(3, 9)
        for item in synthetic(
            run=f"run{number}", started=f"2026-01-{number + 1:02d}T10:00", blocks=5,
            slow={"t1": 1.15} if number < 6 else {},
        ).evidence()
    ]  # fmt: skip
    found = compare_history(slow)
    assert {step.run for step in found.steps} == {"run3", "run6"}
    assert not found.regression


def test_a_step_of_the_clock_is_not_the_code(synthetic):
    steady, slow = {"clock": 3000}, {"clock": 2600}
    items = [
        item
        for number in range(6)
        for item in synthetic(
            run=f"run{number}", started=f"2026-01-{number + 1:02d}T10:00", blocks=4, **(steady if number < 3 else slow)
        ).evidence()
    ]
    found = compare_history(items)
    assert [step.row for step in found.steps] == [None]
    assert found.steps[0].explained_by_clock
    assert not found.regression


def test_runs_are_sorted_by_time(synthetic):
    found = compare_history(list(reversed(runs(synthetic, 4, blocks=3))))
    assert [run for run, _ in found.runs] == ["run0", "run1", "run2", "run3"]
