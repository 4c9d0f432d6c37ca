"""Output of the scheduler: chunks for the worker, and exactly one completion for every request."""

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from cotenant.scheduling.events import RequestId


class Chunk(NamedTuple):
    """A piece of work: the ``stage``-th chunk of the requests, run together, or ``steps`` decode steps if above 0.

    Versions increase with every chunk issued and are never reused.
    """

    version: int
    slot: int
    tenant: str
    requests: tuple[RequestId, ...]
    stage: int
    steps: int
    predicted_s: float


class Start(NamedTuple):
    """Run this chunk now: the slot is idle."""

    chunk: Chunk


class QueueAhead(NamedTuple):
    """Run this chunk when version ``after`` ends, in place of any chunk queued before; None: run nothing.

    The newest wins. A worker drops it if it isn't running ``after``: the message came too late.
    """

    after: int
    chunk: Chunk | None
    slot: int


class Why(StrEnum):
    """Why a request was shed."""

    OVER_SHARE = "over share"
    DEVICE_FULL = "device full"
    TOO_LARGE = "too large"
    PAUSED = "paused"
    REMOVED = "removed"
    WORKER_LOST = "worker lost"
    UNKNOWN_TENANT = "unknown tenant"


class Shed(NamedTuple):
    """The request won't be served; a worker that has started it (``begun``) frees its resources."""

    request: RequestId
    tenant: str
    why: Why
    retry_after_s: float | None
    predicted_wait_s: float
    begun: bool


class Done(NamedTuple):
    """The request was served; ``met``: within its deadline. ``device_s``: its share of the device time."""

    request: RequestId
    tenant: str
    met: bool
    latency_s: float
    device_s: float


class Dropped(NamedTuple):
    """The cancelled request is gone; a worker that has started it (``begun``) frees its resources."""

    request: RequestId
    tenant: str
    begun: bool


Instruction: TypeAlias = Start | QueueAhead | Shed | Done | Dropped
