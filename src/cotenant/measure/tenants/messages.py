"""What runner and host say to each other: one JSON document per line, over a socket of their own."""

from collections.abc import Mapping
from typing import Any, Literal

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
    warm_requests: int = 0
    settled: bool = False
    memory_bytes: int = 0
    error: str | None = None
    out_of_memory: bool = False


class HostReady(Frozen):
    """Answer to `BuildOrder`, one entry per seat."""

    kind: Literal["ready"] = "ready"
    seats: tuple[SeatReady, ...]


class SeatTrial(Frozen):
    """One seat's part in a trial."""

    seat: int
    """Index within the host."""
    index: int
    """Index on the board."""
    capacity: int
    outstanding: int
    scheduled: int
    synchronised: bool
    tenant: str = ""
    """Who it is in this trial: a process may have been built for another tenant with the same workload."""


class TrialOrder(Frozen):
    """Serve this trial; all times are on the monotonic clock."""

    kind: Literal["trial"] = "trial"
    seats: int
    start_ns: int
    window_start_ns: int
    window_end_ns: int
    deadline_ns: int
    active: tuple[SeatTrial, ...]


class SeatResult(Frozen):
    """How a seat's trial ended."""

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
    memory_bytes: int
    observed: Mapping[str, Any]


class HostResult(Frozen):
    """Answer to `TrialOrder`."""

    kind: Literal["result"] = "result"
    seats: tuple[SeatResult, ...]
