"""Input events of the scheduler. Each carries its time in seconds, from a monotonic clock of the caller."""

from typing import NamedTuple, TypeAlias

from cotenant.scheduling.contract import Contract
from cotenant.scheduling.costs import TenantCosts

RequestId: TypeAlias = int | str


class Arrived(NamedTuple):
    """A request arrived.

    ``deadline``: time at which the client gives up; None: by the contract. ``scale``: cost of its chunks relative to a
    typical request (a longer prompt, more rows). ``steps``: maximum number of decode steps. ``cache_bytes``: memory it
    holds from its first chunk to its end; None: as much as a typical request.
    """

    time: float
    request: RequestId
    tenant: str
    deadline: float | None = None
    scale: float = 1.0
    steps: int | None = None
    priority: int = 0
    cache_bytes: int | None = None


class ChunkDone(NamedTuple):
    """A chunk ended.

    ``began`` and ``ended`` are the worker's times; ``started`` is the version it took from its queue at once, None if
    the queue was empty. ``finished`` names decoder requests that ended early.
    """

    time: float
    version: int
    began: float
    ended: float
    started: int | None = None
    finished: tuple[RequestId, ...] = ()
    slot: int = 0


class ChunkLost(NamedTuple):
    """The worker died or hung: the running and the queued chunk will never end."""

    time: float
    version: int
    slot: int = 0


class Cancelled(NamedTuple):
    """The client disconnected."""

    time: float
    request: RequestId


class TenantAdded(NamedTuple):
    """A tenant joins, or gets a new contract and costs; its waiting requests stay."""

    time: float
    contract: Contract
    costs: TenantCosts


class TenantRemoved(NamedTuple):
    """A tenant leaves at once; its requests are shed."""

    time: float
    tenant: str


class TenantPaused(NamedTuple):
    """A tenant can't be served for now, probably for ``retry_after_s`` from now on.

    ``drain``: accepted requests are still served, new ones are shed.
    """

    time: float
    tenant: str
    retry_after_s: float = 1.0
    drain: bool = False


class TenantResumed(NamedTuple):
    """A paused tenant can be served again."""

    time: float
    tenant: str


class Tick(NamedTuple):
    """Time passed; see ``DeviceScheduler.wake_at``."""

    time: float


Event: TypeAlias = (
    Arrived | ChunkDone | ChunkLost | Cancelled | TenantAdded | TenantRemoved | TenantPaused | TenantResumed | Tick
)
