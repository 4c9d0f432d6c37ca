"""A request to stop is obeyed once, and never in the middle of a step that must complete."""

import os
import signal
from contextlib import suppress

import pytest

from cotenant import interruption
from cotenant.cli import main as command_line


@pytest.fixture(autouse=True)
def listening():
    """Background jobs of a shell ignore Ctrl-C, and so do their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_raised_at_once_and_recorded():
    with interruption.heard():
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
        assert interruption.came()
    assert not interruption.came(), "the next command is another story"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_step_that_must_complete_is_finished_first():
    done = []

    def step():
        with interruption.held():
            with interruption.held():
                ctrl_c()
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["inner", "outer"]


def test_a_request_that_a_library_swallowed_is_obeyed_at_the_next_opportunity():
    with interruption.heard():
        with suppress(KeyboardInterrupt):  # like a library that runs Python code in a callback
            ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            interruption.obey()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_other_signals_have_their_own_exit_code(monkeypatch, capsys, request, number, code):
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, default)  # nohup ignores SIGHUP, which is respected
    request.addfinalizer(lambda: signal.signal(number, before))
    monkeypatch.setattr(command_line.cli, "invoke", lambda *_: os.kill(os.getpid(), number))
    assert command_line.main([]) == code
    assert capsys.readouterr().err == "interrupted: nothing was left unfinished.\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_two_ctrl_c_at_once_are_one():
    raised = []
    with interruption.heard():
        for _ in range(2):
            try:
                ctrl_c()
            except KeyboardInterrupt:
                raised.append(True)
    assert raised == [True]


def test_a_later_ctrl_c_is_a_new_request(monkeypatch):
    monkeypatch.setattr(interruption, "ONE_WISH_S", 0.0)
    with interruption.heard():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                ctrl_c()


def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption.heard():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_a_request_nothing_stops():
    with interruption.heard(), interruption.held():
        interruption.obey()
    assert not interruption.came()


def test_a_handler_of_the_calling_program_is_kept():
    def own(number, frame):
        pass

    before = signal.signal(signal.SIGINT, own)
    try:
        with interruption.held():
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_that_a_library_made_of_ctrl_c_is_reported_as_an_interruption(monkeypatch, capsys):
    def interrupted_query(*_):
        try:
            ctrl_c()
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    monkeypatch.setattr(command_line.cli, "invoke", interrupted_query)
    assert command_line.main([]) == 130
    assert capsys.readouterr().err == "interrupted: nothing was left unfinished.\n"
