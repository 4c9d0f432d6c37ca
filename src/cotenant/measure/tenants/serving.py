"""The tenant's loop: the only code that runs between two timestamps, written to be cheap.

Rule: latency counts from when a request was due. All tenants start together; a tenant that has served everything
due in the window continues with further requests until every other tenant has too, so that each counted
request ran from start to end beside a full mix, and none is cut off at the window's edge.
"""

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from cotenant.devices.protocol import Seat
from cotenant.measure.canary import mean_ns, reading_ns
from cotenant.measure.fit import is_out_of_memory
from cotenant.measure.pacing import wait_until
from cotenant.measure.tenants.arena import ArenaPart, Page
from cotenant.tenancy.records import MISSING_NS
from cotenant.workloads.protocol import Stage

ERRORS_IN_A_ROW = 20
"""A tenant that fails this often without a single success is broken and stops."""
WARM_UP_ERRORS_IN_A_ROW = 3
WARM_REQUESTS = 200
"""After this many, what was built lazily is there: times that still vary are the machine's own."""
CLOCK_NOISE_NS = 200
"""Smaller differences in time can't be resolved."""
CANARY_SPARED, CANARY_LONGEST_NS = 30, 100_000
"""The plain loop is timed at most once in this many times its own duration, which takes about 3 % of the core. An
interrupted loop counts as no longer than that limit: else it would be the last reading of the window."""
NAP_NS = 2_000_000
"""How often to check whether the others have finished."""


@dataclass(frozen=True, slots=True)
class SeatOrder:
    """When to serve: absolute times on the monotonic clock, and the other seats."""

    index: int
    """This seat's place on the page."""
    seats: int
    start_ns: int
    window_start_ns: int
    window_end_ns: int
    deadline_ns: int
    """Stop here, whatever is left."""
    outstanding: int
    """Concurrency of a closed load; 0 if the schedule is in the arena's `intended` column."""
    scheduled: int
    """Length of that schedule."""
    synchronised: bool
    own_process: bool
    """True for resource use of the process, False for that of the thread."""
    first_arrival: int = 0
    """For a load from a trace: the position of its first request."""
    canary: bool = False
    """For a closed load with a single outstanding request: occasionally time a plain loop between requests."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource use of the tenant over the window."""

    cpu_time_ns: int
    switches_voluntary: int
    switches_forced: int

    def plus_cpu(self, cpu_time_ns: int) -> "Usage":
        """With the CPU time of processes that work for it."""
        return Usage(self.cpu_time_ns + cpu_time_ns, self.switches_voluntary, self.switches_forced)

    def since(self, before: "Usage") -> "Usage":
        """The difference to an earlier reading."""
        return Usage(
            self.cpu_time_ns - before.cpu_time_ns,
            self.switches_voluntary - before.switches_voluntary,
            self.switches_forced - before.switches_forced,
        )


@dataclass(frozen=True, slots=True)
class Served:
    """How serving ended."""

    recorded: int
    errors: int
    error: str | None
    out_of_memory: bool
    overflowed: bool
    """The arena was full before the trial was over."""
    gave_up: bool
    """It failed too often in a row to continue."""
    stopped_early: bool
    """The mix was incomplete after its last request."""
    usage: Usage
    canary_ns: int | None = None
    """Mean time of the plain loop over the window."""


@dataclass(frozen=True, slots=True)
class Warmth:
    """The result of warming up."""

    requests: int
    request_s: float
    """Mean of the last third."""
    undisturbed_s: float
    """20th percentile of the last third."""
    settled: bool


def flatten(stages: Sequence[Stage]) -> list[tuple[Callable[[Any], Any], bool]]:
    """The calls of a request in order, and whether the first output exists after each."""
    return [(stage.run, stage.first_output and turn == 0) for stage in stages for turn in range(stage.repeat)]


