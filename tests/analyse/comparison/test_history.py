"""Steps of a history: what the clock excuses, and what is said of a run at which levels changed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cotenant.analyse.comparison.history import History, RowStep, _step, history_sentences
from cotenant.analyse.comparison.series import SeriesRow
from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.estimates.warmup import Step
from cotenant.tenancy.interval import Estimate, Missing

ORDER, STARTED = ("r0", "r1", "r2"), {f"r{day}": f"2026-01-0{day + 1}T10:00:00Z" for day in range(3)}


def row(tenant="a"):
    return SeriesRow(True, "a+b", "mps", "closed(1)", "{}", "cpu", simulated=False, tenant=tenant)


def stepped(size, clocks=None, margin=0.03):
    return _step(
        row(), Step(at=1, before=0.0, after=size, error=0.01), True, None if clocks is None else np.log(clocks),
        runs=(ORDER, STARTED), df=8.0, margin=margin,
    )  # fmt: skip


def test_a_step_is_a_ratio_of_levels_from_a_run_on():
    found = stepped(math.log(1.1))
    half = student_t(8.0) * 0.01
    assert (found.run, found.started_utc, found.ratio.n) == ("r1", STARTED["r1"], 3)
    assert (found.ratio.est, found.ratio.lo, found.ratio.hi) == pytest.approx(
        (1.1, 1.1 * math.exp(-half), 1.1 * math.exp(half))
    )
    assert isinstance(found.cycles, Missing)
    assert found.regression


@pytest.mark.parametrize(
    ("ratio", "clock", "excused"),
    [(1.1, 0.92, True), (1.1, 0.95, False), (1.02, 0.999, False), (0.9, 0.9, False), (1.1, 1.1, False)],
)
def test_a_clock_that_fell_as_much_excuses_a_slower_level(ratio, clock, excused):
    found = stepped(math.log(ratio), [1.0, clock, clock])
    assert found.explained_by_clock is excused
    assert found.cycles.est == pytest.approx(ratio * clock)
    assert found.regression is (ratio > 1 and not excused)
    assert not replace(found, last=False).regression


def step(tenant="a", ratio=1.1, run="r1", *, last=True, clock=False):
    place = None if tenant is None else row(tenant)
    return RowStep(
        place, run, STARTED[run], Estimate(ratio, ratio - 0.05, ratio + 0.05, 3, ""), Missing(""), last, clock
    )


def told(*steps, left_out=(), notes=()):
    return history_sentences(
        History(tuple(STARTED.items()), 8, steps, 0.0042, tuple(left_out), tuple(notes), 0.03, 0.05)
    )


def test_a_history_without_and_with_a_regression():
    assert told(left_out=["c in c+d (mps)", "x"], notes=["note"]) == [
        "No cell became and stayed slower over 3 runs (2026-01-01 to 2026-01-03).",
        (
            "8 cells; without a change the level of a cell differs by 0.42 % from run to run, and steps below 3 % are "
            "not reported."
        ),
        "2 cells are not in every run with the same work and without overload, e.g. c in c+d (mps).",
        "note",
    ]
    first, _, second, third = told(step(), step("b", 1.2))
    assert first.startswith("Slower than before, and still so: a and b, 2 of 8 cells over 3 runs")
    assert second == "From run r1 (2026-01-02T10:00) on, b in a+b (mps, closed(1)) is 1.200x [1.150, 1.250], slower."
    assert third.startswith("From run r1 (2026-01-02T10:00) on, a in ")
    assert told(step(None), step())[0].startswith("Slower than before, and still so: everything, by about as much over")
    assert "what all tenants alone have in common is 1.100x" in told(step(None))[2]


@pytest.mark.parametrize(
    ("found", "end"),
    [
        (step(ratio=0.9), "], faster."),
        (step(clock=True), "], slower, but so was the clock: not the code."),
        (step(last=False), "], slower, until a later step."),
    ],
)
def test_steps_that_are_no_regression(found, end):
    lines = told(found)
    assert lines[0].startswith("No cell became")
    assert lines[2].endswith(end)


def test_of_many_steps_at_a_run_the_largest_five_are_named():
    lines = told(*(step(f"t{number}", 1.1 + number / 100) for number in range(7)))
    assert len(lines) == 2 + 5 + 1
    assert "t6 in" in lines[2]
    assert lines[-1] == "2 more cells changed at run r1."
    assert "t0 and t1 and t2 and t3 and t4, 7 of 8 cells" in lines[0]
    assert len(told(*(step(f"t{number}") for number in range(5)))) == 7
