"""What `compare` claims about two runs: no false regressions, real ones found and named, the clock distinguished."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.analyse.comparison.pair import compare_pair, quality
from cotenant.analyse.comparison.sentences import comparison_sentences, row_reason

pytestmark = pytest.mark.slow


def compared(synthetic, *, before=None, now=None, **both):
    runs = {"before": before or {}, "now": now or {}}
    return compare_pair(*(synthetic(run=name, **both, **own).evidence() for name, own in runs.items()))


def verdicts(found):
    return [row.outcome.verdict for row in found.rows]


FIFTY = {"tenants": 5, "sharings": 2, "blocks": 6}
"""45 cells and 5 tenants: fifty verdicts."""


def test_the_same_study_twice_is_never_called_slower_in_20_repeats_of_50_verdicts(synthetic):
    for seed in range(20):
        found = compared(synthetic, seed=seed, **FIFTY)
        assert len(found.rows) + len(found.tenants) == 50
        assert not found.regression
        assert "faster" not in verdicts(found)
        assert verdicts(found).count("same") > 30


@pytest.mark.parametrize("study", [FIFTY, {"tenants": 2, "sharings": 12}, {"tenants": 3, "sharings": 8, "blocks": 4}])
@pytest.mark.parametrize("noise", [0.004, 0.02])
def test_false_alarms_stay_within_the_stated_level(synthetic, study, noise):
    alarms = [compared(synthetic, seed=seed, noise=noise, **study).regression for seed in range(100, 200)]
    assert sum(alarms) <= 5


@pytest.mark.parametrize(("factor", "least"), [(1.10, 20), (1.05, 17)])
def test_a_slowdown_of_one_tenant_is_found_and_named(synthetic, factor, least):
    found = [compared(synthetic, seed=seed, now={"slow": {"t2": factor}}, **FIFTY) for seed in range(20)]
    named = [{one.of for one in (*run.rows, *run.tenants) if one.outcome.regression} for run in found]
    assert sum(names == {"t2"} for names in named) >= least
    assert all(names <= {"t2"} for names in named)
    shown = next(run for run, names in zip(found, named, strict=True) if names)
    assert comparison_sentences(shown)[0] == "Slower: t2."


def test_a_machine_that_is_a_little_slower_today_is_corrected_for(synthetic):
    found = compared(synthetic, machine=0, now={"everything": 1.015}, **FIFTY)
    assert found.common.outcome.verdict == "same"
    assert found.common.outcome.total.est == pytest.approx(1.015, abs=0.005)
    assert not found.regression
    assert verdicts(found).count("same") > 30


def test_a_slowdown_of_everything_is_one_alarm_that_blames_no_tenant(synthetic):
    found = compared(synthetic, now={"everything": 1.10}, **FIFTY)
    assert found.regression
    assert found.common.outcome.verdict == "slower"
    assert {row.outcome.because for row in found.rows} == {"all tenants alike"}
    sentences = comparison_sentences(found)
    assert sentences[0] == "Slower: everything, by about as much."
    assert "5 of 5 tenants alone moved alike" in sentences[1]
    assert "not one tenant" in sentences[1]


def test_a_slower_clock_is_not_the_code(synthetic):
    found = compared(synthetic, before={"clock": 3000}, now={"clock": 2700}, **FIFTY)
    assert set(verdicts(found)) == {"slower"}
    assert {row.outcome.because for row in found.rows} == {"the clock"}
    assert found.rows[0].outcome.cycles.est == pytest.approx(1, abs=0.02)
    assert not found.regression
    assert "slower, but so was the clock" in row_reason(found.rows[0], found)
    assert "but for what the clock explains" in comparison_sentences(found)[0]


def test_a_slower_clock_does_not_excuse_a_slower_tenant(synthetic):
    found = compared(synthetic, before={"clock": 3000}, now={"clock": 2700, "slow": {"t1": 1.15}}, **FIFTY)
    assert {row.of for row in found.rows if row.outcome.regression} == {"t1"}


def test_a_clock_that_did_not_slow_it_down_excuses_nothing(synthetic):
    found = compared(
        synthetic, before={"clock": 3000}, now={"clock": 2990, "slow": {"t1": 1.15}}, clock_bound=False, **FIFTY
    )
    assert {row.of for row in found.rows if row.outcome.regression} == {"t1"}


def test_it_says_whether_the_tenant_or_the_sharing_changed(synthetic):
    found = compared(synthetic, now={"slow_shared": {"t1": 1.12}}, **FIFTY)
    rows = [row for row in found.rows if row.of == "t1"]
    assert [row.outcome.verdict for row in rows if row.row.solo] == ["same"]
    assert {row.outcome.verdict for row in rows if not row.row.solo} == {"slower"}


def test_same_is_claimed_only_where_it_is_shown(synthetic):
    noisy = compared(synthetic, noise=0.06, tenants=3, blocks=4)
    assert "same" not in verdicts(noisy)
    row = next(row for row in noisy.rows if row.outcome.blocks_missing)
    assert row.outcome.verdict == "ambiguous"
    assert f"about {row.outcome.blocks_missing} more block" in row_reason(row, noisy)


def test_the_suggested_number_of_blocks_is_about_enough(synthetic):
    few = compared(synthetic, noise=0.03, tenants=3, blocks=6, placement=0, machine=0, seed=3)
    wanted = max(row.outcome.blocks_missing or 0 for row in few.rows)
    assert wanted
    many = compared(synthetic, noise=0.03, tenants=3, blocks=6 + wanted, placement=0, machine=0, seed=3)
    assert verdicts(many).count("same") >= 0.8 * len(many.rows)


def test_one_block_is_not_compared(synthetic):
    found = compared(synthetic, blocks=1)
    assert {row.outcome.because for row in found.rows} == {"too few blocks"}
    assert comparison_sentences(found)[0] == "No verdict: no cell could be compared."


def test_different_work_is_not_compared(synthetic):
    found = compared(synthetic, now={"batch": {"t0": 8}, "slow": {"t0": 8}}, **FIFTY)
    rows = [row for row in found.rows if row.of == "t0"]
    assert {row.outcome.because for row in rows} == {"other work"}
    assert rows[0].detail == "batch 1 before and 8 now"
    assert not found.regression


def test_loads_at_another_rate_are_not_compared(synthetic):
    found = compared(synthetic, before={"rate_rps": 100.0}, now={"rate_rps": 90.0}, **FIFTY)
    assert {row.outcome.because for row in found.rows} == {"other rate"}
    assert "100 requests/s came before and 90 now" in found.rows[0].detail


def test_requests_that_are_no_longer_served_are_a_regression_even_if_the_others_are_fast(synthetic):
    found = compared(synthetic, now={"unfinished": {"t0": 30}, "slow": {"t0": 0.8}}, rate_rps=100.0, **FIFTY)
    row = next(row for row in found.rows if row.of == "t0")
    assert (row.outcome.verdict, row.outcome.because) == ("slower", "requests not served")
    assert row.detail == "0 % of requests were not served before and 23 % are not now"


def test_a_run_without_a_usable_trial_is_reported(synthetic):
    found = compared(synthetic, now={"verdict": "invalid"}, tenants=2)
    assert {row.outcome.because for row in found.rows} == {"no usable trial"}
    assert "tenants_alive" in found.rows[0].detail


def test_cells_that_only_one_run_has_are_named(synthetic):
    found = compare_pair(
        synthetic(run="before", tenants=3).evidence(), synthetic(run="now", tenants=2, sharings=3).evidence()
    )
    assert {row.tenant for row in found.only_before} == {"t0", "t1", "t2"}
    assert {row.sharing for row in found.only_now} == {"way2"}


def test_a_device_without_noise_is_compared_exactly(synthetic):
    quiet = {"noise": 0, "machine": 0, "placement": 0, "wander": 0, "tenants": 3}
    assert set(verdicts(compared(synthetic, **quiet))) == {"same"}
    found = compared(synthetic, now={"slow": {"t0": 1.04}}, **quiet)
    assert {row.of for row in found.rows if row.outcome.verdict == "slower"} == {"t0"}


def test_everything_is_plain_data(synthetic):
    import json

    found = compared(synthetic, now={"slow": {"t1": 1.2}}, **FIFTY).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["regression"] is True
    assert np.isclose(found["rows"][0]["ratio"]["est"], 1, atol=0.05)


def test_runs_beside_other_work_are_not_compared_even_if_their_blocks_are_valid(synthetic):
    alone = synthetic(run="alone", tenants=2).evidence()
    beside = [replace(item, seen=replace(item.seen, foreign_share=0.25)) for item in alone]
    assert quality(alone).mostly_valid
    found = quality(beside)
    assert not found.mostly_valid
    assert found.failed_checks == ("quiet_machine",)
