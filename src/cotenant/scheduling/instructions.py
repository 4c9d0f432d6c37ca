"""Output of the scheduler: chunks for the worker, and exactly one completion per request."""

from collections import deque
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


class StartChunk(NamedTuple):
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
    """The request was served; ``met``: its work ended by the deadline. ``device_s``: its share of the device time."""

    request: RequestId
    tenant: str
    met: bool
    latency_s: float
    device_s: float
    deadline: float


class Dropped(NamedTuple):
    """The cancelled request is gone; a worker that has started it (``begun``) frees its resources."""

    request: RequestId
    tenant: str
    begun: bool


Instruction: TypeAlias = StartChunk | QueueAhead | Shed | Done | Dropped


# --- the decision log: a bounded, sampled list of self-explanatory records


class Decision(NamedTuple):
    """A decision: what was chosen or refused, why, and the alternatives."""

    time: float
    kind: str
    tenant: str
    requests: tuple[RequestId, ...]
    why: str
    version: int | None
    waiting: int
    planned: int
    slack_s: float

    def explain(self) -> str:
        """The decision as a sentence."""
        names = ", ".join(str(request) for request in self.requests)
        if self.kind == "shed":
            return (
                f"At {self.time:.4f} s request {names} of {self.tenant} was shed ({self.why}); {self.waiting} waited."
            )
        return (
            f"At {self.time:.4f} s {self.tenant} ({names}) was chosen ({self.why}) as version {self.version}, with "
            f"{1e3 * self.slack_s:.1f} ms to spare; {self.planned} of {self.waiting} waiting jobs were planned."
        )


class DecisionLog:
    """Keeps every refusal and one in ``every`` other decisions, the latest ``length`` of them."""

    def __init__(self, every: int, length: int) -> None:
        self._every = every
        self._records: deque[Decision] = deque(maxlen=length)
        self.seen = 0

    def due(self) -> bool:
        """Count a decision; return whether to keep it."""
        self.seen += 1
        return self.seen % self._every == 0

    def keep(self, decision: Decision) -> None:
        """Put a decision in the log."""
        self._records.append(decision)

    def records(self) -> tuple[Decision, ...]:
        """The kept decisions, oldest first."""
        return tuple(self._records)
