"""Interface of a policy: which requests conform, what is shed, which jobs go next. The scheduler does the rest."""

from typing import NamedTuple, Protocol

from cotenant.scheduling.job import Job
from cotenant.scheduling.tenant import TenantState


class PolicyChoice(NamedTuple):
    """Jobs that run their next chunk together, the reason, and the number of waiting jobs planned."""

    jobs: list[Job]
    why: str
    planned: int


class Policy(Protocol):
    """A policy for the work of a device."""

    @property
    def sheds(self) -> bool:
        """Whether requests that can no longer be in time are shed."""

    @property
    def guarantees(self) -> bool:
        """Whether conforming requests are limited by the tenant's account."""

    def conforms(self, tenant: TenantState, cost_s: float, now: float) -> bool:
        """Whether a new request is within its tenant's contract."""

    def choose(self, jobs: list[Job], begin: float) -> PolicyChoice:
        """The next chunk, starting at ``begin``, from a non-empty list of jobs in order of due times."""


# --- baseline policies: first come first served, and earliest deadline first with and without chunks


class FirstCome:
    """In order of arrival, each request to completion, nothing shed."""

    sheds = False
    guarantees = False

    def conforms(self, tenant: TenantState, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Every request conforms."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> PolicyChoice:  # noqa: ARG002
        """The running job, else the oldest."""
        return PolicyChoice([min(jobs, key=lambda job: (not job.begun, job.order))], "first come", 1)


class EarliestDeadline:
    """Earliest deadline first; late requests are shed. ``chunks``: decide again after each chunk."""

    sheds = True
    guarantees = False

    def __init__(self, *, chunks: bool) -> None:
        self._chunks = chunks

    def conforms(self, tenant: TenantState, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Every request conforms."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> PolicyChoice:  # noqa: ARG002
        """The running job if jobs run to completion, else the job due first."""
        if not self._chunks:
            for job in jobs:
                if job.begun:
                    return PolicyChoice([job], "running", 1)
        return PolicyChoice([jobs[0]], "earliest deadline", 1)
