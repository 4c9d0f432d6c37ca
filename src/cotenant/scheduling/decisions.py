"""The decision log: a bounded, sampled list of self-explanatory records."""

from collections import deque
from typing import NamedTuple

from cotenant.scheduling.events import RequestId


class Decision(NamedTuple):
    """One decision: what was chosen or refused, why, and the alternatives."""

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
