"""One place on the device where chunks run: the chunk under way, and those queued behind it."""

from cotenant.scheduling.instructions import Chunk
from cotenant.scheduling.job import Job


class Offer:
    """A chunk that was handed out, with the jobs that it advances."""

    __slots__ = ("chunk", "jobs", "scale")

    def __init__(self, chunk: Chunk, jobs: list[Job], scale: float) -> None:
        self.chunk = chunk
        self.jobs = jobs
        self.scale = scale

    def matches(self, jobs: list[Job], stage: int, steps: int) -> bool:
        """Whether it is the same work, so that nothing has to be sent again."""
        chunk = self.chunk
        return (
            chunk.index == stage
            and chunk.steps == steps
            and self.jobs == jobs
            and len(chunk.requests) == sum(len(job.members) for job in jobs)
        )


class Slot:
    """The state of one slot."""

    __slots__ = ("expected_end", "index", "last_end", "offers", "queued", "running")

    def __init__(self, index: int) -> None:
        self.index = index
        self.last_end = float("-inf")
        self.clear()

    def clear(self) -> None:
        """Forget what runs and what is queued."""
        self.expected_end = 0.0
        self.running: Offer | None = None
        self.queued: Offer | None = None
        self.offers: dict[int, Offer] = {}
        """All chunks queued behind the running one, by version: a late message may have left an older one in place."""

    def held(self) -> list[Job]:
        """The jobs that run here or may start here; they can't run elsewhere."""
        offers = [*self.offers.values(), *([self.running] if self.running else [])]
        return [job for offer in offers for job in offer.jobs]
