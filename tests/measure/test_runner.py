"""One loop for all benches: blocks go to whichever host is free, and a lost host costs no trial."""

from collections import Counter

import pytest

from cotenant.devices import find_device
from cotenant.measure.bench import HostLost, bench_for
from cotenant.measure.events import BlockDone, Noticed, TrialDone
from cotenant.measure.local_bench import LocalBench
from cotenant.measure.run_plan import RunPlan, plan_for
from cotenant.measure.runner import Runner
from cotenant.store.folder import RunFolder
from cotenant.store.observe import counted_from, counted_rows, observe_trial
from cotenant.study.files import study_from
from cotenant.study.windows import LONG, SHORT

STUDY = {
    "name": "s",
    "tenants": {"a": {"workload": "sgemm-mini"}, "b": {"workload": "bert-base-mini"}},
    "mixes": ["solo", "pairs"],
    "sharing": ["processes"],
    "blocks": 4,
}


class TwoHosts(LocalBench):
    """Two hosts on one simulated device; the second is lost in the middle of its first block."""

    hosts = ("first", "second")

    def __init__(self, *args, lost=False, divided=True, **options):
        super().__init__(*args, **options)
        self.lost, self.divided, self.carried_out = lost, divided, []

    def carry_out(self, next_stretch, rates):
        hosts = list(self.hosts)
        while taken := [(host, stretch) for host in hosts if (stretch := next_stretch(host)) is not None]:
            for host, stretch in taken:
                if host == "second" and self.lost:
                    hosts.remove(host)
                    yield HostLost(host)
                    continue
                self.carried_out += [(host, block) for block in range(stretch.first, stretch.after)]
                records = [trial for some in self.carry_out_stretch(stretch, rates) for trial in some]
                delivery = self.delivery(records, seconds=1.0, complete=True)
                yield type(delivery)(**{name: getattr(delivery, name) for name in delivery.__slots__} | {"host": host})


@pytest.fixture
def carried_out(tmp_path):
    def carry_out(**options):
        device = find_device("sim:t4")
        plan = plan_for(study_from(STUDY | {"device": "sim:t4"}), device)
        folder = RunFolder.create(tmp_path / "run", {"run": "r", "instrument": {}})
        bench = TwoHosts(device, bench_for(device, run="r"), plan.study, run="r", session=0, **options)
        events = []
        try:
            why = Runner(plan, bench, folder, listener=events.append).run()
        finally:
            bench.close()
        return why, bench, folder, events

    return carry_out


def test_hosts_divide_the_blocks_between_them(carried_out):
    why, bench, folder, events = carried_out()
    assert why == "all blocks done"
    assert bench.carried_out == [("first", 0), ("second", 1), ("first", 2), ("second", 3)]
    trials = [event for event in events if isinstance(event, TrialDone)]
    assert Counter(trial.trial for trial in trials) == Counter(folder.committed()) == Counter(range(12))
    assert folder.manifest["reached"]["blocks"] == 4
    assert folder.manifest["reached"]["seconds"] == pytest.approx(6 * 2.3), "both work at the same time"
    assert [event for event in events if isinstance(event, BlockDone)][-1].widest is not None


def test_a_lost_host_costs_no_trial(carried_out):
    _, bench, folder, events = carried_out(lost=True)
    assert sorted(block for _, block in bench.carried_out) == [0, 1, 2, 3]
    assert {host for host, _ in bench.carried_out} == {"first"}
    assert folder.committed() == frozenset(range(12))
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        "second is lost, in the middle of block 2; others carry on"
    ]


def test_counts_that_travelled_as_plain_data_are_the_same_observations():
    device = find_device("sim:t4")
    trial = plan_for(study_from(STUDY | {"device": "sim:t4"}), device).block(0).trials[0]
    bench = bench_for(device, run="r")
    try:
        records = bench.carry_out(trial, session=0, rates={})
    finally:
        bench.close()
    assert counted_from(counted_rows(records, "r")) == observe_trial(records, "r")


@pytest.mark.parametrize(("device", "shortest"), [("cpu", SHORT), ("sim:t4", LONG)])
def test_a_plan_made_elsewhere_fits_windows_to_each_trial(device, shortest):
    study = study_from(STUDY | {"device": device})
    there = plan_for(study, find_device(device))
    here = RunPlan.from_json(study, (), there.to_json())
    assert here.shortest == shortest
    alone_s = {"a": 0.01, "b": 0.5}
    windows = [
        {trial.mix: trial.window_s for trial in plan.with_windows(LONG, alone_s).block(0).trials}
        for plan in (here, there)
    ]
    assert windows[0] == windows[1]
    assert windows[0]["a"] < windows[0]["b"] < max(windows[0].values())
