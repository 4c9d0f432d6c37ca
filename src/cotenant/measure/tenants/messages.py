"""What runner and host say to each other: one JSON document per line, over a socket of their own."""

from collections.abc import Mapping
from typing import Any, Literal

from cotenant.measure.tenants.arena import ANSWER_COLUMNS
from cotenant.tenancy.nouns import Frozen, Tenant


class SeatOrderMessage(Frozen):
    """Build this tenant in this seat."""

    tenant: Tenant
    options: Mapping[str, Any]
    arena_fd: int


class BuildOrder(Frozen):
    """First message to a host: who lives there."""

    kind: Literal["build"] = "build"
    device: str
    board_fd: int
    seats: tuple[SeatOrderMessage, ...]
    warm_at_least_s: float
    warm_at_most_s: float


class SeatReady(Frozen):
    """A tenant stands and is warm, or says why not."""

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
    """What one in five warm requests stayed within: while it warmed up, others were being built beside it."""
    warm_requests: int = 0
    settled: bool = False
    memory_bytes: int = 0
    error: str | None = None
    out_of_memory: bool = False
    concurrent: bool = False
    """It is a client of a server, with several requests under way at once."""
    beside: tuple[int, ...] = ()
    """Processes that serve for it, outside its own."""

    @property
    def rows(self) -> int:
        """Columns of its arena beyond the fixed ones."""
        return len(self.slots) + (len(ANSWER_COLUMNS) if self.concurrent else 0)


class HostReady(Frozen):
    """Answer to `BuildOrder`, one entry per seat."""

    kind: Literal["ready"] = "ready"
    seats: tuple[SeatReady, ...]


class WindowTimes(Frozen):
    """One window of a sequence: how many seats it has, and how long its parts take."""

    seats: int
    lead_ns: int
    """All tenants run together for this long before the window opens."""
    window_ns: int
    patience_ns: int
    """Time to finish what was due in the window."""


class SeatWindow(Frozen):
    """One seat's part in one window."""

    window: int
    """Position in the sequence."""
    index: int
    """Index on the window's page of the board; seat 0 of a window begins the next one."""
    first: int
    """Where its records begin in the arena."""
    capacity: int
    outstanding: int
    scheduled: int
    synchronised: bool
    first_arrival: int = 0
    """Of a load from a trace: the place in it of the first request."""
    canary: bool = False
    """Time a plain loop now and then between requests, to know how fast the core is."""
    tenant: str = ""
    """Who it is in this trial: a process may have been built for another tenant with the same workload."""


class SeatProgram(Frozen):
    """What one seat does in a sequence."""

    seat: int
    """Index within the host."""
    capacity: int
    """Of its arena, over all its windows."""
    windows: tuple[SeatWindow, ...]


class SequenceOrder(Frozen):
    """Serve these windows, one after another, each when the board says that it starts."""

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
    """The kinds of error that requests ended with; the arena holds positions in this list."""

    @property
    def cut_off(self) -> bool:
        """It was told to stop: the reason lies with somebody else."""
        return self.stopped_early and not (self.overflowed or self.gave_up or self.out_of_memory)


class HostResult(Frozen):
    """Answer to `SequenceOrder`: one entry per seat and window that was begun."""

    kind: Literal["result"] = "result"
    seats: tuple[SeatResult, ...]
