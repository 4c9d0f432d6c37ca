"""What a tenant alone reaches of its device, and how a slowdown splits, with figures by hand."""

import pytest

from cotenant.analyse.explanation import split
from cotenant.analyse.explanation.binding import bindings
from cotenant.analyse.sharing.evidence import Peaks, RequestWork, TenantEvidence
from cotenant.tenancy.interval import Missing
from cotenant.tenancy.records import TenantObservation

PEAKS = Peaks(flops_per_s={"float32": 100e9}, bytes_per_s=20e9, cores=4, memory_bytes=1000, cache_bytes=100)


def seen(**more):
    row = {
        "run": "r", "trial": 0, "block": 0, "mix": "a", "sharing": "alone", "settings": "{}", "load": "closed(1)",
        "device": "cpu", "simulated": False, "solo": True, "tenant": "a", "of": "a", "verdict": "valid",
        "failed_checks": (), "n": 10, "unfinished": 0, "throughput_rps": 50.0, "mean_latency_ns": 20e6,
        "mean_device_ns": 10e6, "window_s": 1.0,
    }  # fmt: skip
    return TenantObservation(**row | more)


def evidence(work=None, *, load="closed(1)", service_ns=10e6, stages=None, **more):
    own = {name: more.pop(name) for name in ("clock_mhz", "foreign_share", "steal_share", "switches_voluntary",
                                             "peak_memory_bytes", "working_set_bytes") if name in more}  # fmt: skip
    done = RequestWork("w", dtype="float32", threads=1, flops_per_request=0.2e9, bytes_per_request=0.05e9)
    return TenantEvidence(seen(**more), work or done, load, service_ns=service_ns, stages_ns=stages or {}, **own)


def test_shares_of_the_peaks_of_the_threads_it_has():
    [found] = bindings([evidence(), evidence(block=1)], PEAKS)
    assert found.service_ms.est == 10.0
    assert found.cores == 1.0, "10 ms of CPU time in 10 ms"
    assert found.compute_share == pytest.approx(0.2e9 / 0.01 / (100e9 / 4)), "one of four cores"
    assert found.bandwidth_share == pytest.approx(0.05e9 / 0.01 / 20e9)
    assert (found.bound, found.while_serving, found.sure) == ("compute", "compute", "clear")
    assert found.busy == pytest.approx(0.5)
    assert (found.core_demand, found.bytes_demand) == (pytest.approx(0.5), pytest.approx(0.125))
    many = RequestWork("w", dtype="float32", threads=8, flops_per_request=0.2e9)
    [wide] = bindings([evidence(many, mean_device_ns=80e6)], PEAKS)
    assert (wide.compute_share, wide.bandwidth_share) == (pytest.approx(0.2), None), "no more than all cores"
    [busy] = bindings([evidence(throughput_rps=200.0)], PEAKS)
    assert busy.busy == 1.0


def test_service_time_is_latency_where_it_was_not_measured_apart():
    [found] = bindings([evidence(service_ns=None)], PEAKS)
    assert (found.service_ms.est, found.cores, found.busy) == (20.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("rate", "bound"), [(71.0, "compute"), (70.0, "waiting for the load"), (0.0, "waiting for the load")]
)
def test_idle_for_three_tenths_of_the_time_it_waits_for_its_load(rate, bound):
    [found] = bindings([evidence(load="poisson(50)", throughput_rps=rate)], PEAKS)
    assert (found.bound, found.while_serving) == (bound, "compute")
    assert found.reason.startswith("it is idle for") is (bound != "compute")
    [closed] = bindings([evidence(throughput_rps=rate)], PEAKS)
    assert closed.bound == "compute", "a closed load never lets it wait"
    [full] = bindings([evidence(load="poisson(50)", throughput_rps=rate, peak_memory_bytes=900)], PEAKS)
    assert full.bound == "capacity"


@pytest.mark.parametrize(("unfinished", "waits"), [(5, True), (50, False)])
def test_who_leaves_requests_unserved_does_not_wait_for_more(unfinished, waits):
    [found] = bindings([evidence(load="poisson(50)", throughput_rps=60.0, n=95, unfinished=unfinished)], PEAKS)
    assert (found.bound == "waiting for the load") is waits


