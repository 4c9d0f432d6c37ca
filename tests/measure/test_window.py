"""Which requests count: due in the window, and completed while every tenant was active."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.measure.assemble import Circumstances, assemble
from cotenant.measure.gather import RequestColumns, SeatOutcome, Timing, queued, with_unserved
from cotenant.measure.sampler import Samples
from cotenant.measure.tenants.arena import ANSWER_COLUMNS
from cotenant.measure.tenants.messages import SeatReady, SeatResult
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import MISSING_NS
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads.protocol import Properties, WorkloadSpec

MS = 1_000_000
TIMING = Timing(start_ns=0, window_start_ns=100 * MS, window_end_ns=200 * MS, deadline_ns=900 * MS)
UNKNOWN = Properties(params=None, weight_bytes=None, flops=None, bytes_moved=None, peak_memory_bytes=None)


def requests(*rows_ms):
    """Rows of (intended, done) in ms; done None: never."""
    intended = np.array([row[0] for row in rows_ms], np.int64) * MS
    done = np.array([MISSING_NS if row[1] is None else row[1] * MS for row in rows_ms], np.int64)
    started = np.where(done == MISSING_NS, MISSING_NS, intended)
    return RequestColumns(
        intended=intended,
        started=started,
        first=np.full_like(intended, MISSING_NS),
        done=done,
        device=np.where(done == MISSING_NS, MISSING_NS, 1),
        ok=(done != MISSING_NS).astype(np.int64),
        slot_ends=done[None, done != MISSING_NS],
    )


def outcome(name, columns, *, fate=None, stopped_early=False, load="closed(1)"):
    tenant = Tenant(name=name, of=name, workload=WorkloadSpec(name="null"), load=Load.model_validate(load))
    result = SeatResult(
        window=0,
        index=0,
        recorded=columns.intended.size,
        errors=0,
        error=None,
        out_of_memory=False,
        overflowed=False,
        stopped_early=stopped_early,
        cpu_time_ns=0,
        switches_voluntary=0,
        switches_forced=0,
        memory_bytes=0,
        observed={},
    )
    ready = SeatReady(pid=1, slots=("compute",))
    return SeatOutcome(tenant, None, UNKNOWN, ready, None if fate else result, fate, columns)


def records(*outcomes, timing=TIMING):
    trial = Trial(
        number=1,
        block=0,
        order=0,
        mix="+".join(o.tenant.name for o in outcomes),
        tenants=tuple(o.tenant for o in outcomes),
        sharing=Sharing(mode="processes"),
        load="closed(1)",
        window_s=(timing.window_end_ns - timing.window_start_ns) / 1e9,
        lead_s=0.1,
        seed=1,
    )
    around = Circumstances("r", 0, "cpu", False, 2, "now", timing, Samples({}, ()), (), ())
    return assemble(trial, outcomes, around)


def counted(table, tenant):
    mine = table["tenant"] == tenant
    return [int(t // MS) for t in table["intended_ns"][mine & table["in_window"]]]


def test_a_request_counts_if_it_was_due_in_the_window_whenever_it_was_done():
    made = records(outcome("a", requests((99, 120), (100, 130), (199, 260), (200, 210))))
    assert counted(made.requests, "a") == [100, 199]


def test_when_a_tenant_stops_early_no_later_requests_count():
    early = outcome("a", requests((100, 120), (120, 150)), stopped_early=True)
    other = outcome("b", requests((100, 140), (140, 151), (151, 160)))
    made = records(early, other)
    assert counted(made.requests, "b") == [100]
    assert counted(made.requests, "a") == [100, 120]


def test_requests_due_in_the_window_but_never_started_count_as_unfinished():
    schedule = np.array([110, 120, 130, 250], np.int64) * MS
    columns = with_unserved(requests((110, 125)), schedule, TIMING.window_end_ns)
    made = records(outcome("a", columns, load="poisson(50)"))
    assert counted(made.requests, "a") == [110, 120, 130]
    assert list(made.requests["ok"]) == [True, False, False]
    assert made.trial["failed_checks"] == ["load_sustained"]  # too few requests show over all short windows of a cell


def test_requests_left_in_a_closed_loads_queue_count_as_due_and_unserved():
    served = requests((0, 90), (0, 110), (90, 150))
    columns = with_unserved(served, queued(served, 2), TIMING.window_end_ns)
    made = records(outcome("a", columns, load="closed(2)"))
    assert counted(made.requests, "a") == [110, 150]
    assert "load_sustained" in made.trial["failed_checks"]


def test_a_queue_served_beyond_the_window_leaves_nothing_unserved():
    served = requests((0, 90), (0, 150), (90, 210), (150, 260))
    assert with_unserved(served, queued(served, 2), TIMING.window_end_ns) is served


def test_the_records_of_a_killed_tenant_are_kept_and_the_trial_is_invalid():
    made = records(outcome("a", requests((100, 120), (120, 150)), fate="was killed by SIGKILL"))
    assert made.trial["verdict"] == "invalid"
    assert made.trial["reasons"] == ["a was killed by SIGKILL"]
    assert made.requests["intended_ns"].size == 2


def test_each_stage_starts_where_the_previous_one_ended():
    columns = requests((100, 120), (120, 150))
    two = RequestColumns(
        columns.intended,
        columns.started,
        columns.first,
        columns.done,
        columns.device,
        columns.ok,
        np.array([[110, 130], [120, 150]]) * MS,
    )
    seen = outcome("a", two)
    made = records(
        SeatOutcome(seen.tenant, None, UNKNOWN, SeatReady(pid=1, slots=("in", "out")), seen.result, None, two)
    )
    stages = {
        (int(q), str(s)): (int(b // MS), int(d // MS))
        for q, s, b, d in zip(*(made.stages[c] for c in ("seq", "stage", "start_ns", "duration_ns")), strict=True)
    }
    assert stages == {(0, "in"): (100, 10), (1, "in"): (120, 10), (0, "out"): (110, 10), (1, "out"): (130, 20)}


def beside_bursts(load):
    """The tenants of two seconds in which one is twice as slow while the other, every 400 ms, is busy for 200."""
    quick, at = [], 100
    while at < 2100:
        took = 4 if at % 400 < 200 else 2
        quick.append((at, at + took))
        at += took
    slow = [(begin, begin + 200) for begin in range(400, 2100, 400)]
    return outcome("quick", requests(*quick)), outcome("slow", requests(*slow), load=load)


def unsteady(*outcomes):
    made = records(*outcomes, timing=Timing(0, 100 * MS, 2100 * MS, 9000 * MS))
    return [reason for reason in made.trial["reasons"] if "steady" in reason]


@pytest.mark.parametrize("load", ["poisson(2)", "closed(1)"])
def test_a_tenant_that_is_slower_whenever_its_neighbour_works_is_steady(load):
    quick, slow = beside_bursts(load)
    assert unsteady(quick, slow) == []
    assert unsteady(quick) == ["the latency of quick was not steady: no steady state"]


def test_a_drift_shows_beside_a_neighbour_with_many_requests():
    drifting = outcome("a", requests(*((at, at + (4 if at < 1300 else 8)) for at in range(100, 2100, 8))))
    neighbour = outcome("b", requests(*((at, at + 2) for at in range(100, 2100, 2))), load="poisson(500)")
    assert unsteady(drifting, neighbour) == ["the latency of a was not steady: slowdown"]


def test_answers_of_a_server_that_works_on_several_requests_depend_on_each_other():
    busy = [(at, at + (60 if at % 400 < 200 else 20)) for at in range(100, 2100, 20)]
    model = outcome("a", requests(*busy), load="poisson(50)")
    server = replace(
        model, requests=replace(model.requests, answers=dict.fromkeys(ANSWER_COLUMNS, np.ones(100, np.int64)))
    )
    assert unsteady(server) == []
    assert len(unsteady(model)) == 1
