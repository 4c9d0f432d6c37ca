"""The tenant's loop: when requests are due, what is recorded, and when it ends."""

import itertools
import os
import time
from contextlib import contextmanager

import numpy as np
import pytest

from cotenant.measure.canary import mean_ns
from cotenant.measure.tenants.arena import Board, opened, shared_memory_fd
from cotenant.measure.tenants.serving import ERRORS_IN_A_ROW, SeatOrder, is_out_of_memory, serve, warm_up
from cotenant.tenancy.records import MISSING_NS
from cotenant.workloads.protocol import Stage

MS = 1_000_000


class CountingSeat:
    """A seat whose device time is the number of marks, and which counts synchronisations."""

    def __init__(self):
        self.marks, self.waits = 0, 0

    def mark(self):
        self.marks += 1
        return self.marks

    def elapsed_ns(self, start, end):
        return end - start

    def synchronise(self):
        self.waits += 1


def nap(ms):
    return lambda _: time.sleep(ms / 1e3)


@contextmanager
def tenant(*, window_ms=40, lead_ms=10, drain_ms=9_000, schedule_ms=(), outstanding=1, seats=1, capacity=2000, **order):
    """A board and an arena, with the order of a trial that is about to start."""
    board_fd, arena_fd = shared_memory_fd("board"), shared_memory_fd("arena")
    start = time.monotonic_ns() + 2 * MS
    board = Board(board_fd)
    seat_order = SeatOrder(
        index=0,
        seats=seats,
        start_ns=start,
        window_start_ns=start + lead_ms * MS,
        window_end_ns=start + (lead_ms + window_ms) * MS,
        deadline_ns=start + (lead_ms + window_ms + drain_ms) * MS,
        outstanding=0 if len(schedule_ms) else outstanding,
        scheduled=len(schedule_ms),
        synchronised=order.get("synchronised", False),
        canary=order.get("canary", False),
        own_process=True,
    )

    def run(*stages, seat=None):
        slots = sum(stage.repeat for stage in stages)
        with opened(arena_fd, capacity=capacity, slots=slots) as whole:
            arena = whole.part(0, capacity)
            arena.intended[: len(schedule_ms)] = start + (np.array(schedule_ms) * MS).astype(np.int64)
            served = serve(stages, seat or CountingSeat(), seat_order, arena, board.page(0), 50_000)
            columns = {
                name: np.array(getattr(arena, name)[: served.recorded])
                for name in ("intended", "started", "first", "done", "device", "ok")
            }
            columns["slots"] = np.array(arena.slot_ends[:, : served.recorded])
        return served, columns

    try:
        yield seat_order, board, run
    finally:
        board.close()
        os.close(board_fd)
        os.close(arena_fd)


def test_nothing_starts_before_the_common_start():
    with tenant() as (order, _, run):
        _, columns = run(Stage("compute", nap(1)))
    assert columns["started"][0] >= order.start_ns


def test_a_closed_request_is_due_when_the_one_before_was_done():
    with tenant() as (order, _, run):
        _, columns = run(Stage("compute", nap(1)))
    assert columns["intended"][0] == order.start_ns
    assert np.array_equal(columns["intended"][1:], columns["done"][:-1])


def test_with_three_outstanding_a_request_is_due_when_the_third_before_it_was_done():
    with tenant(outstanding=3) as (order, _, run):
        _, columns = run(Stage("compute", nap(1)))
    assert np.all(columns["intended"][:3] == order.start_ns)
    assert np.array_equal(columns["intended"][3:], columns["done"][:-3])


def test_an_open_request_keeps_its_due_time_when_the_tenant_is_late():
    schedule = [0, 1, 2, 3, 20]
    with tenant(schedule_ms=schedule) as (order, _, run):
        _, columns = run(Stage("compute", nap(5)))
    assert (columns["intended"] - order.start_ns) / MS == pytest.approx(schedule)
    latency_ms = (columns["done"] - columns["intended"]) / MS
    assert latency_ms[3] > 15  # three requests of 5 ms were ahead of it
    assert np.all(columns["started"] >= columns["intended"])


def test_every_request_due_in_the_window_is_served_even_if_it_ends_after_it():
    with tenant(window_ms=20, lead_ms=0, schedule_ms=[0, 19, 50, 100]) as (order, _, run):
        served, columns = run(Stage("compute", nap(10)))
    assert served.recorded == 2
    assert columns["done"][1] > order.window_end_ns


def test_a_tenant_continues_until_the_others_have_finished():
    with tenant(seats=2, window_ms=10, lead_ms=0, drain_ms=300) as (order, _, run):
        _, columns = run(Stage("compute", nap(1)))
    assert columns["done"][-1] >= order.deadline_ns


def test_a_tenant_stops_as_soon_as_all_have_finished():
    with tenant(seats=2, window_ms=10, lead_ms=0) as (order, board, run):
        board.page(0).finished[1] = 1
        _, columns = run(Stage("compute", nap(1)))
    assert columns["done"][-1] < order.deadline_ns - 2000 * MS


