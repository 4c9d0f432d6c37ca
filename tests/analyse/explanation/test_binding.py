"""What limits a tenant alone: shares of the peaks, and the limits at which each verdict turns, by hand."""

from dataclasses import replace

import pytest

from cotenant.analyse.explanation.binding import bindings
from tests.analyse.explanation.scenes_of_tenants import PEAKS, Beside, Scene, Tenant


def alone(peaks=PEAKS, *, load="closed(1)", rate_rps=None, items=None, seen=None, **tenant):
    """The binding of a tenant that takes 10 ms alone, without noise."""
    scene = Scene(Tenant("a", **tenant), noise=0.0, load=load, rate_rps=rate_rps).alone()
    changed = [replace(item, seen=replace(item.seen, **(seen or {})), **(items or {})) for item in scene.evidence]
    [found] = bindings(changed, peaks)
    return found


def test_shares_are_of_what_the_tenants_threads_and_the_memory_can_do():
    found = alone(flops=0.25e9, bytes=0.1e9)
    assert found.service_ms.est == pytest.approx(10)
    assert found.compute_share == pytest.approx(0.5), "25 GFLOP/s of the 50 of one core of two"
    assert found.bandwidth_share == pytest.approx(0.5), "10 GB/s of 20"
    assert (found.cores, found.busy) == (pytest.approx(1), pytest.approx(1))
    assert alone(flops=0.25e9, threads=2, cores=2).compute_share == pytest.approx(0.25)
    assert alone(flops=0.25e9, threads=5, cores=2.5).compute_share == pytest.approx(0.25), "no more than the device"
    assert alone(replace(PEAKS, cores=None), flops=0.25e9).compute_share == pytest.approx(0.25)
    assert alone(bytes=0.1e9).compute_share is None
    assert alone(flops=0.0).compute_share == 0
    assert alone(replace(PEAKS, flops_per_s={}), flops=0.0).compute_share == 0
    assert alone(replace(PEAKS, bytes_per_s=None), bytes=0.1e9).bandwidth_share is None


@pytest.mark.parametrize(
    ("share", "bound", "sure"),
    [
        (0.14, "launch or host overhead", "likely"),
        (0.16, "compute", "unclear"),
        (0.39, "compute", "unclear"),
        (0.41, "compute", "likely"),
        (0.59, "compute", "likely"),
        (0.61, "compute", "clear"),
    ],
)
def test_the_nearer_to_a_peak_the_surer(share, bound, sure):
    found = alone(flops=share * 0.5e9, bytes=1e6)
    assert (found.bound, found.while_serving, found.sure) == (bound, bound, sure)
    if bound == "compute":
        assert alone(flops=1e6, bytes=share * 0.2e9).bound == "memory bandwidth"


def test_more_bytes_than_the_memory_delivers_come_from_the_cache():
    assert alone(bytes=1.06 * 0.2e9).bound == "cache"
    assert alone(bytes=1.04 * 0.2e9).bound == "memory bandwidth"
    assert alone(bytes=0.1e9, working_set=PEAKS.cache_bytes).bound == "cache"
    assert alone(bytes=0.1e9, working_set=PEAKS.cache_bytes + 1).bound == "memory bandwidth"
    assert alone(bytes=0.1e9, flops=0.45e9, working_set=1).bound == "compute"
    disturbed = alone(replace(PEAKS, undisturbed=False), bytes=1.06 * 0.2e9)
    assert (disturbed.bound, disturbed.sure) == ("memory bandwidth", "unclear")
    assert "beside other work" in disturbed.reason


def test_memory_that_is_nearly_full_is_the_limit():
    room = PEAKS.memory_bytes
    assert alone(flops=0.45e9, items={"peak_memory_bytes": int(0.91 * room)}).bound == "capacity"
    assert alone(flops=0.45e9, items={"peak_memory_bytes": int(0.89 * room)}).bound == "compute"
    full = alone(flops=1e6, load="poisson(5)", rate_rps=5, items={"peak_memory_bytes": room})
    assert full.bound == "capacity", "although it waits for its load"


