"""Memory for the caches of decoders: part of a tenant's share, like the device's time."""

from cotenant.scheduling.job import Job, Request
from cotenant.scheduling.roster import Roster
from cotenant.scheduling.tenant import Tenant


class Caches:
    """Decides which requests may take memory. A request holds its memory from its first chunk until its end.

    A tenant's part of the memory is its share among the tenants that use any. What others don't use is lent, except
    for room for one typical request of each, so that a tenant within its part never waits for all borrowers to end.
    """

    def __init__(self, total: int | None, roster: Roster) -> None:
        self.total = total
        self._roster = roster

    def holds(self, request: Request) -> bool:
        """Whether all of the memory would do for a request."""
        return self.total is None or request.cache_bytes <= self.total

    def fits(self, job: Job) -> bool:
        """Whether a job may start, or has."""
        if self.total is None or job.begun:
            return True
        need = sum([request.cache_bytes for request in job.members])
        return not need or self._room(job.tenant, need, self.total)

    def hold(self, job: Job) -> None:
        """A job starts."""
        for request in job.members:
            request.holds = True
            job.tenant.held_bytes += request.cache_bytes

    def held(self) -> int:
        """Memory in use."""
        return sum(tenant.held_bytes for tenant in self._roster.tenants.values())

    def _room(self, tenant: Tenant, need: int, total: int) -> bool:
        held = self.held()
        if not held:
            return need <= total
        if held + need > total:
            return False
        users = [one for one in self._roster.tenants.values() if one.estimate.costs.cache_bytes]
        rates = sum(one.rate for one in users)
        kept = 0.0
        for one in users:
            part = total * one.rate / rates if rates > 0 else 0.0
            if one is not tenant:
                kept += min(max(0.0, part - one.held_bytes), one.estimate.costs.cache_bytes)
            elif one.held_bytes + need <= part:
                return True
        return held + need + kept <= total
