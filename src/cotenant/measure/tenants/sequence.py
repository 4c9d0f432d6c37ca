"""A sequence of windows: the runner starts the first and waits until all tenants have answered or are lost.

All tenants of a window start at the same absolute time. They advance from window to window by themselves (see `turns`).
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cotenant.devices.protocol import Fixture
from cotenant.measure.gather import Timing
from cotenant.measure.tenants.arena import Board
from cotenant.measure.tenants.host_process import HostProcess, answers
from cotenant.measure.tenants.messages import HostResult, SeatProgram, SequenceOrder, WindowTimes
from cotenant.measure.tenants.seat_run import SeatRun
from cotenant.tenancy.nouns import Trial

START_DELAY_NS = 15_000_000
"""Time between the order and the first start: enough for every host to read it. A later order has a shorter lead."""
HANG_S = 10.0
"""A host this far behind its window's deadline, and its own slowest request, hangs."""


@dataclass(slots=True)
class Window:
    """One trial of a sequence, on the runner's side."""

    trial: Trial
    times: WindowTimes
    seats: list[SeatRun]

    def timing(self, start_ns: int) -> Timing:
        """Its absolute times, once it has begun."""
        opens = start_ns + self.times.lead_ns
        closes = opens + self.times.window_ns
        return Timing(start_ns, opens, closes, closes + self.times.patience_ns)


def serve_sequence(windows: Sequence[Window], board: Board) -> None:
    """Carry out the windows and store each seat's result; a host that dies or hangs is ended and reported."""
    board.clear()
    hosts: dict[HostProcess, list[SeatRun]] = {}
    for window in windows:
        for seat in window.seats:
            hosts.setdefault(seat.host, []).append(seat)
    times = tuple(window.times for window in windows)
    for host, mine in hosts.items():
        host.start_sequence(SequenceOrder(windows=times, programs=_programs(mine)))
    begin(board, 0, time.monotonic_ns() + START_DELAY_NS)

    def give_up_ns() -> int:
        at = min(max(board.turn[0], 0), len(windows) - 1)
        slowest_s = max(seat.ready.request_s for seat in windows[at].seats)
        allowance_s = HANG_S + 5 * slowest_s * len(windows[at].seats)
        return windows[at].timing(board.start[at]).deadline_ns + int(allowance_s * 1e9)

    by_place = {(seat.window, seat.index): seat for window in windows for seat in window.seats}
    silent = set(hosts)
    for host, answer in answers(list(hosts), give_up_ns):
        silent.discard(host)
        if isinstance(answer, HostResult):
            for result in answer.seats:
                by_place[result.window, result.index].result = result
        else:
            board.stop[0] = 1  # the mix is broken: further requests of the others can't count
    if silent:
        board.stop[0] = 1
    for host in silent:
        _end_hung(host, hosts[host], board)


def begun(windows: Sequence[Window], board: Board) -> list[Window]:
    """The windows to record: those that ended by themselves, and the window in which a tenant was lost.

    What a dead tenant served in earlier windows is lost with its answer, and a window cut short
    because a tenant outside it died says nothing. Those count as never started.
    """
    return [window for number, window in enumerate(windows) if board.start[number] and _ended(window, board)]


def _ended(window: Window, board: Board) -> bool:
    silent = [seat for seat in window.seats if seat.result is None]
    if silent:
        return all(not board.page(seat.window).left[seat.index] for seat in silent)
    return not any(seat.result is not None and seat.result.cut_off for seat in window.seats)


def _programs(seats: Sequence[SeatRun]) -> tuple[SeatProgram, ...]:
    """The orders of each seat of a host."""
    of_seat: dict[int, list[SeatRun]] = {}
    for seat in seats:
        of_seat.setdefault(seat.seat, []).append(seat)
    return tuple(
        SeatProgram(
            seat=number,
            capacity=sum(window.part.capacity for window in mine),
            windows=tuple(window.order() for window in mine),
        )
        for number, mine in of_seat.items()
    )


def _end_hung(host: HostProcess, seats: Sequence[SeatRun], board: Board) -> None:
    """End a process that does not answer; a tenant in it that had served everything is not to blame."""
    hung = f"hung: it gave no answer {HANG_S:g} s after the end of the trial"
    now = [seat for seat in seats if seat.window == board.turn[0]]
    stuck = [seat for seat in now if not board.page(seat.window).finished[seat.index]] or now
    culprits = " and ".join(seat.tenant.name for seat in stuck)
    for seat in now:
        seat.fate = f"was ended with its process, in which {culprits} hung"
    for seat in stuck:
        seat.fate = hung
    host.kill(hung)


# --- sets up what a sharing needs besides its tenants (daemons, partitions), and removes it after the last tenant

log = logging.getLogger(__name__)


class Fixtures:
    """The fixtures that are set up now. None is set up or removed while a tenant process runs."""

    def __init__(self, *, end_tenants: Callable[[], None]) -> None:
        self._end_tenants = end_tenants
        self._standing: list[Fixture] = []

    def set_up(self, fixture: Fixture | None) -> None:
        """Set this fixture up, removing conflicting ones first; None only removes. Raises SharingUnavailable."""
        fallen = [standing for standing in self._standing if not standing.stands()]
        fresh = fixture is not None and fixture not in self._standing
        in_the_way = [standing for standing in self._standing if standing is not fixture and standing.alone]
        if fallen or in_the_way or (fresh and fixture is not None and fixture.alone):
            self.close()
        if fixture is not None and fixture not in self._standing:
            log.info("setting up %s", fixture.name)
            fixture.__enter__()
            self._standing.append(fixture)

    def close(self) -> None:
        """End all tenants, then restore everything."""
        self._end_tenants()
        while self._standing:
            fixture = self._standing.pop()
            log.info("removing %s", fixture.name)
            fixture.__exit__(None, None, None)


# --- advances tenants from window to window through shared memory, without the runner

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
    """Start the next window once every seat has left this window."""
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
