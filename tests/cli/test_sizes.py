"""Quantities on the command line: one syntax each, and a sentence for invalid ones."""

import click
import pytest

from cotenant.cli.main import main
from cotenant.cli.options import duration, memory, power


@pytest.mark.parametrize(
    ("text", "value"),
    [("4GB", 4 * 10**9), ("512MiB", 512 << 20), ("1.5 GB", 1_500_000_000), ("2TB", 2 * 10**12), ("1tib", 2**40)],
)
def test_memory(text, value):
    assert memory(text) == value


@pytest.mark.parametrize(("text", "value"), [("2kW", 2000), ("1500W", 1500), ("300", 300)])
def test_power(text, value):
    assert power(text) == value


@pytest.mark.parametrize(("text", "value"), [("10min", 600), ("90s", 90), ("2 h", 7200), ("500ms", 0.5)])
def test_durations_are_written_as_in_a_study(text, value):
    assert duration(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [(memory, "much"), (memory, "0GB"), (power, "-1W"), (duration, "soon"), (duration, "10"), (duration, "0s")],
)
def test_an_invalid_quantity_is_refused_with_examples(read, text):
    with pytest.raises(click.BadParameter, match=r"write e\.g\. "):
        read(text)


def test_a_search_takes_the_same_quantities(capsys):
    assert main(["search", "--data", "x", "--models", "y", "--budget", "soon"]) != 0
    assert "'soon' is not a time; write e.g. 90s, 10min or 2h" in capsys.readouterr().err
