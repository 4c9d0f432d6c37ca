"""Devices that can't be tried out or don't exist get a sentence."""

import pytest

from cotenant.cli.main import main


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("sim:t4", "is simulated: there is nothing on it to try out"),
        ("sim:t4*2", "is simulated"),
        ("cpu:each", "is a group of devices"),
        ("nope", "there is no device 'nope'"),
    ],
)
def test_a_device_that_can_not_be_tried_gets_a_sentence(device, sentence, capsys):
    assert main(["selftest", device]) == 1
    told = capsys.readouterr().err
    assert sentence in told
    assert "hint:" in told


def test_an_empty_name_is_no_device_and_not_silently_the_studys_own(capsys):
    assert main(["run", "quick", "--device", "", "--dry-run"]) == 1
    assert "there is no device ''" in capsys.readouterr().err
