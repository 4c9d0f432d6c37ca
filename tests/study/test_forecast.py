"""The cost of a study, and the refusal of mixes that don't fit."""

import json
import os

import pytest

from cotenant.api.run import dry_run
from cotenant.errors import DoesNotFit
from cotenant.study.files import load_study, study_from
from cotenant.study.run_forecast import START_S, SWITCH_S, Forecast, forecast
from cotenant.workloads.protocol import Properties, WorkloadSpec

GIB = 2**30
TRIAL_S = 0.9 + 0.1 + SWITCH_S
PEAKS = {"small": GIB, "large": 14 * GIB, "yours": None}


def properties(spec: WorkloadSpec) -> Properties:
    peak = PEAKS[spec.name]
    return Properties(params=None, weight_bytes=None, flops=None, bytes_moved=None, peak_memory_bytes=peak)


def forecast_of(memory_gib: float = 40, base: int = 0, **keys: object) -> Forecast:
    tenants = {name: {"workload": name} for name in ("small", "large")}
    study = study_from({"tenants": tenants, "window": "900ms", "lead": "100ms", **keys})
    return forecast(
        study,
        modes=("processes", "threads"),
        memory_bytes=int(memory_gib * GIB),
        figures=properties,
        base_bytes_per_tenant=base,
    )


def test_time_runs_from_the_fewest_blocks_to_the_most():
    found = forecast_of(sharing="all", blocks={"min": 3, "max": 10}, budget="1h")
    assert (found.trials_per_block, found.trials_min, found.trials_max) == (4, 12, 40)
    assert (found.seconds_min, found.seconds_max) == pytest.approx((12 * TRIAL_S, 40 * TRIAL_S))


def test_the_budget_ends_a_run_before_the_most_blocks():
    found = forecast_of(sharing="all", blocks={"min": 3, "max": 10}, budget=f"{START_S + 21}s")
    assert (found.blocks_max, found.seconds_max) == (5, pytest.approx(20 * TRIAL_S))


def test_an_earlier_run_gives_the_pace():
    keys = {"sharing": "all", "blocks": {"min": 3, "max": 100}, "budget": "60s"}
    study = study_from({"tenants": {"small": {"workload": "small"}}, **keys})
    found = forecast_of(**keys).at_pace(2.5, study)
    assert (found.blocks_max, found.trials_max, found.seconds_max) == (24, 96, 60.0)


def test_measuring_capacity_for_percentage_loads_takes_time_too():
    found = forecast_of(loads=["poisson(70%)"], blocks=1)
    assert (found.calibrations, found.seconds_min) == (2, pytest.approx((2 + 3) * TRIAL_S))


def test_memory_is_the_sum_over_the_mix_and_its_processes():
    found = forecast_of(base=GIB, mixes=["pairs", {"copies": {"small": [3]}}])
    assert [(mix.mix, mix.needed_bytes // GIB, mix.biggest) for mix in found.memory] == [
        ("small+large", 17, "large"),
        ("large", 15, "large"),
        ("small x3", 6, "small"),
        ("small", 2, "small"),
    ]
    found.require_fit()


def test_a_mix_that_does_not_fit_is_refused_by_name():
    found = forecast_of(memory_gib=14.5)
    with pytest.raises(DoesNotFit) as caught:
        found.require_fit()
    assert caught.value.message == (
        'mix "small+large" needs 15 GiB (14 GiB of it for "large"), but cpu has 14.5 GiB free'
    )
    assert "batch" in str(caught.value.hint)
    assert [mix.mix for mix in found.memory if not mix.fits] == ["small+large"]


def test_where_a_tenants_memory_is_unknown_the_need_is_a_lower_bound():
    study = study_from({"tenants": {"yours": {"workload": "yours"}, "large": {"workload": "large"}}})
    found = forecast(study, modes=(), memory_bytes=GIB, figures=properties)
    assert found.memory[0].unknown == ("yours",)
    with pytest.raises(DoesNotFit, match=r"needs at least 14 GiB .*; 1 more don't fit either"):
        found.require_fit()


def test_a_forecast_is_plain_data():
    data = json.loads(json.dumps(forecast_of(memory_gib=1).to_json()))
    assert data["fits"] is False
    assert data["memory"][0]["mix"] == "small+large"


def test_the_demo_measures_for_less_than_two_minutes():
    free = Properties(params=0, weight_bytes=0, flops=0, bytes_moved=0, peak_memory_bytes=0)
    cpu = ("processes", "threads", "pinned")
    found = forecast(load_study("quick"), modes=cpu, memory_bytes=GIB, figures=lambda _: free)
    assert found.trials_per_block == 3 + 3 * 2 * 3  # mixes are visited three times in a block
    assert found.seconds_max <= 75


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or not {0, 1} <= os.sched_getaffinity(0), reason="two cores")
def test_trials_that_the_device_can_not_run_are_not_counted():
    found = dry_run("quick", device="cpu:0-1")
    assert found.trials_per_block == 3 + 3 * 2 * 3 - 3  # three tenants can't have a core each
    assert [sentence.split()[1] for sentence in found.left_out] == ["`pinned`"]


def test_a_study_given_as_an_object_takes_overrides_too():
    study = study_from({"tenants": {"a": {"workload": "sleep"}}, "mixes": ["solo"], "window": "1s"})
    assert dry_run(study, overrides=["blocks=7", "tenants.a.batch=2"]).trials_max == 7
    assert dry_run(study, overrides=["blocks=7"]).trials_min == 7
