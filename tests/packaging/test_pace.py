"""Deadlines of tests follow the machine: a busy one is slow, not wrong."""

import pytest

from tests.support.pace import measured, seconds, slowness, until


@pytest.mark.parametrize(
    ("seconds", "load", "factor"),
    [
        (0.02, 0.0, 1.0),  # faster than usual: deadlines stay
        (0.05, 1.0, 1.0),
        (0.10, 0.0, 2.0),  # each step takes twice as long
        (0.05, 5.0, 3.0),  # six processes on two cores
        (5.00, 40.0, 4.0),  # a limit, so that a test that hangs ends
    ],
)
def test_deadlines_grow_with_the_time_of_a_known_piece_of_work_and_with_the_load(seconds, load, factor):
    assert slowness(seconds, load=load, cores=2) == pytest.approx(factor)


def test_this_run_has_such_a_deadline(request):
    usual = float(request.config.getini("timeout"))
    assert usual <= request.config.option.timeout <= 4 * usual
    assert 1.0 <= measured() <= 4.0


def test_a_wait_grows_by_the_same_factor():
    assert 10.0 <= seconds(10.0) <= 40.0


def test_a_wait_for_an_event_gives_what_came_and_ends_without_it():
    answers = iter([0, [], "here"])
    assert until(lambda: next(answers)) == "here"
    with pytest.raises(AssertionError, match="it never happened"):
        until(lambda: False, 0.01)


@pytest.mark.timeout(50)
def test_a_stated_time_out_is_scaled_too(request):
    stated = request.node.get_closest_marker("timeout").args[0]
    assert [mark.args[0] for mark in request.node.iter_markers("timeout")][1:] == [50]
    assert 50.0 <= stated <= 200.0
