"""What a policy decides: who conforms, what is shed, and which jobs go next. The scheduler does everything else."""

from typing import NamedTuple, Protocol

from cotenant.scheduling.job import Job
from cotenant.scheduling.tenant import Tenant


class Choice(NamedTuple):
    """Jobs that run their next chunk together, why they were chosen, and how many of those waiting are planned."""

    jobs: list[Job]
    why: str
    planned: int


class Policy(Protocol):
    """An order for the work of one device."""

    @property
    def sheds(self) -> bool:
        """Whether requests that can't be in time any more are shed."""

    @property
    def guarantees(self) -> bool:
        """Whether conforming requests are bounded by the tenant's account."""

    def conforms(self, tenant: Tenant, cost_s: float, now: float) -> bool:
        """Whether a new request is within what its tenant was promised."""

    def choose(self, jobs: list[Job], begin: float) -> Choice:
        """The next chunk, to begin at ``begin``, from jobs in order of due times; there is at least one."""
