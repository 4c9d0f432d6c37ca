"""A plan's upper ends: the validated range of each tenant's own class, or of the classes most like it."""

from types import SimpleNamespace

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.predictors.errors import SimulationErrors
from cotenant.planning.solver.problem import NOBODY
from cotenant.prediction.trust import Class, classes, error_of
from cotenant.reporting.results.planned import doubts_of
from cotenant.workloads.protocol import WorkloadSpec

VISION, BERT = 0, 1
SPECS = WorkloadSpec(name="resnet50"), WorkloadSpec(name="bert-base", seq=128)


def errors(*, risk=0.05, measured=(), jobs=()):
    gpu = open_simulated("sim:a100-sxm4-40gb")
    simulation = SimpleNamespace(
        risk=risk,
        measured=set(measured),
        gpus={"d": gpu},
        tenants=[SimpleNamespace(batches=(1,), job="1h" if number in jobs else None) for number in (VISION, BERT)],
        spec=lambda device, tenant, batch: SPECS[tenant],
        spans_of=lambda device, tenant: 1,
        served=lambda device, tenant: False,
    )
    return SimulationErrors(simulation)


def mixes(*tenants, sharing="mps", share=np.nan):
    seats = np.array([tenants])
    return Mixes("d", sharing, seats, np.ones(seats.shape), np.ones_like(seats), np.full(seats.shape, share))


def upper(found, tenants, **how):
    return found.factors(mixes(*tenants, **how), closed=False)[1][0]


def test_a_plan_counts_on_no_bias():
    for kind, quantity in classes():
        low, high = error_of(kind, quantity).around_one
        assert low <= 1 <= high


def test_each_tenant_has_the_error_of_its_own_class():
    alone = {tenant: upper(errors(), (tenant,))[0] for tenant in (VISION, BERT)}
    time = {tenant: error_of(kind, "time").around_one[1] for tenant, kind in KINDS.items()}
    assert alone == pytest.approx(time)
    assert alone[VISION] != pytest.approx(alone[BERT])
    beside = upper(errors(), (VISION, BERT))
    slowdown = error_of(Class("ampere", "eager", "vision", "mps", calibrated=False), "slowdown").around_one[1]
    assert beside[0] == pytest.approx(np.exp(np.hypot(np.log(time[VISION]), np.log(slowdown))))


KINDS = {
    VISION: Class("ampere", "eager", "vision", "alone", calibrated=False),
    BERT: Class("ampere", "eager", "encoder", "alone", calibrated=False),
}


def test_a_measured_time_alone_leaves_only_the_error_of_the_slowdown():
    assert upper(errors(measured=[BERT]), (BERT,))[0] == 1.0
    assert upper(errors(measured=[VISION]), (VISION, BERT))[0] < upper(errors(), (VISION, BERT))[0]


def test_a_job_takes_the_stated_time_alone_and_only_its_slowdown_is_predicted():
    assert upper(errors(jobs=[BERT]), (BERT,))[0] == 1.0
    slowdown = error_of(Class("ampere", "eager", "vision", "mps", calibrated=False), "slowdown").around_one[1]
    beside = upper(errors(jobs=[VISION]), (VISION, BERT))
    assert beside[0] == pytest.approx(slowdown)
    assert beside[1] == upper(errors(), (VISION, BERT))[1]


def test_less_risk_means_wider_ends_and_a_closed_form_adds_its_own_error():
    careful, bold = upper(errors(risk=0.01), (VISION, BERT)), upper(errors(risk=0.2), (VISION, BERT))
    assert (careful > bold).all()
    low, high = errors().factors(mixes(VISION, BERT), closed=True)
    assert (high > upper(errors(), (VISION, BERT))).all()
    assert (low < 1).all()


def test_empty_seats_have_no_error():
    low, high = errors().factors(mixes(VISION, NOBODY), closed=True)
    assert low[0, 1] == high[0, 1] == 1.0


def test_a_class_that_nothing_validates_is_named_with_the_classes_its_range_comes_from():
    validated = mixes(VISION, VISION)
    assert errors().doubts(validated) == (("", ""),)
    found = errors()
    found._simulation.gpus["d"] = open_simulated("sim:h100-sxm5-80gb")
    ((alone,),) = found.doubts(mixes(BERT))
    assert alone.startswith("time alone of eager encoder on hopper (range of ")
    ((beside, _),) = found.doubts(mixes(BERT, VISION))
    assert "slowdown under mps of eager encoder on hopper (range of " in beside
    named = alone.partition("(range of ")[2].rstrip(")").replace(" and ", ", ").split(", ")
    assert len(named) == 3
    assert named[2].endswith(" other classes")


def test_a_split_model_is_said_not_to_be_validated():
    found = errors()
    found._simulation.spans_of = lambda device, tenant: 2
    assert "tensor parallelism" in found.doubts(mixes(VISION))[0][0]


def test_the_answer_names_each_tenant_once():
    seats = [SimpleNamespace(tenant=name, doubt=doubt) for name, doubt in (("a", "x"), ("a", "x"), ("b", ""))]
    plan = SimpleNamespace(devices=[SimpleNamespace(tenants=seats)])
    assert doubts_of(plan) == ["not validated for a: x"]


def test_a_class_known_under_another_way_to_share_only_is_called_the_same():
    ((seat, _),) = errors().doubts(mixes(VISION, VISION, share=40.0))
    assert seat == "slowdown under mps with shares of eager vision on ampere (range of the same under mps)"
