"""Plans for a real CPU from tenants measured alone and in pairs, with simulated queues."""

import numpy as np
import pytest
import yaml

from cotenant.errors import CotenantError, PredictionError
from cotenant.planning.inputs.studies import study_of, write_study
from cotenant.planning.mixes.budget import within_budget
from cotenant.planning.mixes.kinds import Clock, DeviceKind
from cotenant.planning.mixes.make import Impossible
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.mixes.serving_plan import PlannedDevice, ServingPlan
from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.planning.predictors.measured import Measured, SharingLaw, most_of, require_measured
from cotenant.planning.predictors.solo import ONE_BLOCK, SoloTimes, drift
from cotenant.prediction.interference.correction import Evidence, no_evidence
from cotenant.prediction.interference.covariance import CPU
from cotenant.prediction.interference.predictor import Predictor
from cotenant.prediction.interference.setting import setting_of
from cotenant.study.files import study_from
from cotenant.tenancy.objective import Objective
from cotenant.tenancy.plan_document import PlanDevice

P99 = (Objective("latency", 0.99, 100.0),)
TENANTS = [ServingTenant("a", 20.0, P99), ServingTenant("b", 20.0, P99)]


def predictor(*, slowdown=2.0, closer=False, risk=0.1):
    def prior(mixes):
        several = (mixes >= 0).sum(axis=1, keepdims=True) > 1
        return np.where(mixes >= 0, np.where(several, np.log(slowdown), 0.0), np.nan)

    setting = setting_of(["a", "b"], np.eye(2), prior)
    law = SharingLaw(Predictor(setting, no_evidence(), CPU, prior_half=0.1), most=2)
    drawn = np.random.default_rng(1).gamma(20, 0.01 / 20, (1, 400))
    solos = {(place, 1): SoloTimes(place, 0.01, drawn, 0.02, 0.5, 0.1, 1e8) for place in range(2)}
    found = Measured(TENANTS, solos, {"processes": law}, risk=risk)
    return found.closer() if closer else found


def mix(*tenants, rate=20.0, batch=1):
    shape = (1, len(tenants))
    seats = np.array([tenants], np.int64)
    return Mixes("cpu", "processes", seats, np.full(shape, rate), np.full(shape, batch), np.full(shape, np.nan))


@pytest.mark.parametrize("closer", [False, True])
def test_neighbours_make_the_tail_longer_and_the_ends_are_in_order(closer):
    found = predictor(closer=closer)
    alone, both = found(mix(0)), found(mix(0, 1))
    for one in (alone, both):
        ends = [getattr(one.latency_ms, end)[0, 0, 0] for end in ("lower", "estimate", "upper")]
        assert ends == sorted(ends)
    assert 10 < alone.latency_ms.estimate[0, 0, 0] < both.latency_ms.estimate[0, 0, 0] < 60
    assert both.busy[0] == pytest.approx(2 * 20 * 0.01 * 0.5)
    assert both.memory_bytes.sum() == 2e8


def test_a_few_measured_mixes_say_more_than_the_prior():
    def prior(mixes):
        return np.where(mixes >= 0, 0.5 * ((mixes >= 0).sum(axis=1, keepdims=True) > 1), np.nan)

    setting = setting_of(list("abcd"), np.eye(4), prior)
    rows = np.array([(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)])
    nothing = np.zeros(len(rows))
    evidence = Evidence(rows, nothing + 0.6, nothing, np.array([0, 0, 1, 1, 2, 2]), rows[:, 0] * 0 + 9, nothing + 0.02)
    drawn = np.full((1, 50), 0.01)
    solos = {(place, 1): SoloTimes(place, 0.01, drawn, 0.0, 0.5, 0.1, 1e8) for place in range(4)}
    tenants = [ServingTenant(name, 20.0, P99) for name in "abcd"]

    def upper(known):
        law = SharingLaw(Predictor(setting, known, CPU, prior_half=1.2), most=2)
        return Measured(tenants, solos, {"processes": law}, risk=0.1)(mix(0, 3)).slowdown.upper[0, 0]

    assert upper(evidence) < 2.5 < upper(no_evidence())


