"""`run` of `sharing: scheduled` on a simulated GPU: the scheduler that serves, in simulated time."""

import pytest

import cotenant
from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.prediction.contention.layout import whole_of
from cotenant.prediction.request_costs import PartOfGpu, request_costs
from cotenant.study.files import study_from
from cotenant.workloads.protocol import WorkloadSpec

GPU = "sim:l40s"
TENANTS = {
    "urgent": {"workload": "bert-base", "slo": {"p99": "20ms"}},
    "patient": {"workload": "bert-base", "slo": {"p99": "400ms"}},
}


def ran(tmp_path, rate, **more):
    tenants = {name: {**entry, "rate": f"{rate}/s", **more} for name, entry in TENANTS.items()}
    study = study_from(
        {"name": "turns", "device": GPU, "sharing": ["scheduled"], "mixes": [{"groups": {"both": list(tenants)}}],
         "tenants": tenants, "window": "5s", "lead": "500ms", "blocks": 2, "until": None}
    )  # fmt: skip
    result = cotenant.run(study, out=tmp_path / "runs", quiet=True)
    return {tenant.tenant: tenant for tenant in result.summary.tenants if not tenant.cell.solo}


def test_who_is_due_first_waits_less_and_no_request_is_sent_late(tmp_path):
    both = ran(tmp_path, 70)
    assert both["urgent"].latency_ms["p90"].est < both["patient"].latency_ms["p90"].est
    assert {tenant.cell.sharing for tenant in both.values()} == {"scheduled"}
    assert all("on_schedule" not in tenant.failed_checks for tenant in both.values())
    assert all(tenant.unfinished <= 0.01 * tenant.requests for tenant in both.values())


def test_requests_that_can_t_be_in_time_are_refused_and_counted(tmp_path):
    hard = ran(tmp_path, 400)["urgent"]
    assert hard.unfinished > 0.3 * hard.requests
    assert hard.slo.answer == "missed"
    assert hard.mean_latency_ms.est < 20, "those that were answered were in time"


def test_more_at_once_is_more_work_done(tmp_path):
    single, several = (ran(tmp_path, 250, at_once=most)["patient"] for most in (1, 8))
    assert several.unfinished < single.unfinished / 2


# --- costs of requests, the same for run, plan and serve


@pytest.fixture(scope="module")
def gpu():
    return open_simulated(GPU)


def costs(gpu, spec, most=4, **more):
    return request_costs(gpu, gpu.spec(WorkloadSpec(**spec)), most, clock_of=lambda _: None, **more)


@pytest.mark.parametrize(
    "spec", [{"name": "resnet50"}, {"name": "gpt2", "mode": "generate", "seq": 64, "tokens": 8}], ids=str
)
def test_a_request_alone_costs_what_it_takes_in_a_run(gpu, spec):
    found = costs(gpu, spec)
    assert found.total_s == pytest.approx(gpu.request_s(gpu.spec(WorkloadSpec(**spec))), rel=1e-6)
    assert found.steps == spec.get("tokens", 1) - 1


def test_an_engine_costs_its_prompt_and_its_steps(gpu):
    spec = {"name": "llama-3.2-1b", "mode": "generate", "seq": 256, "tokens": 32, "software": "vllm"}
    found = costs(gpu, spec, most=8)
    assert found.steps == 31
    assert found.step_curve.largest == 8
    assert 1 < found.step_curve.at(8) < 2, "a step of eight sequences reads the weights once"


def test_a_part_costs_no_less_than_alone_on_it_or_beside_its_neighbours(gpu):
    whole = whole_of(gpu.gpu)
    alone = costs(gpu, {"name": "resnet50"}).total_s
    assert costs(gpu, {"name": "resnet50"}, on=PartOfGpu(whole, 1.5)).total_s == pytest.approx(1.5 * alone)
    assert costs(gpu, {"name": "resnet50"}, on=PartOfGpu(whole, 0.5)).total_s == pytest.approx(alone)
