"""A slot of the device: the running chunk, and those queued behind it."""

from cotenant.scheduling.instructions import Chunk
from cotenant.scheduling.job import Job


class Offer:
    """An issued chunk, the jobs it advances, and the size and batch of its cost estimate."""

    __slots__ = ("batch", "chunk", "jobs", "scale")

    def __init__(self, chunk: Chunk, jobs: list[Job], scale: float, batch: int) -> None:
        self.chunk = chunk
        self.jobs = jobs
        self.scale = scale
        self.batch = batch

    def matches(self, jobs: list[Job], stage: int, steps: int) -> bool:
        """Whether it is the same work, so that nothing must be resent."""
        chunk = self.chunk
        return (
            chunk.stage == stage
            and chunk.steps == steps
            and self.jobs == jobs
            and len(chunk.requests) == sum([len(job.members) for job in jobs])
        )


class Slot:
    """The state of a slot."""

    __slots__ = ("expected_end", "index", "last_end", "offers", "queued", "running")

    def __init__(self, index: int) -> None:
        self.index = index
        self.last_end = float("-inf")
        self.expected_end = 0.0
        self.running: Offer | None = None
        self.queued: Offer | None = None
        self.offers: dict[int, Offer] = {}
        """All chunks queued behind the running chunk, by version: a late message may leave an older chunk queued."""

    def run(self, offer: Offer, at: float) -> None:
        """A chunk begins; chunks queued behind its predecessor are void."""
        self.running = offer
        self.expected_end = at + offer.chunk.predicted_s
        self._forget_queued()

    def end(self) -> None:
        """The running chunk ended, or was lost with its queue."""
        self.running = None
        self._forget_queued()

    def _forget_queued(self) -> None:
        self.queued = None
        self.offers.clear()

    def free_at(self, now: float) -> float:
        """Expected end of the running chunk; now if the slot is idle or the chunk is overdue."""
        return max(now, self.expected_end) if self.running else now

    def held(self) -> list[Job]:
        """The jobs that run or may start here, and so can't run elsewhere."""
        offers = [*self.offers.values(), *([self.running] if self.running else [])]
        return [job for offer in offers for job in offer.jobs]
