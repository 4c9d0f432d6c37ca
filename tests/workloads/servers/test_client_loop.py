"""A server's client: several requests in flight, sent when due, recorded whatever happens to them."""

import asyncio
import os
import time

import numpy as np
import pytest

from cotenant.clients.openai_stream import AnswerTokens
from cotenant.errors import RequestFailed
from cotenant.measure.tenants.arena import ANSWER_COLUMNS, Board, opened, shared_memory_fd
from cotenant.measure.tenants.concurrent import serve_concurrently
from cotenant.measure.tenants.serving import ERRORS_IN_A_ROW, SeatOrder, Usage
from cotenant.tenancy.records import MISSING_NS
from cotenant.workloads.protocol import SENT

MS = 1_000_000


class Sleepy:
    """Takes a while for each request, and records how many are in flight."""

    slots = ("begin", "end")
    first_output = 0
    warm = 0
    ramp_s = 0.0

    def __init__(self, seconds=0.02, fails=None, hangs_from=None):
        self.seconds, self.fails, self.hangs_from = seconds, fails, hangs_from
        self.under_way = self.most = self.sent = 0

    async def request(self, number, mark):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.sent += 1
        try:
            if self.hangs_from is not None and number >= self.hangs_from:
                await asyncio.sleep(60)
            await asyncio.sleep(self.seconds / 2)
            if self.fails:
                raise self.fails
            mark(0, time.monotonic_ns())
            await asyncio.sleep(self.seconds / 2)
            mark(1, time.monotonic_ns())
            return AnswerTokens(7, 3)
        finally:
            self.under_way -= 1

    def gone(self):
        return None

    def begin(self, first_arrival):
        self.first_arrival = first_arrival

    def rest(self):
        pass


def window(client, *, outstanding=0, schedule_ms=(), window_ms=100, lead_ms=20, patience_ms=5000, capacity=500):
    """Serve one window of one tenant; return how it ended, the kinds of error, and the recorded columns."""
    board_fd, arena_fd = shared_memory_fd("board"), shared_memory_fd("arena")
    board, loop = Board(board_fd), asyncio.new_event_loop()
    start = time.monotonic_ns() + 5 * MS
    order = SeatOrder(
        index=0,
        seats=1,
        start_ns=start,
        window_start_ns=start + lead_ms * MS,
        window_end_ns=start + (lead_ms + window_ms) * MS,
        deadline_ns=start + (lead_ms + window_ms + patience_ms) * MS,
        outstanding=outstanding,
        scheduled=len(schedule_ms),
        synchronised=False,
        own_process=True,
    )
    slots = len(client.slots) + len(ANSWER_COLUMNS)
    try:
        with opened(arena_fd, capacity=capacity, slots=slots) as arena:
            part = arena.part(0, capacity)
            part.intended[: len(schedule_ms)] = start + np.array(schedule_ms, np.int64) * MS
            served, kinds = serve_concurrently(client, loop, order, part, board.page(0), lambda: Usage(0, 0, 0))
            columns = {
                name: np.array(getattr(part, name)[: served.recorded])
                for name in ("intended", "started", "first", "done", "ok")
            }
            ends = np.array(part.slot_ends[:, : served.recorded])
            columns |= dict(zip((*client.slots, *ANSWER_COLUMNS), ends, strict=True))
            del part
        return served, kinds, columns, order
    finally:
        loop.close()
        board.close()
        os.close(board_fd)
        os.close(arena_fd)


@pytest.mark.parametrize("n", [1, 8])
def test_a_closed_load_keeps_that_many_in_flight(n):
    client = Sleepy()
    served, _, columns, _ = window(client, outstanding=n)
    assert client.most == n
    assert served.errors == 0
    assert (columns["ok"] == 1).all()


def test_the_next_request_of_a_closed_load_is_due_when_one_ends():
    _, _, columns, order = window(Sleepy(), outstanding=2)
    ended, due = np.sort(columns["done"][columns["done"] != MISSING_NS]), columns["intended"]
    assert due[:2].tolist() == [order.start_ns] * 2
    assert (due[2:] >= ended[: due.size - 2]).all()
    assert (due[2:] <= columns["started"][2:]).all()


def test_times_are_those_the_client_marks_and_never_run_backwards():
    class Marking(Sleepy):
        async def request(self, number, mark):
            self.sent_ns = time.monotonic_ns()
            mark(SENT, self.sent_ns)
            mark(0, self.sent_ns + 5)
            mark(1, self.sent_ns + 3)  # a time from another source
            await asyncio.sleep(0.02)
            return AnswerTokens(7, 3)

    client = Marking()
    _, _, columns, _ = window(client, schedule_ms=[0])
    marked = [columns[name][0] - client.sent_ns for name in ("started", "first", "begin", "end", "done")]
    assert marked == [0, 5, 5, 5, 5]


def test_an_open_load_sends_what_is_due_whatever_is_in_flight():
    client = Sleepy(seconds=0.2)
    served, _, columns, order = window(client, schedule_ms=range(0, 120, 10))
    assert client.most == 12
    assert served.recorded == 12
    assert (columns["started"] >= columns["intended"]).all()
    assert columns["intended"].tolist() == [order.start_ns + at * MS for at in range(0, 120, 10)]


def test_each_part_and_the_tokens_are_recorded():
    _, _, columns, _ = window(Sleepy(), outstanding=1)
    assert (columns["first"] == columns["begin"]).all()
    assert (columns["started"] < columns["first"]).all()
    assert (columns["first"] < columns["end"]).all()
    assert (columns["end"] <= columns["done"]).all()
    assert set(columns["tokens_in"]) == {7}
    assert set(columns["tokens_out"]) == {3}


def test_errors_have_a_kind_and_a_tenant_that_only_fails_gives_up():
    served, kinds, columns, _ = window(Sleepy(seconds=0.001, fails=RequestFailed("http 503", "busy")), outstanding=4)
    assert kinds == ("http 503",)
    assert (served.gave_up, served.error) == (True, "busy")
    assert ERRORS_IN_A_ROW <= served.errors < ERRORS_IN_A_ROW + 4
    failed = columns["done"] != MISSING_NS
    assert set(columns["kind"][failed]) == {0}
    assert (columns["first"] == MISSING_NS).all()


def test_requests_that_never_end_are_recorded_as_such():
    served, _, columns, _ = window(Sleepy(hangs_from=2), schedule_ms=(0, 30, 60), patience_ms=50)
    assert columns["done"][2] == MISSING_NS
    assert columns["ok"].tolist() == [1, 1, 0]
    assert not served.stopped_early


def test_requests_sent_after_the_window_are_awaited():
    client = Sleepy(seconds=0.05)
    _, _, columns, _ = window(client, outstanding=4)
    assert client.under_way == 0
    assert (columns["done"] != MISSING_NS).all()


def test_a_full_arena_is_reported():
    served, _, _, _ = window(Sleepy(seconds=0.001), outstanding=4, capacity=20)
    assert served.overflowed
    assert served.recorded == 20
