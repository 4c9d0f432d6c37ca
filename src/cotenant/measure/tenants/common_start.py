"""All tenants of a trial start at one absolute time; the runner only waits until each has answered, or is lost."""

from collections.abc import Sequence

from cotenant.measure.gather import Timing
from cotenant.measure.tenants.arena import Board
from cotenant.measure.tenants.host_process import HostProcess
from cotenant.measure.tenants.listening import answers
from cotenant.measure.tenants.messages import HostResult, TrialOrder
from cotenant.measure.tenants.seat_run import SeatRun

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
    silent = set(hosts)
    for host, answer in answers(list(hosts), give_up_ns):
        silent.discard(host)
        if isinstance(answer, HostResult):
            for result in answer.seats:
                by_index[result.index].result = result
        else:
            board.stop[0] = 1  # the mix is broken: what the others would still serve can't be counted
    for host in silent:
        _end_hung(host, hosts[host], board)


def _end_hung(host: HostProcess, seats: Sequence[SeatRun], board: Board) -> None:
    """End a process that does not answer; a tenant in it that had served all it had to is not the one to blame."""
    hung = f"hung: it gave no answer {HANG_S:g} s after the end of the trial"
    stuck = [seat for seat in seats if not board.finished[seat.index]] or list(seats)
    culprits = " and ".join(seat.tenant.name for seat in stuck)
    for seat in seats:
        seat.fate = f"was ended with its process, in which {culprits} hung"
    for seat in stuck:
        seat.fate = hung
    host.kill(hung)
