"""`sharing: scheduled`: one server orders the requests of all tenants, and plans predict it with its own scheduler."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.planning.check_simulated import simulated_device
from cotenant.planning.inputs.devices import devices_of
from cotenant.planning.mixes.batching import BatchService
from cotenant.planning.mixes.judge import MixJudge
from cotenant.planning.mixes.make import seated
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.mixes.tenants import planned, units_of
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.planning.predictors.engine import EnginePredictor
from cotenant.planning.predictors.profiles import Simulation
from cotenant.planning.predictors.scheduled import OrderedMixes, costs_of, load_of, quantile_ms, waits
from cotenant.planning.solver.problem import PlacedGroup
from cotenant.scheduling.simulation.lines import Replications
from cotenant.tenancy.plan_document import PlanDevice
from cotenant.tenancy.tenant_entry import TenantEntry

GPU = "sim:l40s"


def mixes(limits, rates, *, single=1.0, full=4.0, largest=1):
    """A mix of tenants whose requests take `single` ms, a batch of the largest `full`."""
    shape = (1, len(limits))
    service = BatchService(
        np.full(shape, single), np.full(shape, full if largest > 1 else single), np.full(shape, largest)
    )
    return OrderedMixes(service, np.array([rates]), np.array([limits], float), np.ones(shape))


def waited(ordered, level=0.99):
    return waits(ordered, np.full(ordered.rate.shape, level))[0][0]


def test_those_with_more_slack_wait_longer():
    tight, loose = waited(mixes([4.0, 40.0], [0.35, 0.35]))
    assert tight < 2 < loose


def test_equal_tenants_wait_as_long_as_one_that_has_all_their_requests():
    both = waited(mixes([20.0, 20.0], [0.4, 0.4]))
    assert both[0] == pytest.approx(both[1])
    assert both[0] == pytest.approx(waited(mixes([20.0], [0.8]))[0])


def test_the_wait_of_one_tenant_is_that_of_a_single_server():
    load = 0.9
    expected = np.log(load / 0.01) / (2 * (1 - load) / load) / load  # M/D/1 in heavy traffic
    assert waited(mixes([100.0], [load]))[0] == pytest.approx(expected, rel=0.1)


def test_a_server_that_can_t_keep_up_makes_all_wait_for_ever():
    over = mixes([20.0, 20.0], [0.6, 0.6])
    assert load_of(over)[0] == pytest.approx(1.2)
    assert np.isinf(waited(over)).all()
    assert np.isfinite(waited(mixes([20.0, 20.0], [0.6, 0.6], largest=8))).all(), (
        "requests that wait are taken together"
    )


def test_refused_requests_are_beyond_any_quantile_that_they_reach():
    times = np.append(np.full(990, 0.01), np.full(10, np.inf))
    assert quantile_ms(Replications((times, times)), 0.98)[1] == pytest.approx(10.0)
    assert quantile_ms(Replications((times, times)), 0.995)[1] == np.inf


# --- on a simulated GPU

ENTRIES = {
    "search": {"workload": "bert-base", "rate": "90/s", "at_once": "1..8", "slo": {"p99": "40ms"}},
    "rank": {"workload": "bert-large", "rate": "20/s", "at_once": "1..8", "slo": {"p99": "120ms"}, "share": 40},
    "photos": {"workload": "resnet50", "rate": "40/s", "at_once": "1..8", "slo": {"p99": "60ms"}},
    "chat": {"workload": "llama-3.2-1b", "mode": "generate", "software": "vllm", "rate": "1/s",
             "slo": {"ttft p95": "500ms"}},
    "apart": {"workload": "resnet18", "rate": "5/s", "slo": "60ms", "isolation": "process"},
}  # fmt: skip


@pytest.fixture(scope="module")
def simulation():
    read = {name: TenantEntry.model_validate(entry) for name, entry in ENTRIES.items()}
    return Simulation(planned(read), read, {GPU: open_simulated(GPU)}, risk=0.1)


def of_three(simulation, at_once=8):
    rates = np.array([[tenant.rate_rps for tenant in simulation.tenants[:3]]])
    return Mixes(GPU, "scheduled", np.arange(3)[None, :], rates, np.full((1, 3), at_once), np.full((1, 3), np.nan))


@pytest.mark.parametrize("at_once", [1, 4, 8])
def test_the_closed_form_is_near_the_scheduler_where_it_matters(simulation, at_once):
    limits = np.array([tenant.objectives[0].limit_ms for tenant in simulation.tenants[:3]])
    rough = ClosedForm(simulation)
    closed, exact = (
        law(of_three(simulation, at_once)).latency_ms.estimate[0, :, 0]
        for law in (rough, EnginePredictor(simulation, rough))
    )
    assert (closed / limits).max() == pytest.approx((exact / limits).max(), rel=0.4)


def test_only_what_the_server_can_order_takes_turns(simulation):
    kinds = devices_of(f"{GPU}*2", {}, priced=False).kinds
    judge = MixJudge(simulation.tenants, kinds, units_of(simulation.tenants, [1] * 5), ClosedForm(simulation))
    scheduled = next(number for number, way in enumerate(judge.ways) if way.sharing == "scheduled")
    fits = judge(scheduled, np.array([[0, 2], [0, 3], [0, 4]])).fits
    assert fits.tolist() == [True, False, False], "an engine is a server of its own, and so is an isolated process"
    (device,) = seated(judge, [PlacedGroup(scheduled, (0, 1), 1.0)])
    assert device.sharing == "scheduled"
    assert [tenant.share for tenant in device.tenants] == [None, 40.0], "of the time, which the server guarantees"


def test_a_share_is_one_of_the_server_s_time(simulation):
    assert simulation.tenants[1].contract.share == pytest.approx(0.4)
    assert replace(simulation.tenants[0], hard=False).contract.hard is False


def test_requests_cost_what_they_take_alone(simulation):
    costs = costs_of(simulation, GPU, 0, 8, None)
    alone = [simulation.profile(GPU, 0, batch).alone_ms / 1e3 for batch in (1, 8)]
    assert costs.total_s == pytest.approx(alone[0])
    assert costs.total_s * costs.curve.at(8) == pytest.approx(alone[1])


def test_a_check_simulates_the_scheduler_and_counts_refused_requests():
    def device(times):
        seats = {
            name: {"rate_rps": times * float(ENTRIES[name]["rate"].removesuffix("/s")), "at_once": 8,
                   "runs": {"workload": ENTRIES[name]["workload"]},
                   "expected": {"p99": {"limit_ms": float(ENTRIES[name]["slo"]["p99"].removesuffix("ms"))}}}
            for name in ("search", "rank", "photos")
        }  # fmt: skip
        return PlanDevice.model_validate({"name": GPU, "sharing": "scheduled", "tenants": seats})

    calm, flooded = (simulated_device(device(times), range(11, 13), risk=0.1) for times in (0.5, 40))
    assert all(row.verdict == "kept" and row.shed == 0 for row in calm)
    assert any(row.verdict == "missed" and row.shed > 0.1 for row in flooded)
    assert all(np.isfinite(row.tail_ms.est) for row in flooded), "of the requests that were answered"
