"""The loop of a tenant that is a server's client: several requests in flight, all from a single event loop.

The rules are those of `serving`: an open load's requests are sent when due, whatever is in flight;
`closed(n)` keeps n in flight, and the next is due when any of them ends. A tenant done with the window continues until
all are done, and then waits for its requests, so that no server is left with work from a past window.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from cotenant.clients.alarm import Alarm
from cotenant.clients.openai_stream import AnswerTokens
from cotenant.errors import CotenantError, HungUp, RequestFailed
from cotenant.measure.tenants.arena import ANSWER_COLUMNS, ArenaPart, Page
from cotenant.measure.tenants.serving import ERRORS_IN_A_ROW, NAP_NS, SeatOrder, Served, Usage
from cotenant.tenancy.load import MOST_OUTSTANDING
from cotenant.tenancy.records import MISSING_NS
from cotenant.workloads.protocol import SENT, Client, Stage

LOOK_NS = 100_000_000
"""How often to check whether the trial was stopped. Each look wakes an idle process, which takes a tenth of a
millisecond of a core."""
OTHER_ERROR = "client error"
"""The kind of an error other than the server's."""


def serve_concurrently(  # noqa: PLR0917 - as `serve`
    client: Client,
    loop: asyncio.AbstractEventLoop,
    order: SeatOrder,
    arena: ArenaPart,
    page: Page,
    usage: Callable[[], Usage],
) -> tuple[Served, tuple[str, ...]]:
    """Serve a window; return how it ended, and the kinds of error numbered in the arena."""
    client.begin(order.first_arrival)
    window = _Window(client, loop, order, arena, page, usage)
    try:
        loop.run_until_complete(window.over)
    finally:
        window.abandon()
        client.rest()
    return window.served(), tuple(window.kinds)


def _counted(answer: AnswerTokens) -> tuple[int | None, ...]:
    """In the order of `ANSWER_COLUMNS`, which end with the kind of error."""
    return answer.tokens_in, answer.tokens_out, answer.tokens_reasoning


def one_at_a_time(client: Client, loop: asyncio.AbstractEventLoop) -> tuple[Stage, ...]:
    """A complete request as a stage, to warm up a server."""
    numbers = iter(range(-1, -(1 << 62), -1))  # never a window's requests: its prompts must be new to the server

    def request(_: object) -> AnswerTokens:
        return loop.run_until_complete(client.request(next(numbers), lambda *_: None))

    return (Stage("request", request),)


