"""Whose turn it is: tenants go from window to window by looking at shared memory, without asking the runner.

The first seat of a window begins the next one, once every seat has left. All wait asleep, for as long as the windows
before theirs take at least.
"""

import time
from collections.abc import Sequence

from cotenant.measure.tenants.arena import Board
from cotenant.measure.tenants.messages import WindowTimes

LOOK_NS = 500_000
"""How often a tenant looks whether its window was begun, once it may have been."""
SWITCH_NS = 2_000_000
"""Between the decision to begin a window and its start: several looks, so that all its tenants start together."""
LONGEST_NAP_NS = 50_000_000
"""A sequence that was stopped is noticed after this long at the latest."""


def await_turn(board: Board, window: int, windows: Sequence[WindowTimes]) -> int | None:
    """When this window starts, as soon as that is known; None: it never will."""
    while True:
        if start := board.start[window]:
            return start
        if board.stop[0] or board.halt[0]:
            return board.start[window] or None  # it may have been begun between the two looks
        turn = board.turn[0]
        least = sum(times.lead_ns + times.window_ns for times in windows[turn:window])
        left = board.start[turn] + least - time.monotonic_ns()
        time.sleep(min(max(left, LOOK_NS), LONGEST_NAP_NS) / 1e9)


def pass_turn(board: Board, window: int, windows: Sequence[WindowTimes]) -> None:
    """Begin the next window once every seat has left this one."""
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
    """Say when a window starts."""
    board.start[window] = start_ns
    board.turn[0] = window