def test_a_slow_block_stays_slow_for_as_long_as_it_was_measured():
    fast_and_slow = np.array([[0.01] * 5, [0.05] * 5])
    solo = SoloTimes(0, 0.03, fast_and_slow, 0.0, 0.5, 0.1, 1e8, in_a_row=40)
    times = solo.draw(401, np.random.default_rng(1))
    assert times.shape == (401,)
    for start in range(0, 400, 40):
        assert len(set(times[start : start + 40])) == 1
    assert set(times) == {0.01, 0.05}


def test_the_mean_of_the_next_period_is_known_better_from_more_blocks_unless_they_are_alike():
    random = np.random.default_rng(2)
    few, many = np.exp(random.normal(0, 0.2, (2, 400))) * [[0.01], [0.01]]
    assert drift(many, 1.0) == pytest.approx(0.2 * np.sqrt(2 / 400), rel=0.2)
    assert drift(few[:20], 1.0) > 3 * drift(many, 1.0)
    assert drift(many, 8.0) == pytest.approx(drift(many, 1.0) * np.sqrt(8))
    assert drift(few[:4], 8.0) == pytest.approx(np.std(np.log(few[:4]), ddof=1) * np.sqrt(1.25))
    assert drift([0.01], 1.0) == ONE_BLOCK


def test_a_rate_beyond_capacity_has_infinite_latency():
    assert np.isinf(predictor()(mix(0, 1, rate=70.0)).latency_ms.estimate).all()
    assert predictor(closer=True)(mix(0, 1, rate=99.0)).latency_ms.estimate[0, 0, 0] > 1000


def batched(*, closer, after_pause=None):
    law = predictor().laws["processes"]
    drawn = np.full((1, 200), 0.01)
    solos = {
        (0, size): SoloTimes(0, mean, drawn * mean / 0.01, 0.0, 0.5, 0.1, 1e8, after_pause_s=after_pause)
        for size, mean in ((1, 0.01), (8, 0.024))
    }
    tenants = [ServingTenant("a", 20.0, P99, batches=(1, 8))]
    found = Measured(tenants, solos, {"processes": law}, risk=0.1)
    return found.closer() if closer else found


@pytest.mark.parametrize("closer", [False, True])
def test_a_batch_does_not_wait_to_fill(closer):
    # Filling a batch of 8 at 2/s would take 3.5 s.
    found = batched(closer=closer)(mix(0, rate=2.0, batch=8))
    assert found.latency_ms.estimate[0, 0, 0] < 25
    assert found.together.tolist() == [[1]]


@pytest.mark.parametrize("closer", [False, True])
def test_a_batch_serves_rates_that_single_requests_could_not(closer):
    found = batched(closer=closer)
    assert found(mix(0, rate=150.0, batch=1)).latency_ms.estimate[0, 0, 0] > 100
    served = found(mix(0, rate=150.0, batch=8))
    assert 20 < served.latency_ms.estimate[0, 0, 0] < 60
    assert 1 < served.together[0, 0] < 8


@pytest.mark.parametrize("closer", [False, True])
def test_rare_requests_take_as_long_as_measured_after_a_pause(closer):
    found = batched(closer=closer, after_pause=np.full(200, 0.03))
    assert found(mix(0, rate=1.0)).latency_ms.estimate[0, 0, 0] == pytest.approx(30, rel=0.1)


def test_requests_take_as_long_as_they_did_when_served():
    served, said = predictor(closer=True).at_costs({"a": 0.02})
    before, after = (found(mix(0)).latency_ms.estimate[0, 0, 0] for found in (predictor(closer=True), served))
    assert after > 1.8 * before
    assert served(mix(1)).latency_ms.estimate == pytest.approx(predictor(closer=True)(mix(1)).latency_ms.estimate)
    assert said.startswith("costs as served: a 20.0 ms instead of 9.")


def test_unmeasured_and_oversized_mixes_do_not_fit():
    assert np.isinf(predictor()(mix(0, batch=4)).latency_ms.upper).all()
    assert np.isinf(predictor()(mix(0, 1, 0)).latency_ms.upper).all()
    assert most_of("pinned", 2) == 2
    assert most_of("processes", 2) == 8


def test_the_basis_names_its_sources():
    assert predictor()(mix(0)).basis == ("measured alone",)
    assert predictor(closer=True)(mix(0, 1)).basis == ("measured alone, mixes by the prior, queues simulated",)


