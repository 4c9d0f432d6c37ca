"""The time of a plan is its own time: a busy machine doesn't change the answer."""

from types import SimpleNamespace

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
