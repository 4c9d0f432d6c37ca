"""Physical constraints on any measurement of sharing, on real processes.

These are the only tests here that compare times. Each compares trials of the same blocks, so that a busy machine
shifts both sides. A core of a virtual machine can change its speed between two trials, so bounds lie half way to the
next wrong answer: a tenant at half speed takes 2 times as long, not 1 and not 3 times.
"""

import os
import textwrap

import pytest

import cotenant
from cotenant.study.files import study_from

pytestmark = [pytest.mark.quiet, pytest.mark.slow]
two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two cores to show that tenants on different cores don't interfere"
)
SPIN = {"workload": "spin", "threads": 1, "params": {"work": 4000}}


def measured(tmp_path, device, **study):
    data = {"name": "physics", "window": "400ms", "lead": "100ms", "blocks": 6, "until": None} | study
    return cotenant.run(study_from(data), device=device, out=tmp_path / "runs")


def slowdowns(result):
    return {
        (tenant["mix"], tenant["sharing"], tenant["load"], tenant["tenant"]): tenant["slowdown"]
        for tenant in result.summary.to_json()["tenants"]
        if tenant["sharing"] != "alone"
    }


def first_core():
    return f"cpu:{min(os.sched_getaffinity(0))}"


def covers(interval, truth, *, slack):
    return interval["lo"] - slack <= truth <= interval["hi"] + slack


def test_two_equal_one_thread_tenants_on_one_core_run_at_half_speed(tmp_path):
    result = measured(tmp_path, first_core(), tenants={"a": SPIN, "b": SPIN}, mixes=["pairs"])
    for interval in slowdowns(result).values():
        assert interval["est"] == pytest.approx(2.0, abs=0.5)
        assert covers(interval, 2.0, slack=0.2)
    [mix] = [mix for mix in result.summary.to_json()["mixes"] if mix["mix"] == "a+b"]
    assert mix["stp"]["est"] == pytest.approx(1.0, abs=0.25)  # work is conserved: time slicing gains nothing


@two_cores
def test_two_one_thread_tenants_on_two_cores_run_at_full_speed(tmp_path):
    result = measured(tmp_path, "cpu", tenants={"a": SPIN, "b": SPIN}, mixes=["pairs"], sharing=["pinned"])
    for interval in slowdowns(result).values():
        assert interval["est"] == pytest.approx(1.0, abs=0.5)
        assert covers(interval, 1.0, slack=0.2)


def test_a_tenant_beside_an_idle_one_runs_as_alone(tmp_path):
    idle = {"workload": "null", "load": "poisson(1)"}
    result = measured(tmp_path, first_core(), tenants={"a": SPIN, "idle": idle}, mixes=["pairs"])
    interval = slowdowns(result)["a+idle", "processes", "closed(1)", "a"]
    assert interval["est"] == pytest.approx(1.0, abs=0.25)
    assert covers(interval, 1.0, slack=0.1)


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Workloads for this test, importable by tenant processes through the working directory."""
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            import time

            def stalls_once(params, ms=3, stall_s=2.0):
                served, at_request = 0, params["at_request"]
                def request():
                    nonlocal served
                    served += 1
                    time.sleep(stall_s if served == at_request else ms / 1e3)
                return request

            def drifts(ms=2, per_second=0.01):
                begin = time.monotonic()
                def request():
                    time.sleep(ms / 1e3 * (1 + per_second * (time.monotonic() - begin)))
                return request
            """
        )
    )
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("own_module")
def test_a_stall_of_two_seconds_shows_in_the_tail_of_an_open_load_and_hides_in_a_closed_one(tmp_path):
    """Coordinated omission: a closed load stops sending while the server stalls; users don't."""

    def p99_ms(load, at_request):
        tenants = {"a": {"workload": "mine:stalls_once", "params": {"at_request": at_request}}}
        result = measured(tmp_path, None, tenants=tenants, mixes=["solo"], loads=[load], blocks=1, window="5s")
        [tenant] = result.summary.to_json()["tenants"]
        return tenant["latency_ms"]["p99"]["est"]

    assert p99_ms("closed(1)", at_request=600) < 100
    assert p99_ms("poisson(100)", at_request=250) > 1000


@pytest.mark.usefixtures("own_module")
def test_a_drift_during_the_run_does_not_become_an_effect(tmp_path):
    """Everything gets slower by about 1 % a second, in solo and shared trials alike, since blocks mix their order."""
    tenants = {"a": {"workload": "mine:drifts"}, "idle": {"workload": "null", "load": "poisson(1)"}}
    result = measured(tmp_path, None, tenants=tenants, mixes=["pairs"], window="200ms", blocks=8)
    interval = slowdowns(result)["a+idle", "processes", "closed(1)", "a"]
    assert interval["est"] == pytest.approx(1.0, abs=0.03)
    assert covers(interval, 1.0, slack=0.01)
