"""Automatic window lengths."""

import numpy as np
import pytest

from cotenant.api.records import sql
from cotenant.api.run import dry_run, run
from cotenant.devices import find_device
from cotenant.measure.run_plan import plan_for
from cotenant.study.consistency import demanding, impossible
from cotenant.study.files import load_study, study_from
from cotenant.study.windows import LONG, LONG_EVERY, SHORT, arrivals_for, chosen, expected, needed_s, with_windows
from cotenant.tenancy.sharing import Sharing

SPIN = {"a": {"workload": "spin"}, "b": {"workload": "spin"}}


def study(**keys):
    return study_from({"tenants": SPIN, **keys})


def test_a_window_fits_eight_requests_of_the_slowest_tenant_and_is_not_too_short():
    assert chosen(0.001) == SHORT
    assert chosen(0.05).window_s == pytest.approx(0.4)
    assert chosen(0.05).lead_s == pytest.approx(0.1)


def test_lengths_given_by_the_study_are_kept():
    found = with_windows(study(window="700ms"), SHORT)
    assert (found.window_s, found.lead_s) == (0.7, SHORT.lead_s)
    assert study(window="auto").window_s is None
    assert study_from({"tenants": SPIN, "window": "auto"}).to_yaml().count("auto") == 2


@pytest.mark.parametrize(
    "keys",
    [
        {"loads": ["poisson(5)"]},
        {"before": {"cool_to": "idle+1C"}},
        {"device": "sim:t4", "tenants": {"a": {"workload": "sgemm-mini"}}, "mixes": ["solo"]},
    ],
)
def test_open_loads_heat_and_simulated_devices_keep_long_windows(keys):
    asked = study(**keys)
    assert expected(plan_for(asked, find_device(asked.device)).study) == LONG


def test_closed_loads_on_a_real_device_get_short_windows():
    plan = plan_for(study(), find_device("cpu"))
    assert plan.study.window_s is None
    assert {trial.window_s for trial in plan.block(0).trials} == {SHORT.window_s}


def test_occasionally_one_window_is_long_a_different_one_each_time():
    plan = plan_for(study(), find_device("cpu"))
    long = [
        [trial.mix for trial in plan.block(number).trials if trial.window_s > SHORT.window_s]
        for number in range(3 * LONG_EVERY)
    ]
    assert [len(found) for found in long] == [*[0] * (LONG_EVERY - 1), 1] * 3
    assert {mix for found in long for mix in found} == {"a", "b", "a+b"}


def test_trials_of_quick_tenants_have_short_windows_beside_those_of_a_slow_one():
    alone_s = {"a": 0.001, "b": 0.05}
    plan = plan_for(study(), find_device("cpu")).with_windows(chosen(0.1), alone_s)
    assert {trial.mix: (trial.window_s, trial.lead_s) for trial in plan.block(0).trials} == {
        "a": (SHORT.window_s, SHORT.lead_s),
        "b": (0.4, 0.1),
        "a+b": (0.8, 0.2),
    }
    fixed = plan_for(study(window="700ms"), find_device("cpu")).with_windows(chosen(0.1), alone_s)
    assert {trial.mix: (trial.window_s, trial.lead_s) for trial in fixed.block(0).trials}["a"] == (0.7, SHORT.lead_s)


@pytest.mark.parametrize(
    ("sharing", "slower"),
    [("processes", 2), ("mps[90, 10]", 10), ("mps[50, 50]", 2), ("mig[4g.20gb, 1g.5gb]", 8), ("mig", 8)],
)
def test_a_window_waits_for_a_tenant_with_a_small_share(sharing, slower):
    trial = next(trial for trial in plan_for(study(), find_device("cpu")).block(0).trials if len(trial.tenants) == 2)
    mode, _, shares = sharing.rstrip("]").partition("[")
    given = tuple(float(share) if share.isdigit() else share for share in shares.split(", ") if share)
    shared = trial.model_copy(update={"sharing": Sharing(mode=mode, shares=given)})
    assert needed_s(shared, {"a": 0.05, "b": 0.05}) == pytest.approx(0.05 * slower)