@pytest.mark.parametrize(
    ("foreign", "switches", "starved"), [(0.1, 4, True), (0.09, 4, False), (0.5, 5, False), (0.5, 0, True)]
)
def test_a_tenant_that_was_denied_its_core_is_judged_by_its_cpu_time(foreign, switches, starved):
    [found] = bindings([evidence(mean_device_ns=4e6, foreign_share=foreign, switches_voluntary=switches)], PEAKS)
    assert found.cores == pytest.approx(0.4)
    usual = 0.2e9 / 0.01 / 25e9
    assert found.compute_share == pytest.approx(usual / 0.4 if starved else usual)
    assert (found.bound == "waiting elsewhere") is not starved
    two = RequestWork("w", dtype="float32", threads=2, flops_per_request=0.2e9)
    [wide] = bindings([evidence(two, mean_device_ns=8e6, foreign_share=0.5)], PEAKS)
    assert wide.compute_share == pytest.approx(0.2e9 / (0.01 * 0.8 / 2) / 50e9), "of two cores it had .8"
    [enough] = bindings([evidence(two, mean_device_ns=10e6, foreign_share=0.5)], PEAKS)
    assert enough.compute_share == pytest.approx(0.2e9 / 0.01 / 50e9), "half of its cores is enough"


def test_work_without_operations_reaches_nothing_and_unknown_work_is_unknown():
    [none] = bindings([evidence(RequestWork("w", threads=1, flops_per_request=0.0))], PEAKS)
    assert none.compute_share == 0.0
    [other] = bindings([evidence(RequestWork("w", dtype="int8", threads=1, flops_per_request=1.0))], PEAKS)
    assert other.compute_share is None
    [whole] = bindings([evidence(RequestWork("w", dtype="float32", flops_per_request=0.2e9))], PEAKS)
    assert whole.compute_share == pytest.approx(0.2), "without a number of threads: all cores"


def test_stages_are_shares_and_only_usable_trials_alone_count():
    rows = [
        evidence(stages={"x": 1.0, "y": 2.0}), evidence(stages={"x": 1.0}, block=1),
        evidence(verdict="invalid", service_ns=90e6), evidence(n=0, service_ns=90e6), evidence(solo=False),
        evidence(of="b", stages={"z": 0.0}),
    ]  # fmt: skip
    first, second = bindings(rows, PEAKS)
    assert (first.of, first.stages, first.service_ms.est) == ("a", {"x": 0.5, "y": 0.5}, 10.0)
    assert (second.of, second.stages) == ("b", {})
    [nothing] = bindings([evidence(n=0)], PEAKS)
    assert (nothing.bound, nothing.reason, nothing.busy) == ("unknown", "no usable trial", None)
    assert isinstance(nothing.service_ms, Missing)


# --- splits


def both(*, latency=2.0, service=1.5, device=1.2, clock=0.8, blocks=3, **more):
    """A tenant alone and beside another: factors of its latency, service time, CPU time and clock."""
    alone = [evidence(block=block, clock_mhz=2000.0) for block in range(blocks)]
    shared = [
        evidence(
            block=block, clock_mhz=None if clock is None else 2000.0 * clock, solo=False, mix="a+b",
            sharing="processes", mean_latency_ns=20e6 * latency, service_ns=10e6 * service,
            mean_device_ns=10e6 * device, **more,
        )
        for block in range(blocks)
    ]  # fmt: skip
    return split.splits(alone + shared)


def test_a_slowdown_is_the_product_of_its_parts():
    [found] = both()
    parts = {name: part.est for name, part in found.parts.items() if part.est is not None}
    assert parts == pytest.approx(
        {split.QUEUE: 2 / 1.5, split.CORES: 1.5 / 1.2, split.CLOCK: 1 / 0.8, split.MEMORY: 1.2 * 0.8}
    )
    assert (found.total.est, found.residual.est) == (pytest.approx(2.0), pytest.approx(1.0))
    assert (found.slowed, found.unsplit, found.greatest) == (True, None, split.QUEUE)
    [dark] = both(clock=None)
    assert {name: part.est for name, part in dark.parts.items() if part.est is not None} == pytest.approx(
        {split.QUEUE: 2 / 1.5, split.CORES: 1.5 / 1.2, split.WORK: 1.2}
    )


@pytest.mark.parametrize(("latency", "slowed"), [(1.03, True), (1.02, False), (0.5, False)])
def test_three_percent_more_is_slower(latency, slowed):
    [found] = both(latency=latency + 1e-9, service=1.0, device=1.0, clock=1.0)
    assert found.slowed is slowed


def test_trials_that_can_not_be_used_take_no_part_in_a_split():
    assert both(n=0) == []
    assert both(verdict="invalid") == []
    [found] = both(of="other")
    assert isinstance(found.total, Missing), "nobody of that name was measured alone"
    assert both(blocks=1)[0].total.lo is None


def test_a_trial_that_can_not_be_used_does_not_hide_those_behind_it():
    rows = [evidence(n=0), evidence(verdict="invalid"), evidence(block=1)]
    rows += [evidence(block=1, solo=False, mix="a+b", sharing="processes", mean_latency_ns=60e6)]
    [found] = split.splits(rows)
    assert found.total.est == pytest.approx(3.0)
