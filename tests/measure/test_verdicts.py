"""From outcomes to verdicts: which checks fail, and the reasons given."""

import pytest

from cotenant.measure.checks import CHECKS, CheckedTenant, CheckedTrial, failures, hint_for, verdict


def good(name="a", **changes):
    return CheckedTenant(**{"name": name, "served": 100, "median_latency_ns": 5e6, "warmup": "flat"} | changes)


def judged(**changes):
    failed = failures(CheckedTrial(**{"tenants": (good(),)} | changes))
    return verdict(failed), [failure.check.name for failure in failed], [failure.reason for failure in failed]


def test_a_trial_without_complaints_is_valid():
    assert judged() == ("valid", [], [])


@pytest.mark.parametrize(
    ("changes", "expected", "check", "reason"),
    [
        ({"fate": "was killed by SIGKILL"}, "invalid", "tenants_alive", "a was killed by SIGKILL"),
        (
            {"failed": 5, "error": "ValueError: no"},
            "invalid",
            "requests_succeed",
            "5 of 105 requests of a failed: ValueError: no",
        ),
        ({"overflowed": True}, "invalid", "records_complete", "a served more requests than could be recorded"),
        ({"served": 3}, "unstable", "enough_requests", "a served only 3 requests in the window"),
        (
            {"unfinished": 50},
            "unstable",
            "load_sustained",
            "50 of 150 requests due in the window to a were not served",
        ),
        (
            {"idle_lag_p99_ns": 3e6},
            "unstable",
            "on_schedule",
            "idle a started 1 % of its requests 3.0 ms late or more",
        ),
        ({"warmup": "slowdown"}, "unstable", "steady", "the latency of a was not steady: slowdown"),
    ],
)
def test_problems_of_a_tenant_are_named(changes, expected, check, reason):
    assert judged(tenants=(good(**changes),)) == (expected, [check], [reason])


@pytest.mark.parametrize(
    ("changes", "expected", "check"),
    [
        ({"sharing_violations": ("a has cores 0-1, not 0",)}, "invalid", "sharing_verified"),
        ({"control_violations": ("the clock did not move",)}, "invalid", "controls_applied"),
        ({"foreign_share": 0.3}, "unstable", "quiet_machine"),
        ({"steal_share": 0.3}, "unstable", "no_steal"),
        ({"clock_spread": 0.3}, "unstable", "clock_stable"),
        ({"sensors_lost": ("power vanished",)}, "unstable", "sensors_present"),
    ],
)
def test_problems_around_the_tenants_are_named(changes, expected, check):
    assert judged(**changes)[:2] == (expected, [check])


@pytest.mark.parametrize(
    "changes",
    [
        {"tenants": (good(failed=1),)},  # 1 of 101: an isolated failure is recorded, not fatal
        {"tenants": (good(idle_lag_p99_ns=9e5),)},  # below a millisecond: negligible
        {"tenants": (good(idle_lag_p99_ns=4e6, median_latency_ns=5e7),)},  # below a tenth of the latency
        {"foreign_share": 0.05},
        {"foreign_share": None, "steal_share": None, "clock_spread": None},  # not observed: nothing is claimed
    ],
)
def test_values_within_bounds_are_not_reported(changes):
    assert judged(**changes)[0] == "valid"


def test_the_worst_check_decides():
    assert judged(tenants=(good("a", warmup="slowdown"), good("b", fate="hung")))[:2] == (
        "invalid",
        ["tenants_alive", "steady"],
    )


def test_every_check_states_its_meaning_and_a_remedy():
    for check in CHECKS.values():
        assert check.meaning.split()[0].islower(), "completes a sentence in the reference"
        assert check.hint
        assert check.meaning != check.hint


def test_a_tenant_that_served_none_of_its_requests_invalidates_the_trial():
    found, checks, reasons = judged(tenants=(good(served=0, unfinished=4),))
    assert (found, checks) == ("invalid", ["requests_served", "load_sustained"])
    assert reasons[0] == "a served no request in the window"
    assert judged(tenants=(good(served=0, unfinished=4),), short=True)[0] == "invalid"


def test_a_short_window_in_which_nothing_was_due_says_nothing():
    assert judged(tenants=(good(served=0),), short=True) == ("valid", [], [])


def test_a_hint_goes_beyond_what_the_run_did():
    assert hint_for(CHECKS["enough_requests"], {"window_s": 0.1}) == CHECKS["enough_requests"].hint
    assert hint_for(CHECKS["enough_requests"], {"window_s": 20.0}) == "lengthen the window: --set window=80s"
    assert hint_for(CHECKS["steady"], {"lead_s": 3.0}).endswith("--set lead=12s")
    assert hint_for(CHECKS["steady"], {}) == CHECKS["steady"].hint
