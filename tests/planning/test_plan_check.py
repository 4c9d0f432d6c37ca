"""`plan --check`: attainment with its interval."""

import pytest

from cotenant.errors import StudyError
from cotenant.planning.check import interval_over_seeds
from cotenant.planning.check_simulated import simulated_device
from cotenant.tenancy.plan_document import PlanDevice


def test_seeds_that_all_agree_say_no_more_than_their_requests_do():
    lo, hi = interval_over_seeds([1.0] * 8, 600)
    assert hi == 1
    assert lo == pytest.approx(0.025 ** (1 / 600))
    assert interval_over_seeds([1.0] * 8, 600, looks=3)[0] < lo
    wider = interval_over_seeds([0.9, 1.0] * 4, 600)
    assert wider[0] < 0.95 < wider[1]


def seat(workload="bert-base", rate=40.0, *, expected=None, **keys):
    expected = expected or {"p99": {"limit_ms": 60.0}}
    return {"rate_rps": rate, "at_once": 1, "runs": {"workload": workload, **keys}, "expected": expected}


def checked(seats, **keys):
    device = {"name": "d", "kind": "sim:a100-sxm4-80gb", "sharing": "processes", "tenants": seats, **keys}
    return simulated_device(PlanDevice.model_validate(device), [1, 2], risk=0.1)


def test_the_interval_covers_the_range_of_the_predicted_times():
    def one(upper):
        promise = {"limit_ms": 20.0, "lower_ms": 4.0, "estimate_ms": 5.0, "upper_ms": upper}
        (found,) = checked({"t": seat(expected={"p99": promise})})
        return found

    sure, unsure = one(5.5), one(50.0)
    assert sure.verdict == "kept"
    assert unsure.attained.est == sure.attained.est
    assert unsure.attained.lo < sure.attained.lo
    assert unsure.verdict == "can't tell"


def test_every_objective_of_a_chat_is_judged_against_its_own_limit():
    limits = {"ttft p95": {"limit_ms": 1.0}, "tpot p95": {"limit_ms": 500.0}}
    chat = seat("gpt2", 1.0, expected=limits, mode="generate", tokens=16)
    first, each = checked({"chat": {**chat, "at_once": 4}})
    assert (first.objective, first.objective_ms, first.verdict) == ("ttft p95", 1.0, "missed")
    assert (each.objective, each.objective_ms, each.verdict) == ("tpot p95", 500.0, "kept")


def test_an_engine_is_judged_the_same_way():
    limits = {"ttft p95": {"limit_ms": 0.5}, "tpot p95": {"limit_ms": 500.0}}
    chat = {**seat("llama-3.2-1b", 2.0, expected=limits, mode="generate", tokens=32), "software": "vllm", "at_once": 16}
    assert [row.verdict for row in checked({"chat": chat})] == ["missed", "kept"]


def test_neighbours_are_simulated_and_not_taken_from_the_file():
    (alone,) = checked({"t": seat()})
    beside, _ = checked({"t": seat(), "u": seat("bert-large", 10.0, expected={"p99": {"limit_ms": 900.0}}, batch=16)})
    assert beside.tail_ms.est > 1.02 * alone.tail_ms.est


def test_a_mig_profile_that_the_gpu_does_not_have_is_refused_in_a_sentence():
    cut = {**seat(), "share": "9g.90gb"}
    with pytest.raises(StudyError, match=r"t has the share 9g.90gb, and sim:a100-sxm4-80gb has the profiles 1g.10gb"):
        checked({"t": cut}, sharing="mig")
