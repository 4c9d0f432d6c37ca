"""Advances tenants from window to window through shared memory, without the runner.

The first seat of a window starts the next one, once every seat has left. All sleep at least as long as the windows
before theirs take.
"""

import time
from collections.abc import Sequence

from cotenant.measure.tenants.arena import Board
from cotenant.measure.tenants.messages import WindowTimes

LOOK_NS = 500_000
"""How often a tenant checks whether its window was started, once it may have been."""
SWITCH_NS = 2_000_000
"""Time between the decision to start a window and its start: several checks, so that all tenants start together."""
LONGEST_NAP_NS = 50_000_000
"""Longest time until a stopped sequence is noticed."""


def await_turn(board: Board, window: int, windows: Sequence[WindowTimes]) -> int | None:
    """When this window starts, as soon as known; None if it never will."""
    while True:
        if start := board.start[window]:
            return start
        if board.stop[0] or board.halt[0]:
            return board.start[window] or None  # it may have been started between the two checks
        turn = board.turn[0]
        least = sum(times.lead_ns + times.window_ns for times in windows[turn:window])
        left = board.start[turn] + least - time.monotonic_ns()
        time.sleep(min(max(left, LOOK_NS), LONGEST_NAP_NS) / 1e9)


def pass_turn(board: Board, window: int, windows: Sequence[WindowTimes]) -> None:
    """Start the next window once every seat has left this one."""
    if window + 1 >= len(windows):
        return
    page, seats = board.page(window), windows[window].seats
    while not page.all_left(seats):
        if board.stop[0]:
            return
        time.sleep(LOOK_NS / 2e9)
    if not board.halt[0] and not board.stop[0]:
        begin(board, window + 1, time.monotonic_ns() + SWITCH_NS)


def begin(board: Board, window: int, start_ns: int) -> None:
    """Publish when a window starts."""
    board.start[window] = start_ns
    board.turn[0] = window
