"""Log messages on stderr: one line each, and never too many of a kind."""

import logging

import pytest

from cotenant.cli import logs


@pytest.fixture
def log(monkeypatch):
    logger = logging.getLogger("cotenant")
    kept = logger.handlers, logger.level
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.delenv("COTENANT_DEBUG", raising=False)
    yield logging.getLogger("cotenant.test")
    logger.handlers, level = kept
    logger.setLevel(level)


def test_a_failure_is_one_line_with_the_time(log, capsys):
    logs.log_to_stderr("warning")
    log.error("asking for %s failed", "x\x1b[31m", exc_info=ValueError("bad\nvalue"))
    [line] = capsys.readouterr().err.splitlines()
    assert line[:4].isdigit()
    assert "ERROR cotenant.test: asking for x\\x1b[31m failed: ValueError: bad\\nvalue" in line


def test_the_traceback_is_there_when_debugging(log, capsys, monkeypatch):
    monkeypatch.setenv("COTENANT_DEBUG", "1")
    logs.log_to_stderr("warning")
    log.error("failed", exc_info=ValueError("bad"))
    assert capsys.readouterr().err.splitlines()[1:] == ["ValueError: bad"], "as Python prints it"


def test_many_messages_of_a_kind_are_counted_instead(log, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    logs.log_to_stderr("warning")
    for number in range(100):
        log.warning("client %d sent rubbish", number)
    log.warning("something else")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == logs.MOST_ALIKE + 1
    assert "something else" in lines[-1]
    now[0] = 61.0
    log.warning("client %d sent rubbish", 100)
    assert "client 100 sent rubbish (80 more not shown)" in capsys.readouterr().err
