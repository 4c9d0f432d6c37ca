"""Every measuring rule has an experiment; the page quotes its result, which supports the rule."""

import re
from pathlib import Path

import pytest

from tests.support.scripts import loaded

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/measuring.md").read_text(encoding="utf-8")


GENERATOR = loaded(ROOT / "docs/generate.py")
NAMES = sorted(path.stem for path in (ROOT / "docs/experiments").glob("*.py"))


def numbers(cells):
    """The first number of each cell."""
    return [float(re.search(r"[\d.,]+", cell)[0].replace(",", "")) for cell in cells]


def rows_of(name):
    """The experiment's table on the page, which the first test compares with its result."""
    quoted = PAGE.partition(f"<!-- experiment: {name} -->\n")[2].partition("<!-- end of experiment -->")[0]
    _head, _rule, *rows = [line for line in quoted.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def column(name, place):
    return numbers(row[place] for row in rows_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_quotes_the_experiments_result(name):
    assert f"<!-- experiment: {name} -->\n{GENERATOR.experiment(name)}<!-- end of experiment -->" in PAGE, (
        "run `make docs`"
    )


def test_every_rule_has_an_experiment():
    rules = re.split(r"^(?=## \d+\.)", PAGE, flags=re.MULTILINE)[1:]
    assert len(rules) == 11
    assert all("<!-- experiment: " in rule for rule in rules)


def test_a_page_is_filled_in_without_touching_the_rest():
    page = "before\n<!-- experiment: fixed_iterations -->\nold\n<!-- end of experiment -->\nafter\n"
    filled = GENERATOR.with_experiments(page)
    assert filled.startswith("before\n<!-- experiment: fixed_iterations -->\n**A count")
    assert filled.endswith("<!-- end of experiment -->\nafter\n")
    assert "old" not in filled
    assert GENERATOR.with_experiments(filled) == filled


def test_iterations_hide_a_slowdown_that_windows_show():
    assert column("fixed_iterations", 2)[-1] < 1.05
    assert set(column("fixed_iterations", 3)) == {2.0}


def test_one_request_or_hundreds_see_the_hang():
    sent, due = column("coordinated_omission", 4)
    assert sent == 1
    assert due > 300


def test_blocks_cancel_drift_and_a_baseline_at_the_start_does_not():
    first, blocks = column("drift", 3)
    assert first < 5
    assert 93 <= blocks <= 97


def test_requests_as_replicates_miss_the_truth():
    requests, trials = column("pooled_requests", 3)
    assert requests < 40
    assert 93 <= trials <= 97


def test_only_the_check_tells_a_fallback_from_a_result():
    rows = rows_of("fallback")
    assert rows[0][2][:4] == rows[2][2][:4]
    assert [row[3].split(":")[0] for row in rows] == ["valid", "valid", "invalid"]


def test_every_shape_is_named_correctly():
    rows = rows_of("warm_up")
    assert [row[3] for row in rows] == ["flat", "warm-up", "slowdown", "no steady state"]


def test_few_requests_give_a_p99_that_is_mostly_too_low():
    assert column("few_samples", 3)[0] > 65


def test_noise_has_a_winner_and_the_interval_does_not():
    assert column("no_interval", 1)[0] > 30
    assert all(share <= 6 for share in column("no_interval", 2))


def test_the_noisy_pair_takes_more_blocks_and_the_quiet_one_the_minimum():
    quiet, *_, noisy = column("stopping", 2)
    assert quiet == 5
    assert noisy > 15
    assert all(share >= 90 for share in column("stopping", 4))


def test_queueing_is_visible_to_one_clock_only():
    assert set(column("two_clocks", 1)) == {5.0}
    assert column("two_clocks", 2)[-1] > 40


def test_a_sensor_with_a_short_window_may_read_any_value():
    assert column("sensor_window", 1)[-1] == 100
    assert column("sensor_window", 2)[-1] == 300


def test_a_killed_run_keeps_its_trials():
    assert column("killed", 2) == [3, 0]
