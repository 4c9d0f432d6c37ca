"""Simple policies to compare with: first come first served, and earliest deadline first with and without chunks."""

from cotenant.scheduling.job import Job
from cotenant.scheduling.policy import Choice
from cotenant.scheduling.tenant import Tenant


class FirstCome:
    """In order of arrival, each request to its end, nothing shed."""

    sheds = False
    guarantees = False

    def conforms(self, tenant: Tenant, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Everybody does."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> Choice:  # noqa: ARG002
        """The job under way, else the oldest."""
        return Choice([min(jobs, key=lambda job: (not job.begun, job.order))], "first come", 1)


class EarliestDeadline:
    """The earliest deadline first; what can't be in time is shed. ``chunks``: decide again after each chunk."""

    sheds = True
    guarantees = False

    def __init__(self, *, chunks: bool) -> None:
        self._chunks = chunks

    def conforms(self, tenant: Tenant, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Everybody does."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> Choice:  # noqa: ARG002
        """The job under way if jobs run to their end, else the one that is due first."""
        if not self._chunks:
            for job in jobs:
                if job.begun:
                    return Choice([job], "under way", 1)
        return Choice([jobs[0]], "earliest deadline", 1)
