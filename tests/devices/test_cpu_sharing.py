"""How a mix is laid out on cores, and how deviations are detected."""

import pytest

from cotenant.devices.cpu.core_sharing import arrange, sharing_modes
from cotenant.devices.protocol import SeatReport
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.sharing import Sharing

FOUR = ((0,), (1,), (2,), (3,))
TWO = ((0,), (1,))


def layout(arrangement):
    """Cores and threads by host, then by seat."""
    return [[(seat.options["cores"], seat.options["threads"]) for seat in host.seats] for host in arrangement.hosts]


def reports(arrangement, **changes):
    """Reports of tenants placed as arranged, except for some changes by tenant."""
    found = []
    for pid, host in enumerate(arrangement.hosts, start=100):
        for seat in host.seats:
            name = arrangement.tenants[seat.tenant]
            observed = {"cores": seat.options["cores"], "threads": seat.options["threads"]}
            change = dict(changes.get(name, {}))
            found.append(SeatReport(name, change.pop("pid", pid), {**observed, **change}))
    return found


def test_alone_has_all_cores(tenants):
    assert layout(arrange(FOUR, Sharing(mode="alone"), tenants("a"))) == [[([0, 1, 2, 3], 4)]]


def test_alone_is_for_one_tenant(tenants):
    with pytest.raises(SharingUnavailable, match="for one tenant, and this mix has 2"):
        arrange(FOUR, Sharing(mode="alone"), tenants("a", "b"))


def test_processes_have_a_host_each_on_all_cores(tenants):
    arrangement = arrange(TWO, Sharing(mode="processes"), tenants("a", "b"))
    assert layout(arrangement) == [[([0, 1], 2)], [([0, 1], 2)]]
    assert [host.seats[0].options["clock"] for host in arrangement.hosts] == ["process", "process"]


def test_threads_sit_in_one_host_and_are_timed_by_thread(tenants):
    arrangement = arrange(TWO, Sharing(mode="threads"), tenants("a", "b"))
    assert layout(arrangement) == [[([0, 1], 2), ([0, 1], 2)]]
    assert {seat.options["clock"] for seat in arrangement.hosts[0].seats} == {"thread"}


def test_pinned_splits_evenly_with_the_rest_for_the_first(tenants):
    three = ((0,), (1,), (2,))
    assert layout(arrange(three, Sharing(mode="pinned"), tenants("a", "b"))) == [[([0, 1], 2)], [([2], 1)]]


def test_pinned_takes_numbers_of_cores(tenants):
    arrangement = arrange(FOUR, Sharing(mode="pinned", shares=(1, 3)), tenants("a", "b"))
    assert layout(arrangement) == [[([0], 1)], [([1, 2, 3], 3)]]


def test_pinned_takes_the_tenants_own_shares(tenants):
    mix = [*tenants("a", share=1), *tenants("b", share=2)]
    assert layout(arrange(FOUR, Sharing(mode="pinned"), mix)) == [[([0], 1)], [([1, 2], 2)]]


def test_pinned_keeps_hyper_threads_of_a_core_with_one_tenant(tenants):
    hyper = ((0, 4), (1, 5), (2, 6))
    assert layout(arrange(hyper, Sharing(mode="pinned"), tenants("a", "b"))) == [[([0, 1, 4, 5], 4)], [([2, 6], 2)]]


def test_pinned_splits_hyper_threads_only_when_it_must(tenants):
    assert layout(arrange(((0, 1),), Sharing(mode="pinned"), tenants("a", "b"))) == [[([0], 1)], [([1], 1)]]


@pytest.mark.parametrize(
    ("shares", "names", "says"),
    [
        ((), "abc", "a core for each tenant: 3 tenants, 2 cores"),
        ((1, 1, 1), "ab", "names 3 shares for 2 tenants"),
        ((1, 2), "ab", "asks for 3 cores, but the device has 2"),
        ((0.5, 1), "ab", "0.5 is not a valid share"),
        ((0, 1), "ab", "0.0 is not a valid share"),
        (("half", 1), "ab", "'half' is not a valid share"),
        ((float("nan"), 1), "ab", "nan is not a valid share"),
        ((float("inf"), 1), "ab", "inf is not a valid share"),
    ],
)
def test_pinned_refuses_impossible_shares(tenants, shares, names, says):
    with pytest.raises(SharingUnavailable, match=says) as error:
        arrange(TWO, Sharing(mode="pinned", shares=shares), tenants(*names))
    assert error.value.hint