def test_missing_measurements_are_named_with_their_commands():
    with pytest.raises(PredictionError, match="a and b have not been measured alone on cpu") as refused:
        require_measured(["a", "b"], "cpu", "tenants.yaml")
    assert "--study measure.yaml" in refused.value.hint


def test_a_device_of_a_plan_is_a_study_at_its_rates():
    planned = {
        "name": "cpu",
        "kind": "cpu",
        "sharing": "processes",
        "tenants": {
            "a": {"at_once": 4, "rate_rps": 40.0, "cv": 1.5, "runs": {"workload": "bert-base-mini"},
                  "expected": {"p99": {"limit_ms": 100.0}}},
            "b": {"at_once": 1, "rate_rps": 0.0, "runs": {"workload": "resnet18-mini"}},
        },
    }  # fmt: skip
    study = study_from(yaml.safe_load(yaml.safe_dump(study_of(PlanDevice.model_validate(planned), about="x"))))
    load = study.tenants["a"].load
    assert (load.rate_rps, load.cv) == (10.0, 0.75)
    # Three more items take 75 ms to arrive.
    assert study.tenants["a"].slo[0].limit_ms == pytest.approx(25)
    assert not study.tenants["b"].load.open
    assert study.device == "cpu"


def test_where_few_wait_together_a_study_measures_batches_of_that_size():
    seat = {"at_once": 8, "together": 2, "rate_rps": 40.0, "runs": {"workload": "bert-base-mini"},
            "expected": {"p99": {"limit_ms": 100.0}}}  # fmt: skip
    found = study_of(PlanDevice.model_validate({"name": "cpu", "tenants": {"a": seat}}), about="x")["tenants"]["a"]
    assert found["batch"] == 2
    assert found["load"] == "gamma(20, 0.7071)"
    assert found["slo"] == {"p99": "75ms"}


def kind(*clocks):
    return DeviceKind("g", "g", 1, 1.0, "", 4, ("mps",), clocks=tuple(Clock(mhz, watts) for mhz, watts in clocks))


def planned(kinds, *, left_out=()):
    (clock,) = kinds[0].clocks
    device = PlannedDevice("g#0", "g", "g", "mps", (), 1, 1.0, 1, 0.1, 0.1, 50, "", clock.mhz, clock.full_w)
    return ServingPlan("cost", (device, device), left_out, 2.0, 2.0, 2.0, "", 0.1, ())


def test_clocks_are_lowered_until_the_budget_holds():
    found = within_budget(planned, [kind((1400, 400), (1200, 300), (1000, 250))], 620)
    assert found.devices[0].clock_mhz == 1200


def test_an_infeasible_budget_names_the_smallest_feasible_one():
    def make(kinds):
        if kinds[0].clocks[0].mhz < 1200:
            raise Impossible("too slow", ("a",))
        return planned(kinds)

    with pytest.raises(CotenantError, match=r"400 W is too low: .* takes up to 600 W \(at 1200 MHz\)"):
        within_budget(make, [kind((1400, 400), (1200, 300), (1000, 100))], 400)
    with pytest.raises(CotenantError, match=r"takes up to 800 W \(at 1400 MHz\)"):
        within_budget(planned, [kind((1400, 400))], 100)
    with pytest.raises(CotenantError, match="the power draw of g is unknown"):
        within_budget(make, [kind()], 400)


def test_a_plan_for_a_cpu_needs_times_back_to_back_and_after_pauses(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text(
        "tenants:\n"
        "  a: {workload: bert-base-mini, rate: 20/s, at_once: 1..2}\n"
        "  b: {workload: resnet18-mini, job: {time: 1h}}\n"
    )
    pairs, spaced = (yaml.safe_load(one.read_text()) for one in write_study(file, "cpu", tmp_path / "measure.yaml"))
    assert list(pairs["tenants"]) == ["a", "a-b2", "b"]
    assert not any("load" in entry for entry in pairs["tenants"].values())  # open loads would need long windows
    assert spaced["tenants"] == {"a": {"workload": "bert-base-mini", "batch": 1, "load": "poisson(20)"}}
    assert spaced["mixes"] == ["solo"]
    study_from(spaced)
