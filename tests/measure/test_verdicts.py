"""From outcomes to verdicts: which checks fail, and the reasons given."""

import pytest

from cotenant.measure.checks import CHECKS, CheckedTenant, CheckedTrial, failures, hint_for, verdict
from cotenant.tenancy.records import REQUESTS_MIN


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


def failed_checks(tenant=None, **facts):
    """Names of the failed checks of a trial with a tenant that is fine but for these changes."""
    fine = {"served": REQUESTS_MIN, "idle_lag_p99_ns": 0.0, "median_latency_ns": 1e6, "warmup": "flat"}
    found = failures(CheckedTrial((CheckedTenant("a", **fine | (tenant or {})),), **facts))
    return [failure.check.name for failure in found]


@pytest.mark.parametrize(
    ("at_the_limit", "beyond", "check"),
    [
        ({"served": 99, "failed": 1}, {"served": 98, "failed": 2}, "requests_succeed"),
        ({"served": 89, "failed": 1, "unfinished": 10}, {"served": 198, "failed": 3}, "requests_succeed"),
        ({"served": REQUESTS_MIN}, {"served": REQUESTS_MIN - 1}, "enough_requests"),
        ({"idle_lag_p99_ns": 1e6}, {"idle_lag_p99_ns": 1e6 + 1}, "on_schedule"),
        (
            {"idle_lag_p99_ns": 5e6, "median_latency_ns": 5e7},
            {"idle_lag_p99_ns": 5.1e6, "median_latency_ns": 5e7},
            "on_schedule",
        ),
        ({"idle_lag_p99_ns": None}, {"idle_lag_p99_ns": 9e9}, "on_schedule"),
        ({"idle_lag_p99_ns": 9e9, "median_latency_ns": None}, {"idle_lag_p99_ns": 9e9}, "on_schedule"),
        ({"warmup": None}, {"warmup": "slowdown"}, "steady"),
        ({}, {"overflowed": True}, "records_complete"),
        ({}, {"gave_up": True}, "requests_succeed"),
        ({}, {"unfinished": 1}, "load_sustained"),
        ({"served": REQUESTS_MIN}, {"served": 0, "unfinished": 5}, "requests_served"),
    ],
)
def test_limits_of_a_tenant_are_exact(at_the_limit, beyond, check):
    assert check not in failed_checks(at_the_limit)
    assert check in failed_checks(beyond)


@pytest.mark.parametrize(
    ("fact", "check", "limit", "short_limit"),
    [
        ("foreign_share", "quiet_machine", 0.10, 1 / 3),
        ("beside_share", "quiet_machine", 0.10, 1 / 3),
        ("steal_share", "no_steal", 0.05, 1 / 3),
        ("clock_spread", "clock_stable", 0.05, None),
    ],
)
def test_limits_of_a_trial_are_exact(fact, check, limit, short_limit):
    assert failed_checks(**{fact: limit}) == [check]
    assert failed_checks(**{fact: limit - 1e-9}) == []
    if short_limit is None:
        assert failed_checks(**{fact: 1.0}, short=True) == failed_checks(**{fact: 1.0}, simulated=True) == []
    else:
        assert failed_checks(**{fact: short_limit}, short=True) == [check]
        assert failed_checks(**{fact: short_limit - 1e-9}, short=True) == []


def test_what_short_and_simulated_trials_are_not_judged_by():
    few = {"served": 1, "warmup": "slowdown"}
    assert failed_checks(few) == ["enough_requests", "steady"]
    assert failed_checks(few, short=True) == []
    assert failed_checks(few, simulated=True) == ["enough_requests"]
    assert failed_checks(foreign_share=0.5, beside_share=0.5) == ["quiet_machine"], "once"
    assert failed_checks({"fate": "crashed", "served": 0, "failed": 9}) == ["tenants_alive"]
    everything = failed_checks(
        sensors_lost=("x",), not_ready=("x",), foreign_jobs=("x",), devices_lost=("x",), control_violations=("x",),
        unequal_copies=("x",), sharing_violations=("x",),
    )  # fmt: skip
    assert everything == [
        "sharing_verified", "copies_equal", "controls_applied", "device_present", "device_free", "start_temperature",
        "sensors_present",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("windows", "advice"),
    [
        ({}, "window=10s"),
        ({"window_s": 9.9}, "window=10s"),
        ({"window_s": 10}, "window=40s"),
        ({"window_s": "?"}, "=10s"),
    ],
)
def test_advice_is_four_times_what_the_run_had(windows, advice):
    assert advice in hint_for(CHECKS["enough_requests"], windows)
