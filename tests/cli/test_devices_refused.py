"""Devices that can't be tested or don't exist get a sentence."""

import pytest

from cotenant.cli.main import main


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("sim:t4", "is simulated: it has nothing to test"),
        ("sim:t4*2", "is simulated"),
        ("cpu:each", "is a group of devices"),
        ("nope", "there is no device 'nope'"),
    ],
)
def test_a_device_that_can_not_be_tested_gets_a_sentence(device, sentence, capsys):
    assert main(["selftest", device]) == 1
    output = capsys.readouterr().err
    assert sentence in output
    assert "hint:" in output


def test_an_empty_name_is_an_error_and_not_the_studys_device(capsys):
    assert main(["run", "quick", "--device", "", "--dry-run"]) == 1
    assert "there is no device ''" in capsys.readouterr().err
