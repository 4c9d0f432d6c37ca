"""One place on the device where chunks run: the chunk under way, and those queued behind it."""

from cotenant.scheduling.instructions import Chunk
from cotenant.scheduling.job import Job


class Offer:
    """A chunk that was handed out, the jobs that it advances, and the size and batch its cost was reckoned with."""

    __slots__ = ("batch", "chunk", "jobs", "scale")

    def __init__(self, chunk: Chunk, jobs: list[Job], scale: float, batch: int) -> None:
        self.chunk = chunk
        self.jobs = jobs
        self.scale = scale
        self.batch = batch

    def matches(self, jobs: list[Job], stage: int, steps: int) -> bool:
        """Whether it is the same work, so that nothing has to be sent again."""
        chunk = self.chunk
        return (
            chunk.stage == stage
            and chunk.steps == steps
            and self.jobs == jobs
            and len(chunk.requests) == sum([len(job.members) for job in jobs])
        )


class Slot:
    """The state of one slot."""

    __slots__ = ("expected_end", "index", "last_end", "offers", "queued", "running")

    def __init__(self, index: int) -> None:
        self.index = index
        self.last_end = float("-inf")
        self.expected_end = 0.0
        self.running: Offer | None = None
        self.queued: Offer | None = None
        self.offers: dict[int, Offer] = {}
        """All chunks queued behind the running one, by version: a late message may have left an older one in place."""

    def run(self, offer: Offer, at: float) -> None:
        """A chunk begins; what was queued behind the one before it is void."""
        self.running = offer
        self.expected_end = at + offer.chunk.predicted_s
        self._forget_queued()

    def end(self) -> None:
        """The chunk under way is over, or lost with what was queued behind it."""
        self.running = None
        self._forget_queued()

    def _forget_queued(self) -> None:
        self.queued = None
        self.offers.clear()

    def free_at(self, now: float) -> float:
        """When the chunk under way is expected to end; now if the slot is idle or the chunk is overdue."""
        return max(now, self.expected_end) if self.running else now

    def held(self) -> list[Job]:
        """The jobs that run here or may start here; they can't run elsewhere."""
        offers = [*self.offers.values(), *([self.running] if self.running else [])]
        return [job for offer in offers for job in offer.jobs]