def _ramp(order: SeatOrder, seconds: float) -> list[int]:
    """When the first requests of a closed load are due: all at once, or spread over the start of the lead."""
    ramp_ns = min(int(seconds * 1e9), order.window_start_ns - order.start_ns)
    return [order.start_ns + ramp_ns * place // order.outstanding for place in range(order.outstanding)]


class _Window:
    """A window of a tenant. All times are on the monotonic clock, in ns."""

    def __init__(  # noqa: PLR0917 - as `serve`
        self,
        client: Client,
        loop: asyncio.AbstractEventLoop,
        order: SeatOrder,
        arena: ArenaPart,
        page: Page,
        usage: Callable[[], Usage],
    ) -> None:
        self._client, self._loop, self._order, self._arena, self._page = client, loop, order, arena, page
        self._usage = usage
        self._answers = arena.slot_ends[-len(ANSWER_COLUMNS) :]
        self._limit = arena.capacity if order.outstanding else order.scheduled
        self._free = deque(_ramp(order, client.ramp_s))
        """For a closed load: when each request that may be sent became due."""
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._count = 0
        self._counted_under_way = 0
        """Requests due by the end of the window that are not done yet."""
        self._finished = self._closing = self._in_window = False
        self._gave_up = self._stopped = False
        self._errors = self._failed_in_a_row = 0
        self._error: str | None = None
        self._before = self._after = usage()
        self.kinds: list[str] = []
        self.over: asyncio.Future[None] = loop.create_future()
        self._alarm = Alarm(loop, self._look)
        self._alarm.at(order.start_ns)

    def _look(self) -> None:
        """Send what is due, and check whether the window is over."""
        now = time.monotonic_ns()
        if self.over.done():
            return
        if now >= self._order.deadline_ns or self._page.stop[0] or self._gave_up:
            self._stopped = self._gave_up or bool(self._page.stop[0])
            self.over.set_result(None)
            return
        due = self._next_due()
        while not self._closing and due is not None and due <= now and len(self._under_way) < MOST_OUTSTANDING:
            self._send(due)
            due = self._next_due()
            now = time.monotonic_ns()
        self._note_finished(due)
        if self._closing and not self._under_way:
            self.over.set_result(None)
            return
        every = NAP_NS if self._finished else LOOK_NS
        if due is not None and now < due < now + every and not self._closing:
            self._alarm.at(due)
        else:
            self._alarm.at(self._look_again(now, every))

    def _look_again(self, now: int, every: int) -> int:
        """On a fixed grid, so that the alarm is seldom set anew, and at the window's end."""
        next_on_grid, end = now - now % every + every, self._order.window_end_ns
        return min(next_on_grid, end) if end > now else next_on_grid

    def _next_due(self) -> int | None:
        """When the next request is due; None if only after a request in flight ends."""
        if self._count >= self._limit:
            return None
        if self._order.outstanding:
            return self._free[0] if self._free else None
        return int(self._arena.intended[self._count])

    def _send(self, due: int) -> None:
        row, arena = self._count, self._arena
        if self._order.outstanding:
            self._free.popleft()
            arena.intended[row] = due
        if not self._in_window and due >= self._order.window_start_ns:
            self._in_window, self._before = True, self._usage()
        arena.slot_ends[:, row] = MISSING_NS
        arena.first[row] = arena.done[row] = arena.device[row] = MISSING_NS
        arena.ok[row] = 0
        arena.started[row] = time.monotonic_ns()
        task = self._loop.create_task(self._see_through(row))
        self._under_way[task] = row
        self._counted_under_way += due < self._order.window_end_ns
        self._count += 1
        self._page.recorded[self._order.index] = self._count

    async def _see_through(self, row: int) -> None:
        arena, client, now = self._arena, self._client, time.monotonic_ns
        last_ns = 0

        def mark(slot: int, at_ns: int) -> None:
            nonlocal last_ns
            last_ns = max(last_ns, at_ns)  # an answer may arrive before we noted that its request was written
            if slot == SENT:
                arena.started[row] = at_ns
                return
            arena.slot_ends[slot, row] = last_ns
            if slot == client.first_output:
                arena.first[row] = last_ns

        try:
            answer = await client.request(row, mark)
        except asyncio.CancelledError:
            return  # it never completed: its row says so
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is recorded, by kind
            done = now()
            self._note_error(row, error)
        else:
            ended = int(arena.slot_ends[len(client.slots) - 1, row])
            done = now() if ended == MISSING_NS else ended
            arena.ok[row] = 1
            self._failed_in_a_row = 0
            for column, value in zip(self._answers, _counted(answer), strict=False):
                column[row] = MISSING_NS if value is None else value
        arena.done[row] = done
        self._ended(row)

    def _ended(self, row: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        del self._under_way[task]
        self._counted_under_way -= int(self._arena.intended[row]) < self._order.window_end_ns
        if self._order.outstanding:
            self._free.append(time.monotonic_ns())  # not the end: the client's turn-around is not the server's
        self._look()

    def _note_error(self, row: int, error: Exception) -> None:
        kind = error.kind if isinstance(error, RequestFailed) else OTHER_ERROR
        message = error.message if isinstance(error, CotenantError) else f"{type(error).__name__}: {error}"
        if kind not in self.kinds:
            self.kinds.append(kind)
        self._answers[-1][row] = self.kinds.index(kind)
        if isinstance(error, HungUp):
            self._failed_in_a_row = 0
            return
        self._errors += 1
        self._failed_in_a_row += 1
        self._error = self._error or message
        self._gave_up = self._failed_in_a_row >= ERRORS_IN_A_ROW

    def _note_finished(self, due: int | None) -> None:
        """Everything due in the window is done: the others may end it; the last tenant ends it for all."""
        order = self._order
        past = due >= order.window_end_ns if due is not None else time.monotonic_ns() >= order.window_end_ns
        if past and not self._counted_under_way and not self._finished:
            self._finished, self._after = True, self._usage()
            self._page.finished[order.index] = 1
        if self._finished and self._page.all_finished(order.seats):
            self._closing = True
        if self._count >= self._limit and order.outstanding:
            self._closing = True  # no room to record more

    def abandon(self) -> None:
        """Cancel requests in flight and the alarm."""
        self._alarm.close()
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        if not self._finished:
            self._after = self._usage()
            self._page.finished[self._order.index] = 1

    def served(self) -> Served:
        """How it ended."""
        overflowed = self._order.outstanding > 0 and self._count >= self._limit
        gone = self._client.gone() if self._errors else None
        return Served(
            recorded=self._count,
            errors=self._errors,
            error=gone or self._error,
            out_of_memory=False,
            overflowed=overflowed,
            gave_up=self._gave_up or gone is not None,
            stopped_early=overflowed or self._gave_up or gone is not None or self._stopped,
            usage=self._after.since(self._before),
        )