def test_a_window_that_is_judged_by_itself_holds_the_ten_requests_it_is_judged_by():
    assert chosen(0.12).window_s == pytest.approx(8 * 0.12)
    assert chosen(0.2).window_s == pytest.approx(12 * 0.2)
    assert chosen(0.001, LONG) == LONG


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_ten_requests_of_a_random_load_nearly_always_come(cv):
    expected = arrivals_for(10, cv)
    gaps = np.random.default_rng(0).gamma(1 / cv**2, cv**2, (20_000, 200))
    begun = gaps.cumsum(axis=1) - gaps[:, :1] * np.random.default_rng(1).random((20_000, 1))
    assert ((begun < expected).sum(axis=1) < 10).mean() < 0.02
    assert arrivals_for(10, 0) == pytest.approx(10)


def test_a_window_waits_for_the_arrivals_of_a_rare_load():
    tenants = {
        "rare": {"workload": "spin", "load": "poisson(0.5)"},
        "often": {"workload": "spin", "load": "poisson(50%)"},
        "bursty": {"workload": "spin", "load": "gamma(5, 3)"},
        "busy": {"workload": "spin", "load": "poisson(50)"},
    }
    study = study_from({"tenants": tenants, "mixes": ["solo", {"groups": {"both": ["rare", "often"]}}]})
    alone_s = {"rare": 0.01, "often": 0.3, "bursty": 0.01, "busy": 0.01}
    plan = plan_for(study, find_device("cpu")).with_windows(LONG, alone_s)
    poisson = arrivals_for(10, 1)
    assert {trial.mix: trial.window_s for trial in plan.block(0).trials} == {
        "rare": pytest.approx(poisson / 0.5, abs=0.001),
        "often": pytest.approx(poisson * 0.3 / 0.5, abs=0.001),
        "bursty": pytest.approx(arrivals_for(10, 3) / 5, abs=0.001),
        "busy": LONG.window_s,
        "both": pytest.approx(poisson / 0.5, abs=0.001),
    }


def test_a_slow_model_on_a_simulated_device_gets_a_window_of_its_own(tmp_path):
    tenants = {
        "slow": {"workload": "distilgpt2", "mode": "generate", "seq": 16, "tokens": 64},
        "quick": {"workload": "resnet18", "batch": 1},
    }
    asked = study_from({"device": "sim:t4", "tenants": tenants, "mixes": ["solo"], "blocks": {"min": 2, "max": 2}})
    result = run(asked, out=tmp_path)
    [manifest] = result.manifests
    assert manifest["windows"]["alone_s"]["slow"] > 0.3, "too slow for a window of two seconds"
    assert {mix.verdict for mix in result.mixes} == {"valid"}
    lengths = dict(sql("SELECT mix, window_s FROM trials", result.folder).rows)
    assert lengths["quick"] == LONG.window_s
    assert lengths["slow"] == pytest.approx(12 * manifest["windows"]["alone_s"]["slow"], rel=0.01)
    assert dry_run(asked, out=tmp_path).seconds_min > 2 * (lengths["slow"] + lengths["quick"])


def test_tenants_that_can_not_keep_up_even_alone_are_reported():
    asked = study_from(
        {
            "tenants": {
                "fast": {"workload": "spin", "load": "poisson(50)", "slo": "50ms"},
                "slow": {"workload": "spin", "load": "poisson(50)"},
                "late": {"workload": "spin", "load": "closed(1)", "slo": "5ms"},
                "unknown": {"workload": "spin", "load": "poisson(1000)"},
            },
            "mixes": ["solo"],
        }
    )
    assert demanding(asked) == ("fast", "slow", "late", "unknown")
    found = list(impossible(asked, {"fast": 0.01, "slow": 0.03, "late": 0.0072}))
    assert found == [
        (
            "slow can't keep up with poisson(50) even alone: "
            "at 30 ms a request it would be busy for 1.5 s of every second."
        ),
        "late can't meet its objective even alone: the limit is 5 ms, and a request takes 7.2 ms.",
    ]


def test_a_study_without_rates_and_limits_needs_no_times_of_its_tenants():
    assert demanding(load_study("search-bottlenecks")) == ()
