"""`--verbose` and COTENANT_LOG print the library's log to stderr; without them it is silent."""

import logging

import pytest

from cotenant.cli.main import main


@pytest.fixture(autouse=True)
def quiet_afterwards():
    logger = logging.getLogger("cotenant")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers = handlers
    logger.setLevel(level)


@pytest.fixture
def said(capsys):
    def during(*arguments):
        assert main([*arguments, "devices", "--json"]) == 0
        logging.getLogger("cotenant.devices.test").info("opened")
        logging.getLogger("cotenant.devices.test").debug("looked")
        return capsys.readouterr().err

    return during


@pytest.mark.parametrize(("arguments", "words"), [([], []), (["-v"], ["opened"]), (["-vv"], ["opened", "looked"])])
def test_the_option_sets_the_level(said, arguments, words, monkeypatch):
    monkeypatch.delenv("COTENANT_LOG", raising=False)
    err = said(*arguments)
    assert [word for word in ("opened", "looked") if word in err] == words


def test_the_variable_does_the_same(said, monkeypatch):
    monkeypatch.setenv("COTENANT_LOG", "INFO")
    assert "INFO cotenant.devices.test: opened" in said()


def test_a_level_that_does_not_exist_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("COTENANT_LOG", "loud")
    assert main(["devices"]) == 1
    assert "COTENANT_LOG=loud is not a log level" in capsys.readouterr().err
