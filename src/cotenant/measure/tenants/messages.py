"""Messages between runner and host: a JSON document per line, over a socket."""

from collections.abc import Mapping
from typing import Any, Literal

from cotenant.measure.tenants.arena import ANSWER_COLUMNS
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.values import Frozen


class SeatOrderMessage(Frozen):
    """Build this tenant in this seat."""

    tenant: Tenant
    options: Mapping[str, Any]
    arena_fd: int


class BuildOrder(Frozen):
    """First message to a host: its tenants."""

    kind: Literal["build"] = "build"
    device: str
    board_fd: int
    seats: tuple[SeatOrderMessage, ...]
    warm_at_least_s: float
    warm_at_most_s: float


class SeatReady(Frozen):
    """A tenant is built and warm, or why not."""

    pid: int
    observed: Mapping[str, Any] = {}
    dtype: str = ""
    weights: str = ""
    seq: int | None = None
    facts: Mapping[str, Any] = {}
    slots: tuple[str, ...] = ()
    """The stage of each timed slot of a request."""
    build_s: float = 0
    request_s: float = 0
    """Mean time of a warm request: sizes the arena."""
    undisturbed_s: float = 0
    """20th percentile of warm requests: others were being built during the warm-up."""
    warm_requests: int = 0
    settled: bool = False
    memory_bytes: int = 0
    error: str | None = None
    out_of_memory: bool = False
    concurrent: bool = False
    """True for a client of a server, with several requests in flight."""
    beside: tuple[int, ...] = ()
    """Processes outside its own that serve for it."""

    @property
    def rows(self) -> int:
        """Columns of its arena beyond the fixed ones."""
        return len(self.slots) + (len(ANSWER_COLUMNS) if self.concurrent else 0)


class HostReady(Frozen):
    """Answer to `BuildOrder`, an entry per seat."""

    kind: Literal["ready"] = "ready"
    seats: tuple[SeatReady, ...]


class WindowTimes(Frozen):
    """One window of a sequence: its number of seats and the duration of its parts."""

    seats: int
    lead_ns: int
    """All tenants run together for this long before the window opens."""
    window_ns: int
    patience_ns: int
    """Time to finish what was due in the window."""


class SeatWindow(Frozen):
    """A seat's part in a window."""

    window: int
    """Position in the sequence."""
    index: int
    """Index on the window's page of the board; seat 0 of a window starts the next."""
    first: int
    """Where its records start in the arena."""
    capacity: int
    outstanding: int
    scheduled: int
    synchronised: bool
    first_arrival: int = 0
    """For a load from a trace: the position of its first request."""
    canary: bool = False
    """Occasionally time a plain loop between requests, to measure the core's speed."""
    tenant: str = ""
    """Its name in this trial: the process may have been built for another tenant with the same workload."""


class SeatProgram(Frozen):
    """One seat's part in a sequence."""

    seat: int
    """Index within the host."""
    capacity: int
    """Size of its arena, over all its windows."""
    windows: tuple[SeatWindow, ...]


class SequenceOrder(Frozen):
    """Serve these windows in turn, each when the board says it starts."""

    kind: Literal["sequence"] = "sequence"
    windows: tuple[WindowTimes, ...]
    programs: tuple[SeatProgram, ...]


class SeatResult(Frozen):
    """How a seat's window ended."""

    window: int
    index: int
    recorded: int
    errors: int
    error: str | None
    out_of_memory: bool
    overflowed: bool
    gave_up: bool = False
    stopped_early: bool
    cpu_time_ns: int
    switches_voluntary: int
    switches_forced: int
    canary_ns: int | None = None
    """Median time of the plain loop over the window."""
    memory_bytes: int
    observed: Mapping[str, Any]
    kinds: tuple[str, ...] = ()
    """Kinds of error of its requests; the arena holds positions in this list."""

    @property
    def cut_off(self) -> bool:
        """It was stopped because of another tenant."""
        return self.stopped_early and not (self.overflowed or self.gave_up or self.out_of_memory)


class HostResult(Frozen):
    """Answer to `SequenceOrder`: an entry per seat and window that was started."""

    kind: Literal["result"] = "result"
    seats: tuple[SeatResult, ...]