def test_a_broken_mix_stops_all_tenants():
    with tenant(window_ms=10_000) as (_, board, run):
        board.stop[0] = 1
        served, _ = run(Stage("compute", nap(1)))
    assert served.stopped_early


def test_stages_are_timed_in_order_and_repeated_ones_once_each():
    stages = (Stage("prefill", nap(2), first_output=True), Stage("decode", nap(1), repeat=3))
    with tenant() as (_, _, run):
        _, columns = run(*stages)
    assert columns["slots"].shape[0] == 4
    assert np.all(np.diff(columns["slots"], axis=0) > 0)
    assert np.array_equal(columns["first"], columns["slots"][0])
    assert np.all(columns["done"] >= columns["slots"][-1])


def test_a_stage_receives_the_previous_stages_output():
    seen = []
    stages = (Stage("a", lambda x: (x, "a")), Stage("b", lambda x: (x, "b"), repeat=2), Stage("c", seen.append))
    with tenant() as (_, _, run):
        run(*stages)
    assert seen[0] == (((None, "a"), "b"), "b")


def test_a_request_without_a_first_output_records_none():
    with tenant() as (_, _, run):
        _, columns = run(Stage("compute", nap(1)))
    assert np.all(columns["first"] == MISSING_NS)


@pytest.mark.parametrize(("synchronised", "waits_per_request"), [(False, 1), (True, 3)])
def test_the_device_is_synchronised_once_or_after_each_stage(synchronised, waits_per_request):
    seat = CountingSeat()
    with tenant(synchronised=synchronised) as (_, _, run):
        served, _ = run(Stage("a", nap(1)), Stage("b", nap(1)), seat=seat)
    assert seat.waits == served.recorded * waits_per_request


def test_device_time_ends_with_the_work_not_with_the_hosts_wake_up():
    order = []

    class Watched(CountingSeat):
        def mark(self):
            order.append("mark")
            return super().mark()

        def synchronise(self):
            order.append("wait")

    with tenant(capacity=20) as (_, _, run):
        served, _ = run(Stage("compute", lambda _: order.append("work")), seat=Watched())
    assert order[:4] == ["mark", "work", "mark", "wait"]
    assert len(order) == 4 * served.recorded


def test_a_single_failing_request_is_recorded_and_the_tenant_continues():
    turns = itertools.count()

    def work(_):
        time.sleep(0.001)
        if next(turns) == 3:
            raise ValueError("odd one out")

    with tenant(window_ms=300) as (_, _, run):
        served, columns = run(Stage("compute", work))
    assert (served.errors, served.error) == (1, "ValueError: odd one out")
    assert list(np.flatnonzero(columns["ok"] == 0)) == [3]
    assert columns["device"][3] == MISSING_NS
    assert served.recorded > 4
    assert not served.stopped_early


def test_a_tenant_that_only_fails_is_stopped():
    def work(_):
        raise ValueError("always")

    with tenant(window_ms=10_000) as (_, _, run):
        served, _ = run(Stage("compute", work))
    assert served.recorded == ERRORS_IN_A_ROW
    assert served.stopped_early


def test_running_out_of_memory_ends_the_tenant_at_once():
    def work(_):
        raise MemoryError

    with tenant(window_ms=10_000) as (_, _, run):
        served, _ = run(Stage("compute", work))
    assert served.recorded == 1
    assert served.out_of_memory


def test_a_full_arena_is_reported_and_not_overrun():
    with tenant(capacity=5) as (_, _, run):
        served, columns = run(Stage("compute", nap(1)))
    assert served.recorded == 5
    assert served.overflowed
    assert served.stopped_early
    assert columns["done"].size == 5


def test_the_number_of_recorded_requests_survives_a_crash_on_the_board():
    with tenant() as (_, board, run):
        served, _ = run(Stage("compute", nap(1)))
        assert board.page(0).recorded[0] == served.recorded


def test_warming_up_ends_when_times_have_settled():
    turns = itertools.count()

    def work(_):
        time.sleep(0.1 if next(turns) < 5 else 0.002)

    warmth = warm_up([Stage("compute", work)], CountingSeat(), at_least_s=0.0, at_most_s=5.0)
    assert warmth.settled
    assert warmth.undisturbed_s <= warmth.request_s < 0.06
    assert warmth.requests > 5


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (ValueError("shape mismatch"), False),
    ],
)
def test_out_of_memory_is_distinguished_from_other_errors(error, is_one):
    assert is_out_of_memory(error) is is_one


def test_the_canary_runs_between_requests_and_adds_no_latency():
    with tenant(window_ms=60, canary=True) as (_, _, run):
        served, columns = run(Stage("compute", nap(1)))
    assert served.canary_ns > 0
    assert np.all(columns["intended"][1:] >= columns["done"][:-1])
    assert (columns["intended"][1:] > columns["done"][:-1]).any(), "some requests were sent after a canary"


def test_interrupted_readings_of_the_canary_do_not_count():
    assert mean_ns([30_000, 60_000, 45_000, 8_000_000]) == 45_000


def test_without_a_canary_nothing_is_timed():
    with tenant() as (_, _, run):
        served, _ = run(Stage("compute", nap(1)))
    assert served.canary_ns is None
