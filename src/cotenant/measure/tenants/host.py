"""The tenant process, `python -m cotenant.measure.tenants.host FD`: builds its tenants, then serves trials.

Each tenant has its own thread; the main thread only waits on the control socket, which costs nothing.
Standard output and error belong to the workload: nothing printed there can affect the records.
"""

import asyncio
import ctypes
import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any

from cotenant import workloads
from cotenant.devices import find_device
from cotenant.devices.protocol import Seat
from cotenant.errors import CotenantError, WorkloadError
from cotenant.measure.fit import is_out_of_memory
from cotenant.measure.pacing import sharpen_timer, spin_margin_ns
from cotenant.measure.profile.tenant_side import get_ready_if_asked, start_if_asked
from cotenant.measure.tenants.arena import ANSWER_COLUMNS, Arena, Board, opened
from cotenant.measure.tenants.concurrent import one_at_a_time, serve_concurrently
from cotenant.measure.tenants.messages import (
    BuildOrder,
    HostReady,
    HostResult,
    SeatOrderMessage,
    SeatProgram,
    SeatReady,
    SeatResult,
    SeatWindow,
    SequenceOrder,
    WindowTimes,
)
from cotenant.measure.tenants.own_use import cores, cpu_time_ns, peak_memory_bytes, tree
from cotenant.measure.tenants.sequence import await_turn, pass_turn
from cotenant.measure.tenants.serving import SeatOrder, Usage, serve, usage_of, warm_up
from cotenant.workloads.protocol import Built

ERROR_LIMIT = 400
"""Characters of a workload's error that are sent to the runner."""


class SeatThread:
    """One tenant; all its work happens in its own thread, on its own seat."""

    def __init__(self, order: SeatOrderMessage, seat: Seat, board: Board, *, own_process: bool) -> None:
        self._order, self._seat, self._board, self._own_process = order, seat, board, own_process
        self._built: Built | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """For a server's client: its requests are in flight there, all from this thread."""
        self._margin_ns = 0
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name=order.tenant.name, daemon=True)
        self._thread.start()

    @property
    def thread_id(self) -> int:
        """Thread id, as the kernel counts."""
        assert self._thread.native_id is not None
        return self._thread.native_id

    def _live(self) -> None:
        with self._seat.occupy():
            while (task := self._tasks.get()) is not None:
                work, future = task
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the result
                    future.set_exception(error)

    def do(self, work: Callable[[], Any]) -> "Future[Any]":
        """Run a function on the tenant's own thread."""
        future: Future[Any] = Future()
        self._tasks.put((work, future))
        return future

    def build(self, warm_at_least_s: float, warm_at_most_s: float) -> SeatReady:
        """Build and warm up the workload; an error becomes a sentence for the runner."""
        try:
            begin = time.monotonic()
            sharpen_timer()
            self._margin_ns = spin_margin_ns()
            spec = self._order.tenant.workload
            built = workloads.find(spec.name).build(spec, self._seat)
            self._built = built
            build_s = time.monotonic() - begin
            stages, slots = built.stages, tuple(stage.name for stage in built.stages for _ in range(stage.repeat))
            beside: tuple[int, ...] = ()
            if built.client is not None:
                self._loop = asyncio.new_event_loop()
                stages, slots, beside = one_at_a_time(built.client, self._loop), built.client.slots, built.client.pids()
                built.client.begin(0)
                for _ in range(built.client.warm):
                    stages[0].run(None)
            warmth = warm_up(stages, self._seat, at_least_s=warm_at_least_s, at_most_s=warm_at_most_s)
            if built.client is not None:
                built.client.rest()
                self._require_server()
            return SeatReady(
                pid=os.getpid(),
                observed=self._seat.observed(),
                dtype=built.dtype,
                weights=built.weights,
                seq=built.seq,
                facts=built.facts,
                slots=slots,
                build_s=build_s,
                request_s=warmth.request_s,
                undisturbed_s=warmth.undisturbed_s,
                warm_requests=warmth.requests,
                settled=warmth.settled,
                memory_bytes=self._seat.memory_bytes() + peak_memory_bytes(tree(beside)),
                concurrent=built.client is not None,
                beside=beside,
            )
        except Exception as error:  # noqa: BLE001 - a user's workload may raise anything
            traceback.print_exc()
            said = self._server_gone() or _one_line(error)
            return SeatReady(pid=os.getpid(), error=said, out_of_memory=is_out_of_memory(error))

    def _require_server(self) -> None:
        """Refuse a server that put itself into the background: its copy there would answer, and outlive the trial."""
        if (ended := self._server_gone()) is not None:
            raise WorkloadError(ended)

    def _server_gone(self) -> str | None:
        """How a server that ended during the warm-up ended; its connections only say that they broke."""
        client = None if self._built is None else self._built.client
        return None if client is None else client.gone()

    def serve(self, order: SequenceOrder, program: SeatProgram) -> tuple[SeatResult, ...]:
        """Serve this seat's windows of a sequence in order."""
        assert self._built is not None
        client = self._built.client
        slots = sum(stage.repeat for stage in self._built.stages)
        if client is not None:
            slots = len(client.slots) + len(ANSWER_COLUMNS)
        results = []
        with opened(self._order.arena_fd, capacity=program.capacity, slots=slots) as arena:
            for mine in program.windows:
                start_ns = await_turn(self._board, mine.window, order.windows)
                if start_ns is None:
                    break
                results.append(self._serve_window(order.windows[mine.window], mine, start_ns, arena))
                if mine.index == 0:
                    pass_turn(self._board, mine.window, order.windows)
        # Once for all windows: reading it back takes longer than the gap between some of them.
        beside = tree(client.pids()) if client is not None else ()
        now = {
            "memory_bytes": self._seat.memory_bytes() + peak_memory_bytes(beside),
            "observed": self._observed(beside),
        }
        return tuple(result.model_copy(update=now) for result in results)

    def _observed(self, beside: tuple[int, ...]) -> dict[str, Any]:
        """The seat's observations, and where the processes it uses may run."""
        seen = dict(self._seat.observed())
        if beside:
            seen["server_pids"] = list(beside)
            seen["process_cores"] = sorted({*seen.get("process_cores", ()), *cores(beside)})
        return seen

    def _serve_window(self, times: WindowTimes, mine: SeatWindow, start_ns: int, arena: Arena) -> SeatResult:
        assert self._built is not None
        window_start_ns = start_ns + times.lead_ns
        window_end_ns = window_start_ns + times.window_ns
        order = SeatOrder(
            index=mine.index,
            seats=times.seats,
            start_ns=start_ns,
            window_start_ns=window_start_ns,
            window_end_ns=window_end_ns,
            deadline_ns=window_end_ns + times.patience_ns,
            outstanding=mine.outstanding,
            scheduled=mine.scheduled,
            synchronised=mine.synchronised,
            own_process=self._own_process,
            first_arrival=mine.first_arrival,
            canary=mine.canary,
        )
        part, page = arena.part(mine.first, mine.capacity), self._board.page(mine.window)
        part.intended[: mine.scheduled] += start_ns  # the schedule was relative to a start not known yet
        try:
            kinds: tuple[str, ...] = ()
            if self._built.client is not None and self._loop is not None:
                client, beside = self._built.client, tree(self._built.client.pids())

                def usage() -> Usage:
                    return usage_of(order).plus_cpu(cpu_time_ns(beside))

                served, kinds = serve_concurrently(client, self._loop, order, part, page, usage)
            else:
                served = serve(self._built.stages, self._seat, order, part, page, self._margin_ns)
            if served.gave_up or served.out_of_memory:
                self._board.halt[0] = 1  # a new process is needed after this
        finally:
            page.left[mine.index] = 1
        return SeatResult(
            window=mine.window,
            index=mine.index,
            recorded=served.recorded,
            errors=served.errors,
            error=" ".join(served.error.split())[:ERROR_LIMIT] if served.error else None,
            out_of_memory=served.out_of_memory,
            overflowed=served.overflowed,
            gave_up=served.gave_up,
            stopped_early=served.stopped_early,
            cpu_time_ns=served.usage.cpu_time_ns,
            switches_voluntary=served.usage.switches_voluntary,
            switches_forced=served.usage.switches_forced,
            canary_ns=served.canary_ns,
            memory_bytes=0,
            observed={},
            kinds=kinds,
        )

    def close(self) -> None:
        """Let the workload clean up, then end the thread."""
        if self._built is not None:
            self.do(self._close_built).result(timeout=5)
        self._tasks.put(None)

    def _close_built(self) -> None:
        assert self._built is not None
        if self._built.client is not None and self._loop is not None:
            self._loop.run_until_complete(self._built.client.close())
            self._loop.close()
        self._built.close()


