"""Parts of a GPU, traces and their summaries, and the closed form where its answer is known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import SharingUnavailable
from cotenant.prediction.contention import closed_form, demand, layout
from cotenant.prediction.contention.closed_form import Terms, slowdowns
from cotenant.prediction.contention.demand import demands_of, joined
from cotenant.prediction.contention.layout import Slicing, lay_out, mps_caps
from cotenant.prediction.contention.mix import MixTenant, mean_slowdowns, stretches
from cotenant.prediction.contention.simulation import claims
from cotenant.prediction.contention.trace import plain_trace
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import WorkloadSpec


def tenants(*names):
    spec = WorkloadSpec(name="distilbert")
    return [Tenant(name=name, of=name.partition("#")[0], workload=spec, load=Load(kind="closed")) for name in names]


# --- layouts

A100 = find_gpu("a100-sxm4-40gb")


def parts(sharing, *names, needs=None):
    return lay_out(A100, sharing, tenants(*names), needs or {}).parts


def test_shares_of_mps_cap_sms_of_a_common_domain():
    found = parts(Sharing(mode="mps", shares=(25.0, 50.0)), "a", "b")
    assert [part.sms for part in found] == [27, 54]
    assert {(part.sm_domain, part.domain_sms, part.memory_bytes, part.loaded) for part in found} == {
        (0, 108, A100.memory_bytes, 0.75)
    }
    assert [part.label for part in found] == ["25 %", "50 %"]
    assert parts(Sharing(mode="mps", shares=(80.0, 50.0)), "a", "b")[0].loaded == 1.0
    assert [(part.sms, part.label, part.loaded) for part in parts(Sharing(mode="mps"), "a", "b")] == [
        (108, None, 1.0)
    ] * 2
    assert parts(Sharing(mode="mps", shares=(0.5, 50.0)), "a", "b")[0].sms == 1


def test_green_contexts_have_groups_of_sms_of_their_own():
    found = parts(Sharing(mode="green"), "a", "b")
    assert [(part.sms, part.sm_domain, part.domain_sms, part.label) for part in found] == [
        (52, 0, 52, "52 SMs"),
        (52, 1, 52, "52 SMs"),
    ]
    assert found[0].loaded == pytest.approx(104 / 108)
    assert {part.dram_domain for part in found} == {0}
    for shares, why in (((3.0, 50.0), "groups of 4"), ((60.0, 41.0), "add up to 101 %")):
        with pytest.raises(SharingUnavailable, match=why):
            parts(Sharing(mode="green", shares=shares), "a", "b")
    assert parts(Sharing(mode="green", shares=(60.0, 40.0)), "a", "b")[0].sms == 64


def test_instances_have_their_own_sms_and_memory():
    found = parts(Sharing(mode="mig", shares=("3g.20gb", "2g.10gb")), "a", "b")
    assert [(part.sms, part.sm_domain, part.dram_domain, part.dram_share) for part in found] == [
        (42, 0, 0, 0.5),
        (28, 1, 1, 0.25),
    ]
    assert found[0].loaded == pytest.approx(70 / 108)
    assert found[1].memory_bytes == pytest.approx(10 * 2**30, rel=0.1)
    for shares, needs, why in (
        (("9g.90gb", "1g.5gb"), {}, "no MIG instance"),
        (("4g.20gb", "4g.20gb"), {}, "can't hold"),
        (("1g.5gb", "1g.5gb"), {"a": 9 * 2**30}, "a needs 9.0 GiB"),
    ):
        with pytest.raises(SharingUnavailable, match=why):
            parts(Sharing(mode="mig", shares=shares), "a", "b", needs=needs)
    even = parts(Sharing(mode="mig"), "a", "b")
    assert [part.label for part in even] == ["3g.20gb", "3g.20gb"]
    hungry = parts(Sharing(mode="mig"), "a", "b", needs={"b": 15 * 2**30})
    assert hungry[1].memory_bytes >= 15 * 2**30
    with pytest.raises(SharingUnavailable, match=r"b needs 90\.0 GiB"):
        parts(Sharing(mode="mig"), "a", "b", needs={"b": 90 * 2**30})


def test_ways_to_share_as_laid_out():
    laid = lay_out(A100, Sharing(mode="processes"), tenants("a", "b"), {})
    assert (laid.slicing, laid.shared_host, laid.parts[1].sms) == (layout.TURNS, False, 108)
    assert lay_out(A100, Sharing(mode="streams"), tenants("a", "b"), {}).shared_host
    assert lay_out(A100, Sharing(mode="green"), tenants("a", "b"), {}).shared_host
    with pytest.raises(SharingUnavailable, match="names 1 shares for 2 tenants"):
        lay_out(A100, Sharing(mode="mps", shares=(50.0,)), tenants("a", "b"), {})
    with pytest.raises(SharingUnavailable, match="lacks MIG"):
        lay_out(find_gpu("t4"), Sharing(mode="mig"), tenants("a", "b"), {})


def test_caps_worth_trying():
    assert [sharing.shares for sharing in mps_caps(tenants("a", "b"))] == [(25.0, 75.0), (50.0, 50.0), (75.0, 25.0)]
    assert sorted(sharing.shares for sharing in mps_caps(tenants("a#1", "a#2"))) == [(25.0, 75.0), (50.0, 50.0)]
    assert [sharing.shares for sharing in mps_caps(tenants("a", "b", "c"))] == [
        (33.3,) * 3,
        (50.0, 25.0, 25.0),
        (25.0, 50.0, 25.0),
        (25.0, 25.0, 50.0),
    ]
    cuts = [sharing.shares for sharing in layout.candidates(A100, "mig", tenants("a", "b"), {})]
    assert cuts[0] in {("3g.20gb", "3g.20gb"), ("4g.20gb", "3g.20gb"), ("3g.20gb", "4g.20gb")}
    assert len(cuts) <= layout.MOST_CUTS
    assert layout.candidates(A100, "streams", tenants("a", "b"), {}) == ()
    sms = [[A100.mig.profiles[name].sms for name in cut] for cut in cuts]
    assert [max(each) - min(each) for each in sms] == sorted(max(each) - min(each) for each in sms)


# --- traces and their summaries


def test_a_trace_between_two_clocks():
    slow, fast = plain_trace(kernels=2, device_ns=100.0, dram=0.2), plain_trace(kernels=2, device_ns=50.0, dram=0.6)
    between = slow.towards(fast, 0.25)
    assert between.duration_ns.tolist() == [43.75, 43.75]
    assert between.dram == pytest.approx([0.3, 0.3])
    assert slow.towards(fast, 0.0).duration_ns.tolist() == [50, 50]
    slowed = slow.slowed(2.0)
    assert (slowed.duration_ns.tolist(), slowed.block_ns.tolist()) == ([100, 100], (2 * slow.block_ns).tolist())
    assert slow.slowed(1.0) is slow
    whole = replace(plain_trace(kernels=2, device_ns=100.0, host_ns=20.0), before_ns=3.0, after_ns=4.0)
    assert (whole.device_ns, whole.host_ns, whole.alone_ns(), whole.alone_ns(1)) == (100, 27, 117, 63)


@pytest.mark.parametrize(
    "bad",
    [
        {"duration_ns": np.array([0.0, 1.0])},
        {"occupancy": np.array([1.1, 1.0])},
        {"occupancy": np.array([0.0, 1.0])},
        {"dram": np.zeros(3)},
    ],
)
def test_impossible_kernels_are_refused(bad):
    with pytest.raises(ValueError, match="kernel"):
        replace(plain_trace(kernels=2, device_ns=100.0), **bad)


def test_claims_are_waves_that_waiting_for_memory_weakens():
    trace = replace(
        plain_trace(kernels=3, device_ns=3e6), block_ns=np.array([1e5, 1e5, 1e7]), dram=np.array([0.0, 0.5, 0.0])
    )
    assert claims(trace) == pytest.approx([10.0, math.sqrt(10), 1.0])


def test_kernels_are_sorted_into_classes_by_number_and_time():
    trace = replace(
        plain_trace(kernels=12, device_ns=12.0),
        duration_ns=np.arange(12.0, 0, -1),
        occupancy=np.linspace(0.1, 1.0, 12),
        holds=np.full(12, 0.5),
    )
    table = demand._classes(trace)
    assert table[:, demand.COUNT].sum() == 12
    assert (table[:, demand.COUNT] * table[:, demand.DURATION]).sum() == pytest.approx(78)
    lengths = np.arange(1.0, 13)
    part = (1 / 12 + lengths / 78) / 2
    of = np.minimum(((np.cumsum(part) - part / 2) * 6).astype(int), 5)
    assert table[:, demand.COUNT].tolist() == [int((of == c).sum()) for c in range(6)]
    occupancy = np.linspace(1.0, 0.1, 12)
    for c in range(6):
        mine = of == c
        assert table[c, demand.DURATION] == pytest.approx(lengths[mine].mean())
        assert table[c, demand.OCCUPANCY] == pytest.approx((occupancy * lengths)[mine].sum() / lengths[mine].sum())
        assert table[c, demand.HOLDS] == pytest.approx(0.5)


def demands(*traces):
    return demands_of(list(traces))


def test_demands_of_a_request():
    trace = replace(
        plain_trace(kernels=4, device_ns=100.0, host_ns=40.0),
        before_ns=3.0,
        after_ns=5.0,
        waited=np.array([1, 0, 1, 0.0]),
    )
    found = demands(trace, trace)
    assert found.request[0].tolist() == [3, 5, 40, 100, 2]
    assert found.alone_ns == pytest.approx([trace.alone_ns()] * 2, rel=0.01)
    assert (len(found), len(joined([found, found]))) == (2, 4)


def test_a_request_whose_kernels_are_slower_relative_to_the_host():
    trace = plain_trace(kernels=50, device_ns=1e6, host_ns=1e5)
    row = demands(trace).paced[0]
    assert closed_form._paced(row, 1.0) == pytest.approx(1e6 + 2e3, rel=0.01)
    assert closed_form._paced(row, 2.0) == pytest.approx(2e6 + 2e3, rel=0.02)
    assert closed_form._paced(row, 1e-3) == row[0]
    assert closed_form._paced(row, 128.0) == pytest.approx(2 * row[-1])
    assert closed_form._paced(row, float(demand.RATIOS[0])) == pytest.approx(row[0])
    ratios = math.sqrt(demand.RATIOS[3] * demand.RATIOS[4])
    assert closed_form._paced(row, ratios) == pytest.approx((row[3] + row[4]) / 2)


BUSY = plain_trace(kernels=100, device_ns=1e8)
PAIR = np.array([[0, 1]])


def test_the_closed_form_where_the_answer_is_known():
    found = demands(BUSY, BUSY, plain_trace(kernels=100, device_ns=1e8, occupancy=0.5))
    assert slowdowns(found, PAIR)[0] == pytest.approx([2, 2], rel=0.03)
    assert slowdowns(found, np.array([[0, -1], [-1, 1], [-1, -1]])) == pytest.approx(
        np.array([[1, np.nan], [np.nan, 1], [np.nan, np.nan]]), nan_ok=True
    )
    assert slowdowns(found, np.array([[2, 2]]))[0] == pytest.approx([1, 1], rel=0.03)
    assert slowdowns(found, np.array([[0, 1, 0]]))[0] == pytest.approx([3, 3, 3], rel=0.1)
    apart = Terms(sm_domain=np.array([[0, 1]]), dram_domain=np.array([[0, 1]]))
    assert slowdowns(found, PAIR, apart)[0].tolist() == [1, 1]
    assert slowdowns(found, PAIR, Terms(sm_domain=np.array([[0, 1]])))[0] == pytest.approx([1, 1], rel=0.01)
    first = slowdowns(found, PAIR, Terms(priority=np.array([[1, 0]])))[0]
    assert first[0] == pytest.approx(1, rel=0.05)
    assert first[1] > 5
    seldom = slowdowns(found, PAIR, Terms(rate_per_ns=np.array([[0.0, 1e-9]])))[0]
    assert seldom[0] == pytest.approx(1 + 0.1, rel=0.08), (
        "the other wants the device a tenth of the time, or a fifth beside it"
    )
    assert closed_form.log_slowdowns(found, PAIR)[0] == pytest.approx([math.log(2)] * 2, abs=0.03)


def test_bandwidth_is_shared_where_sms_are_not():
    hungry = plain_trace(kernels=100, device_ns=1e8, occupancy=0.4, dram=1.0)
    assert slowdowns(demands(hungry, hungry), PAIR)[0] == pytest.approx([2, 2], rel=0.05)


def test_one_thread_that_launches_for_two():
    launching = plain_trace(kernels=100, device_ns=1e6, host_ns=1e8, occupancy=0.2)
    found = demands(launching, launching)
    assert slowdowns(found, PAIR, Terms(shared_host=True))[0] == pytest.approx([2, 2], rel=0.05)
    assert slowdowns(found, PAIR)[0] == pytest.approx([1, 1], rel=0.02)


def test_turns_cost_their_switches():
    found = demands(BUSY, BUSY)
    slicing = Slicing(2e6, 0.2e6, 0.1e6)
    assert slowdowns(found, PAIR, Terms(slicing))[0] == pytest.approx([2.2, 2.2], rel=0.03)
    assert slowdowns(found, np.array([[0, 1, 0]]), Terms(slicing))[0] == pytest.approx([3.3] * 3, rel=0.03)
    small = demands(plain_trace(kernels=10, device_ns=1e6), plain_trace(kernels=10, device_ns=1e6))
    assert slowdowns(small, PAIR, Terms(slicing))[0] == pytest.approx([2.2, 2.2], rel=0.06), (
        "a request fits into a slice and yields"
    )
    seldom = slowdowns(found, PAIR, Terms(slicing, rate_per_ns=np.array([[0.0, 1e-9]])))[0]
    assert 1.1 < seldom[0] < 1.4
    waiting = replace(plain_trace(kernels=10, device_ns=1e6), waited=np.ones(10))
    assert slowdowns(demands(waiting, BUSY), PAIR, Terms(slicing))[0][0] > 15


# --- mixes through the engine


def test_stretches_of_requests_alone_in_pairs_and_beyond_capacity():
    whole = layout.whole_of(A100)
    small = plain_trace(kernels=2, device_ns=1e6)
    alone = stretches([MixTenant(small, whole)])[0]
    assert alone == pytest.approx(np.ones(alone.size), abs=0.02)
    pair = stretches([MixTenant(small, whole), MixTenant(small, whole)])
    assert mean_slowdowns(pair) == pytest.approx([2, 2], rel=0.05)
    turns = stretches([MixTenant(small, whole), MixTenant(small, whole)], slicing=Slicing(2e6, 0.0, 0.0))
    assert mean_slowdowns(turns) == pytest.approx([2, 2], rel=0.1)
    assert mean_slowdowns([np.array([0.9, 0.8]), np.array([2.0, 4.0])]) == [1.0, 3.0]
    late = stretches([MixTenant(plain_trace(kernels=1, device_ns=1e7), whole, rate_rps=500.0)])
    assert late[0].tolist() == [math.inf]
