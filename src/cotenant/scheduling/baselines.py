"""Baseline policies: first come first served, and earliest deadline first with and without chunks."""

from cotenant.scheduling.job import Job
from cotenant.scheduling.policy import Choice
from cotenant.scheduling.tenant import Tenant


class FirstCome:
    """In order of arrival, each request to completion, nothing shed."""

    sheds = False
    guarantees = False

    def conforms(self, tenant: Tenant, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Every request conforms."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> Choice:  # noqa: ARG002
        """The running job, else the oldest."""
        return Choice([min(jobs, key=lambda job: (not job.begun, job.order))], "first come", 1)


class EarliestDeadline:
    """Earliest deadline first; late requests are shed. ``chunks``: decide again after each chunk."""

    sheds = True
    guarantees = False

    def __init__(self, *, chunks: bool) -> None:
        self._chunks = chunks

    def conforms(self, tenant: Tenant, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Every request conforms."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> Choice:  # noqa: ARG002
        """The running job if jobs run to completion, else the one due first."""
        if not self._chunks:
            for job in jobs:
                if job.begun:
                    return Choice([job], "running", 1)
        return Choice([jobs[0]], "earliest deadline", 1)