def serve(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one loop: splitting it would put calls between timestamps
    stages: Sequence[Stage], seat: Seat, order: SeatOrder, arena: ArenaPart, page: Page, margin_ns: int
) -> Served:
    """Serve requests from the common start to the end of the trial, and record each."""
    now, mark, elapsed_ns, synchronise = time.monotonic_ns, seat.mark, seat.elapsed_ns, seat.synchronise
    intended, started, first = memoryview(arena.intended), memoryview(arena.started), memoryview(arena.first)
    done, device, ok = memoryview(arena.done), memoryview(arena.device), memoryview(arena.ok)
    calls = [(run, is_first, memoryview(arena.slot_ends[slot])) for slot, (run, is_first) in enumerate(flatten(stages))]
    outstanding, synchronised, recorded = order.outstanding, order.synchronised, page.recorded
    window_start, window_end, deadline = order.window_start_ns, order.window_end_ns, order.deadline_ns
    limit = order.scheduled if outstanding == 0 else arena.capacity
    errors, failed_in_a_row, first_error, out_of_memory = 0, 0, None, False
    in_window, finished = False, False
    canary_due, free, canaries = 0 if order.canary and outstanding == 1 else order.deadline_ns, 0, []
    before = after = usage_of(order)

    count = 0
    current = wait_until(order.start_ns, margin_ns)
    while count < limit:
        if outstanding:
            due = order.start_ns if count < outstanding else done[count - outstanding]
            if free > due:  # noqa: PLR1730 - a call takes longer
                due = free
            intended[count] = due
        else:
            due = intended[count]
        if due >= window_end:
            if not finished:
                finished, after = True, usage_of(order)
                page.finished[order.index] = 1
            if page.all_finished(order.seats):
                break
            if due - current > NAP_NS:
                time.sleep(NAP_NS / 1e9)
                current = now()
                if current >= deadline or page.stop[0]:
                    break
                continue
        elif not in_window and due >= window_start:
            in_window, before = True, usage_of(order)
        if current >= deadline or page.stop[0]:
            break
        current = wait_until(due, margin_ns) if due > current else now()

        started[count] = current
        first_output = MISSING_NS
        begin = mark()
        try:
            value = None
            for run, is_first, ends in calls:
                value = run(value)
                if synchronised:
                    synchronise()
                current = now()
                ends[count] = current
                if is_first:
                    first_output = current
            end = mark()
            synchronise()
            current = now()
            ok[count] = 1
            device[count] = elapsed_ns(begin, end)
            failed_in_a_row = 0
        except Exception as error:  # noqa: BLE001 - whatever a user's workload raises is recorded, not ours to judge
            current = now()
            ok[count] = 0
            device[count] = MISSING_NS
            for _, _, ends in calls:
                ends[count] = current
            errors += 1
            failed_in_a_row += 1
            first_error = first_error or f"{type(error).__name__}: {getattr(error, 'message', error)}"
            out_of_memory = is_out_of_memory(error)
        first[count] = first_output
        done[count] = current
        count += 1
        recorded[order.index] = count
        if current >= canary_due:
            took = reading_ns()
            free = now()  # the next request is sent after it: it adds to no latency
            canary_due = free + CANARY_SPARED * min(took, CANARY_LONGEST_NS)
            if in_window and not finished:
                canaries.append(took)
        if failed_in_a_row and (out_of_memory or failed_in_a_row >= ERRORS_IN_A_ROW):
            break
    if not finished:
        after = usage_of(order)
        page.finished[order.index] = 1
    overflowed = outstanding > 0 and count >= limit
    gave_up = failed_in_a_row >= ERRORS_IN_A_ROW
    stopped_early = overflowed or gave_up or out_of_memory or bool(page.stop[0])
    used = after.since(before)
    canary_ns = mean_ns(canaries) if canaries else None
    return Served(count, errors, first_error, out_of_memory, overflowed, gave_up, stopped_early, used, canary_ns)


def warm_up(stages: Sequence[Stage], seat: Seat, *, at_least_s: float, at_most_s: float) -> "Warmth":
    """Serve until the times have settled, or there were enough requests.

    Only a first guess, to size memory and to complete lazy initialisation; whether a trial was steady
    is judged on its own records. An occasional failed request is left to the trial, which records it; several
    in a row are raised.
    """
    calls = flatten(stages)
    times: list[int] = []
    begin = time.monotonic_ns()
    settled, failed_in_a_row, look_at = False, 0, 0
    while True:
        start = time.monotonic_ns()
        try:
            value = None
            for run, _ in calls:
                value = run(value)
            seat.synchronise()
        except Exception:
            failed_in_a_row += 1
            if failed_in_a_row >= WARM_UP_ERRORS_IN_A_ROW:
                raise
        else:
            failed_in_a_row = 0
        end = time.monotonic_ns()
        times.append(end - start)
        spent = (end - begin) / 1e9
        enough = 8 if spent < at_most_s / 2 else 3
        if spent >= at_least_s and len(times) >= max(enough, look_at):
            look_at = len(times) + max(len(times) // 8, 1)  # checking sorts: not after each of a million short requests
            third = len(times) // 3
            middle, last = median(times[-2 * third : -third]), median(times[-third:])
            settled = abs(middle - last) < max(0.05 * last, CLOCK_NOISE_NS)
        enough_served = spent >= at_least_s and len(times) >= WARM_REQUESTS
        if settled or enough_served or spent >= at_most_s:
            last_third = times[-max(len(times) // 3, 1) :]
            undisturbed = sorted(last_third)[len(last_third) // 5]
            return Warmth(len(times), sum(last_third) / len(last_third) / 1e9, undisturbed / 1e9, settled)


def usage_of(order: SeatOrder) -> Usage:
    """Resource use so far of the tenant's process, or of its thread if several share a process."""
    who = resource.RUSAGE_SELF if order.own_process else resource.RUSAGE_THREAD
    usage = resource.getrusage(who)
    return Usage(int((usage.ru_utime + usage.ru_stime) * 1e9), usage.ru_nvcsw, usage.ru_nivcsw)