def test_a_tenant_that_hardly_uses_its_core_waits():
    found = alone(cores=0.4, flops=0.45e9)
    assert (found.bound, found.sure) == ("waiting elsewhere", "clear")
    assert found.cores == pytest.approx(0.4)
    assert alone(cores=0.51, flops=0.45e9).bound == "compute"
    elsewhere = alone(cores=0.4, flops=0.45e9, seen={"device": "cuda:0"})
    assert (elsewhere.bound, elsewhere.sure) == ("launch or host overhead", "clear")


@pytest.mark.parametrize(
    ("foreign", "steal", "switches", "starved"),
    [(0.11, 0.0, 2, True), (0.0, 0.11, 2, True), (0.09, 0.09, 2, False), (0.5, 0.0, 50, False), (None, None, 2, False),
     (0.5, None, 49, True), (0.5, None, None, True)],
)  # fmt: skip
def test_others_starve_a_tenant_only_if_they_took_the_device_and_it_did_not_wait(foreign, steal, switches, starved):
    items = {"foreign_share": foreign, "steal_share": steal, "switches_voluntary": switches}
    found = alone(cores=0.4, flops=0.1e9, items=items)
    assert ("others left it 0.40 cores" in found.reason) is starved
    assert found.bound == ("compute" if starved else "waiting elsewhere")
    assert found.compute_share == pytest.approx(0.5 if starved else 0.2), "of its CPU time, if others took the rest"


@pytest.mark.parametrize(("rate", "waits"), [(71, False), (69, True)])
def test_an_open_load_that_leaves_it_idle_is_what_it_waits_for(rate, waits):
    found = alone(flops=0.45e9, load=f"poisson({rate})", rate_rps=rate)
    assert (found.bound == "waiting for the load") is waits
    assert (found.while_serving, found.sure) == ("compute", "clear")
    assert found.busy == pytest.approx(rate / 100)
    assert (f"idle for {100 - rate} %" in found.reason) is waits
    assert alone(flops=0.45e9, seen={"throughput_rps": 10.0}).bound == "compute", "a closed load waits for nothing"


def test_demands_are_averaged_over_time():
    found = alone(flops=0.1e9, bytes=0.1e9, load="poisson(50)", rate_rps=50)
    assert (found.bytes_demand, found.core_demand) == (pytest.approx(0.25), pytest.approx(0.5))
    assert alone(bytes=0.4e9).bytes_demand == 0, "from the cache"
    assert alone(flops=0.1e9).bytes_demand == 0, "unknown"
    unknown = replace(found, busy=None, cores=None)
    assert (unknown.bytes_demand, unknown.core_demand) == (pytest.approx(0.5), 0)


def test_stages_are_shares_of_the_time():
    assert alone(stages={"prefill": 1.0, "decode": 3.0}).stages == pytest.approx({"prefill": 0.25, "decode": 0.75})
    assert alone().stages == {}


def test_work_that_states_nothing_or_a_device_without_peaks():
    assert (alone().bound, alone().sure) == ("compute", "likely")
    assert alone(seen={"device": "cuda:0"}).bound == "unknown"
    assert alone(replace(PEAKS, flops_per_s={}, bytes_per_s=None), flops=1e9).reason == (
        "the device's peak rates are not known"
    )


def test_only_usable_trials_alone_count():
    [unusable] = bindings(
        [
            replace(item, seen=replace(item.seen, verdict="invalid"))
            for item in Scene(Tenant("a"), noise=0.0).alone().evidence
        ],
        PEAKS,
    )
    assert (unusable.bound, unusable.reason) == ("unknown", "no usable trial")
    assert alone(seen={"n": 0}).reason == "no usable trial"
    scene = Scene(Tenant("b"), Tenant("a"), noise=0.0).mix({"a": Beside(), "b": Beside()}).alone()
    assert [found.of for found in bindings(scene.evidence, PEAKS)] == ["a", "b"]
    assert alone(items={"service_ns": None}, seen={"mean_latency_ns": 2e7}).service_ms.est == pytest.approx(20)
