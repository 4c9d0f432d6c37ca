"""`cotenant selftest` refuses what it can't try out."""

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