def test_a_mode_without_parts_takes_no_shares(tenants):
    with pytest.raises(SharingUnavailable, match="takes no shares"):
        arrange(TWO, Sharing(mode="processes", shares=(1, 1)), tenants("a", "b"))


def test_a_mode_of_other_devices_names_those_of_a_cpu(tenants):
    with pytest.raises(SharingUnavailable, match="`mps` is not available on a CPU") as error:
        arrange(TWO, Sharing(mode="mps"), tenants("a", "b"))
    assert "processes, threads, pinned" in error.value.hint


def test_a_tenants_own_thread_count_wins_and_reaches_the_environment(tenants):
    arrangement = arrange(FOUR, Sharing(mode="processes"), [*tenants("a", threads=1), *tenants("b")])
    assert layout(arrangement) == [[([0, 1, 2, 3], 1)], [([0, 1, 2, 3], 4)]]
    assert [host.env["OMP_NUM_THREADS"] for host in arrangement.hosts] == ["1", "4"]
    assert [host.env["MKL_NUM_THREADS"] for host in arrangement.hosts] == ["1", "4"]


def test_pinned_is_listed_as_missing_on_one_core():
    pinned = {mode.mode: mode for mode in sharing_modes((0,))}["pinned"]
    assert not pinned.available
    assert pinned.missing
    assert pinned.instead == "processes"
    assert all(mode.available for mode in sharing_modes((0, 1)))


@pytest.mark.parametrize("mode", ["processes", "threads", "pinned"])
def test_an_arrangement_that_came_out_as_planned_verifies(tenants, mode):
    arrangement = arrange(TWO, Sharing(mode=mode), tenants("a", "b"))
    assert arrangement.fixture is None
    assert arrangement.verify(reports(arrangement)) == ()


@pytest.mark.parametrize(
    ("mode", "changes", "sentence"),
    [
        ("pinned", {"a": {"cores": [0, 1]}}, "a may run on cores 0-1, not on core 0 as arranged"),
        ("pinned", {"a": {"cores": []}}, "a may run on no known core, not on core 0 as arranged"),
        (
            "pinned",
            {"b": {"process_cores": [0, 1]}},
            "threads of b's process may also run on core 0, outside its cores",
        ),
        ("processes", {"b": {"threads": 1}}, "torch uses 1 threads in b, not 2 as arranged"),
        ("processes", {"b": {"pid": 100}}, "a and b share process 100; `processes` needs one each"),
        ("threads", {"b": {"pid": 101}}, "a and b sit in 2 processes; `threads` needs them in one"),
    ],
)
def test_each_deviation_is_one_sentence(tenants, mode, changes, sentence):
    arrangement = arrange(TWO, Sharing(mode=mode), tenants("a", "b"))
    assert arrangement.verify(reports(arrangement, **changes)) == (sentence,)


def test_a_tenant_without_torch_is_not_blamed_for_its_threads(tenants):
    arrangement = arrange(TWO, Sharing(mode="processes"), tenants("a"))
    assert arrangement.verify(reports(arrangement, a={"threads": None})) == ()


def test_a_tenant_that_reports_nothing_is_a_deviation(tenants):
    arrangement = arrange(TWO, Sharing(mode="processes"), tenants("a", "b"))
    assert arrangement.verify(reports(arrangement)[:1]) == ("b did not report where it runs",)


def test_plans_travel_as_json(tenants):
    import json

    arrangement = arrange(TWO, Sharing(mode="pinned"), tenants("a", "b"))
    options = arrangement.hosts[0].seats[0].options
    assert json.loads(json.dumps(options)) == options


def test_shares_read_from_a_study_are_whole_numbers_of_cores(tenants):
    trial = Trial.model_validate_json(
        '{"number": 0, "block": 0, "order": 0, "mix": "a", "tenants": ['
        '{"name": "a", "of": "a", "workload": {"name": "null"}, "load": "closed(1)"}],'
        '"sharing": {"mode": "pinned", "shares": [1]}, "load": "x", "window_s": 1, "lead_s": 0, "seed": 0}'
    )
    assert layout(arrange(TWO, trial.sharing, trial.tenants)) == [[([0], 1)]]
