"""Tenants advance from window to window by themselves, in order, together, and stop on request."""

import os
import threading
import time
from contextlib import contextmanager

import pytest

from cotenant.measure.tenants.arena import Board, shared_memory_fd
from cotenant.measure.tenants.messages import WindowTimes
from cotenant.measure.tenants.sequence import SWITCH_NS, await_turn, begin, pass_turn
from tests.support import pace

MS = 1_000_000
TIMES = [WindowTimes(seats=2, lead_ns=MS, window_ns=3 * MS, patience_ns=MS)] * 4


@contextmanager
def a_board():
    fd = shared_memory_fd("board")
    board = Board(fd)
    board.clear()
    try:
        yield board
    finally:
        board.close()
        os.close(fd)


def tenant(board, index, log, at):
    for window in range(len(TIMES)):
        start = await_turn(board, window, TIMES)
        if start is None:
            return
        log.append((window, index, start))
        at(window, index)
        board.page(window).left[index] = 1
        if index == 0:
            pass_turn(board, window, TIMES)


def played(board, at=lambda *_: None):
    log = []
    threads = [threading.Thread(target=tenant, args=(board, index, log, at)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    begin(board, 0, time.monotonic_ns())
    for thread in threads:
        thread.join(timeout=pace.seconds(20))
        assert not thread.is_alive()
    return log


def test_all_tenants_of_a_window_start_at_one_time_and_windows_follow_in_order():
    with a_board() as board:
        log = played(board)
    starts = {window: {start for number, _, start in log if number == window} for window in range(len(TIMES))}
    assert all(len(times) == 1 for times in starts.values())
    ordered = [times.pop() for times in starts.values()]
    assert ordered == sorted(ordered)


def test_no_window_starts_before_every_seat_has_left_the_previous_one():
    left_at = {}

    def at(window, index):
        time.sleep(0.004 * index)
        left_at[window, index] = time.monotonic_ns()

    with a_board() as board:
        log = played(board, at)
    for window in range(1, len(TIMES)):
        start = next(begun for number, _, begun in log if number == window)
        assert start >= max(left_at[window - 1, 0], left_at[window - 1, 1]) + SWITCH_NS


@pytest.mark.parametrize("cell", ["stop", "halt"])
def test_no_further_window_starts_once_requested(cell):
    with a_board() as board:

        def at(window, index):
            if window == 1 and index == 1:
                getattr(board, cell)[0] = 1

        log = played(board, at)
    assert {window for window, _, _ in log} == {0, 1}


def test_pages_do_not_overlap():
    with a_board() as board:
        board.page(3).finished[0] = board.page(3).recorded[1] = 1
        others = [board.page(number) for number in (0, 2, 4, Board.WINDOWS - 1)]
        assert not any(sum(page.finished) + sum(page.recorded) + sum(page.left) for page in others)
        assert not board.page(3).all_finished(2)
