"""All tenants of a trial start at one absolute time; the runner only waits until each has answered, or is lost."""

import selectors
import time
from collections.abc import Iterator, Sequence

from cotenant.measure.arena import Board
from cotenant.measure.gather import Timing
from cotenant.measure.hosts import HostProcess
from cotenant.measure.messages import HostResult, TrialOrder
from cotenant.measure.seat_run import SeatRun

HANG_S = 10.0
"""A host that is this much behind the trial's deadline, and behind its own slowest request, hangs."""


def serve_together(seats: Sequence[SeatRun], board: Board, timing: Timing) -> None:
    """Carry the trial out and put each seat's result into it; a host that dies or hangs is ended and says so."""
    board.clear()
    hosts: dict[HostProcess, list[SeatRun]] = {}
    for seat in seats:
        hosts.setdefault(seat.host, []).append(seat)
    for host, mine in hosts.items():
        host.start_trial(
            TrialOrder(
                seats=len(seats),
                start_ns=timing.start_ns,
                window_start_ns=timing.window_start_ns,
                window_end_ns=timing.window_end_ns,
                deadline_ns=timing.deadline_ns,
                active=tuple(seat.order() for seat in mine),
            )
        )
    slowest_s = max(seat.ready.request_s for seat in seats)
    give_up_ns = timing.deadline_ns + int((HANG_S + 5 * slowest_s * len(seats)) * 1e9)
    by_index = {seat.index: seat for seat in seats}
    for answer in _answers(list(hosts), give_up_ns):
        if answer is None:
            board.stop[0] = 1  # the mix is broken: what the others would still serve can't be counted
        else:
            for result in answer.seats:
                by_index[result.index].result = result


def _answers(hosts: Sequence[HostProcess], give_up_ns: int) -> Iterator[HostResult | None]:
    """Each host's answer as it comes; None for one that is dead, or had to be ended because it hung."""
    yield from (None for host in hosts if not host.alive)
    waiting = {host for host in hosts if host.alive}
    with selectors.DefaultSelector() as selector:
        for host in waiting:
            selector.register(host, selectors.EVENT_READ, host)
        while waiting:
            events = selector.select(max(give_up_ns - time.monotonic_ns(), 0) / 1e9)
            if not events:
                for host in waiting:
                    host.kill(f"hung: no answer {HANG_S:.0f} s after the end of the trial")
                yield from (None for _ in waiting)
                return
            for key, _ in events:
                host = key.data
                answer = host.receive()
                if answer is None and host.alive:
                    continue
                selector.unregister(key.fd)
                waiting.discard(host)
                yield answer if isinstance(answer, HostResult) else None