def main(control_fd: int) -> None:
    """Obey the runner until it says goodbye or dies."""
    control = socket.socket(fileno=control_fd)
    lines = control.makefile("rb")
    order = BuildOrder.model_validate_json(next(lines))
    for fd in (control_fd, order.board_fd, *(seat.arena_fd for seat in order.seats)):
        os.set_inheritable(fd, False)  # programs started by a workload must not inherit them
    board = Board(order.board_fd)
    device = find_device(order.device)
    seats = [
        SeatThread(seat, device.seat(seat.options), board, own_process=len(order.seats) == 1) for seat in order.seats
    ]
    # One after another: building in parallel would mix up their errors and warm-up.
    warm = (order.warm_at_least_s, order.warm_at_most_s)
    ready = [seat.do(partial(seat.build, *warm)).result() for seat in seats]
    get_ready_if_asked(seats)
    gc.collect()
    gc.freeze()  # long-lived objects: keep the collector from walking them during a trial
    _say(control, HostReady(seats=tuple(ready)).model_dump_json())

    for line in lines:
        sequence = SequenceOrder.model_validate_json(line)
        named = {mine.tenant: seats[program.seat] for program in sequence.programs for mine in program.windows}
        profiling = start_if_asked(named)  # only in a profile pass, where a sequence has a single window
        running = [
            seats[program.seat].do(partial(seats[program.seat].serve, sequence, program))
            for program in sequence.programs
        ]
        results = tuple(result for future in running for result in future.result())
        if profiling is not None:
            profiling.finish()
        _say(control, HostResult(seats=results).model_dump_json())
    for seat in seats:
        seat.close()


def _one_line(error: Exception) -> str:
    text = error.message if isinstance(error, CotenantError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:ERROR_LIMIT]


def die_with_the_parent() -> None:
    """If the runner is killed, let the kernel end this process, so that no tenant keeps the device busy."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def _say(control: socket.socket, document: str) -> None:
    control.sendall(document.encode() + b"\n")


if __name__ == "__main__":
    die_with_the_parent()
    main(int(sys.argv[1]))
