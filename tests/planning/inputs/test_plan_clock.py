"""The time of a plan is its own time: a busy machine doesn't change the answer."""

import time
from types import SimpleNamespace

import pytest

from cotenant.planning.inputs import planner


def test_time_in_which_others_had_the_processor_counts_for_a_third(monkeypatch):
    now = SimpleNamespace(wall=100.0, own=5.0)
    monkeypatch.setattr(planner.time, "monotonic", lambda: now.wall)
    monkeypatch.setattr(planner.time, "thread_time", lambda: now.own)
    clock = planner._own_clock()
    assert clock() == 0
    now.wall, now.own = 110.0, 14.0
    assert clock() == 9.0
    now.wall = 160.0
    assert clock() == 20.0


def test_compiling_the_simulation_once_takes_nothing_from_a_plan(monkeypatch):
    monkeypatch.setattr(planner, "COMPILING", planner.Spent(2.0, 3.0))
    now = SimpleNamespace(wall=100.0, own=5.0)
    monkeypatch.setattr(planner.time, "monotonic", lambda: now.wall)
    monkeypatch.setattr(planner.time, "thread_time", lambda: now.own)
    clock = planner._own_clock()
    assert clock() == 0, "what was compiled before doesn't count either way"
    now.wall, now.own = 115.0, 16.0
    planner.COMPILING.thread_s, planner.COMPILING.wall_s = 11.0, 12.0
    assert clock() == 2.0
    assert planner._own_clock()() == 0


def test_the_time_of_the_compiler_is_that_of_the_outermost_function():
    numba = pytest.importorskip("numba")
    planner._own_clock()
    before = planner.COMPILING.thread_s, planner.COMPILING.wall_s

    @numba.njit
    def inner(number):
        return number + 1

    @numba.njit
    def outer(number):
        return inner(number) + 1

    begun = time.thread_time(), time.monotonic()
    assert outer(1) == 3
    spent = time.thread_time() - begun[0], time.monotonic() - begun[1]
    thread_s, wall_s = planner.COMPILING.thread_s - before[0], planner.COMPILING.wall_s - before[1]
    assert 0.5 * spent[0] < thread_s <= spent[0], "an inner function counts once"
    assert thread_s <= wall_s + 0.01
    assert wall_s <= spent[1]
    kept = planner.COMPILING.thread_s
    assert outer(1) == 3
    assert planner.COMPILING.thread_s == kept, "what is compiled costs nothing"
