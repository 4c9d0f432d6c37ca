"""Completion of requests: each is answered once, and every refusal states the reason and when to retry."""

from cotenant.errors import SchedulingError
from cotenant.scheduling.contract import Settings
from cotenant.scheduling.events import Arrived, RequestId
from cotenant.scheduling.instructions import Decision, DecisionLog, Done, Dropped, Instruction, Shed, Why
from cotenant.scheduling.job import Job, Request
from cotenant.scheduling.slot import Slot
from cotenant.scheduling.tenant import TenantState
from cotenant.scheduling.waiting import Waiting


class EventAnswers:
    """Unanswered requests, and the instructions that answer them."""

    def __init__(self, settings: Settings, waiting: Waiting, slots: list[Slot], log: DecisionLog) -> None:
        self._settings = settings
        self._waiting = waiting
        self._slots = slots
        self._log = log
        self._open: dict[RequestId, tuple[Job, Request]] = {}
        self.out: list[Instruction] = []

    def __len__(self) -> int:
        return len(self._open)

    def expect(self, job: Job, request: Request) -> None:
        """Register a request that was accepted or moved to another job."""
        self._open[request.id] = (job, request)

    def check_new(self, request: RequestId) -> None:
        """Raise if the request is still open."""
        if request in self._open:
            raise SchedulingError(f"Request {request} arrived twice.", hint="Give each request its own id.")

    def wait_s(self, now: float, due: float) -> float:
        """Expected wait of a request due at ``due`` for the work ahead of it."""
        free = min(slot.free_at(now) for slot in self._slots)
        return free - now + self._waiting.rest_before_s(due) / self._settings.slots

    def finish(self, job: Job, request: Request, at: float) -> None:
        """A request was served."""
        met = at <= request.deadline
        if met and request.conforming:
            job.tenant.meet(at)
        latency_s = at - request.arrived
        self.out.append(Done(request.id, job.tenant.name, met, latency_s, request.device_s, request.deadline))
        self._close(job, request)

    def drop(self, request_id: RequestId) -> None:
        """Drop a cancelled request; ignored if already answered."""
        if request_id in self._open:
            job, request = self._open[request_id]
            self.out.append(Dropped(request_id, job.tenant.name, job.begun))
            self._close(job, request)

    def shed(self, job: Job, request: Request, why: Why, now: float, retry_after_s: float | None = None) -> None:
        """Shed an accepted request."""
        if why in (Why.OVER_SHARE, Why.DEVICE_FULL):
            retry_after_s = self.retry_after_s(job.tenant, request, now)
        wait = self.wait_s(now, request.due)
        self.out.append(Shed(request.id, job.tenant.name, why, retry_after_s, wait, job.begun))
        self._note(now, request.id, job.tenant.name, why)
        self._close(job, request)

    def shed_all(self, tenant: TenantState, why: Why, now: float, retry_after_s: float | None) -> None:
        """Shed all requests of a tenant, running ones included."""
        for job, request in tuple(self._open.values()):
            if job.tenant is tenant:
                self.shed(job, request, why, now, retry_after_s)

    def refuse(self, event: Arrived, why: Why, retry_after_s: float | None = None) -> None:
        """Refuse a request on arrival."""
        wait = self.wait_s(event.time, event.time if event.deadline is None else event.deadline)
        self.out.append(Shed(event.request, event.tenant, why, retry_after_s, wait, begun=False))
        self._note(event.time, event.request, event.tenant, why)

    def retry_after_s(self, tenant: TenantState, request: Request, now: float) -> float:
        """Seconds after which such a request is likely to be served in time.

        Beyond the share: when the tenant's account will cover it, staggered so that refused requests don't all return
        at once. Within the share: when the work ahead leaves room before the deadline.
        """
        if request.conforming or tenant.rate <= 0:
            room = tenant.objective_s - request.cost_s
            after = max(self.wait_s(now, request.due) - room, request.cost_s)
        else:
            after = tenant.book_return(request.cost_s, now)
        return min(after, self._settings.longest_retry_s)

    def _close(self, job: Job, request: Request) -> None:
        del self._open[request.id]
        job.tenant.backlog_s -= request.cost_s
        if request.holds:
            job.tenant.held_bytes -= request.cache_bytes
        if job.block is None:
            job.leave(request)
            return
        self._waiting.remove(job)
        job.leave(request)
        if job.members:
            self._waiting.add(job)

    def _note(self, now: float, request: RequestId, tenant: str, why: Why) -> None:
        self._log.keep(Decision(now, "shed", tenant, (request,), why, None, len(self._waiting), 0, 0.0))
