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
