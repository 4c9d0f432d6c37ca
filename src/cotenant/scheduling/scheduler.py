"""The scheduler of one device: events in, instructions out. It never looks at a clock, and the same events give the same
instructions.
"""

from bisect import insort
from collections.abc import Callable, Iterable
from typing import Any

from cotenant.errors import SchedulingError
from cotenant.scheduling.contract import Contract, settle_shares
from cotenant.scheduling.correction import DeviceSpeed
from cotenant.scheduling.costs import TenantCosts
from cotenant.scheduling.decisions import Decision, DecisionLog
from cotenant.scheduling.events import (
    Arrived,
    Cancelled,
    ChunkDone,
    ChunkLost,
    Event,
    RequestId,
    TenantAdded,
    TenantPaused,
    TenantRemoved,
    TenantResumed,
    Tick,
)  # fmt: skip
from cotenant.scheduling.instructions import Chunk, Done, Dropped, Instruction, QueueAhead, Shed, Start, Why
from cotenant.scheduling.job import Job, Request
from cotenant.scheduling.policy import Choice, Policy
from cotenant.scheduling.settings import Settings
from cotenant.scheduling.slack_stealing import SlackStealing
from cotenant.scheduling.slot import Offer, Slot
from cotenant.scheduling.tenant import Tenant


def _order(job: Job) -> tuple[float, int]:
    return job.due, job.order


class Scheduler:
    """Orders the requests of all tenants of one device.

    Feed it every event with ``handle`` and carry out what it returns, in order. Every request that arrives is answered
    exactly once: by a ``Done``, a ``Shed`` or, if it was cancelled, a ``Dropped``.
    """

    def __init__(
        self,
        tenants: Iterable[tuple[Contract, TenantCosts]],
        settings: Settings | None = None,
        policy: Policy | None = None,
        *,
        now: float = 0.0,
    ) -> None:
        self.settings = settings or Settings()
        self.speed = DeviceSpeed()
        self.tenants: dict[str, Tenant] = {}
        self.policy = policy or SlackStealing(self.settings, self.tenants)
        self.log = DecisionLog(self.settings.log_every, self.settings.log_length)
        self._slots = [Slot(index) for index in range(self.settings.slots)]
        self._waiting: list[Job] = []
        self._jobs: dict[RequestId, tuple[Job, Request]] = {}
        self._versions = 0
        self._arrivals = 0
        self._out: list[Instruction] = []
        for contract, costs in tenants:
            if contract.tenant in self.tenants:
                raise SchedulingError(
                    f"Tenant {contract.tenant} has two contracts.", hint="Give each tenant its own name."
                )
            self._agree(contract, costs, now)
        self._settle()
        self._handlers: dict[type, Callable[[Any], None]] = {
            Arrived: self._arrived,
            ChunkDone: self._chunk_done,
            ChunkLost: self._chunk_lost,
            Cancelled: self._cancelled,
            TenantAdded: self._tenant_added,
            TenantRemoved: self._tenant_removed,
            TenantPaused: self._tenant_paused,
            TenantResumed: self._tenant_resumed,
            Tick: self._tick,
        }

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event in; what to do now, in order."""
        self._handlers[type(event)](event)
        self._decide(event.time)
        out, self._out = self._out, []
        return out

    def wake_at(self) -> float | None:
        """When a ``Tick`` would find a waiting request that can't be in time any more; None if none waits."""
        if not self.policy.sheds:
            return None
        return min((job.deadline - job.rest_s for job in self._waiting if not job.late), default=None)

    @property
    def unanswered(self) -> int:
        """How many requests came in and haven't been answered yet."""
        return len(self._jobs)

    def predicted_wait_s(self, now: float, due: float) -> float:
        """How long a request due at ``due`` would wait for work that is ahead of it."""
        free = min(max(slot.expected_end, now) if slot.running else now for slot in self._slots)
        return free - now + sum(job.rest_s for job in self._waiting if job.due <= due) / self.settings.slots

    # Events

    def _arrived(self, event: Arrived) -> None:
        if event.request in self._jobs:
            raise SchedulingError(f"Request {event.request} arrived twice.")
        now = event.time
        tenant = self.tenants.get(event.tenant)
        if tenant is None:
            self._refuse(event, Why.UNKNOWN_TENANT, None, now)
            return
        if tenant.paused_retry_s is not None:
            self._refuse(event, Why.PAUSED, tenant.paused_retry_s, now)
            return
        steps = (event.steps or tenant.estimate.costs.steps) if tenant.decodes else 0
        promised = now + tenant.objective_s
        deadline = promised if event.deadline is None else event.deadline
        request = Request(event.request, now, max(promised, deadline), deadline, event.scale, steps, event.priority)
        request.cost_s = cost_s = tenant.estimate.request_s(event.scale, steps)
        if self.policy.sheds and tenant.contract.hard and now + cost_s > request.due:
            self._refuse(event, Why.TOO_LARGE, None, now)
            return
        request.conforming = self.policy.conforms(tenant, cost_s, now)
        if request.conforming:
            tenant.offer(cost_s, now)
        if self.policy.sheds and tenant.backlog_s > self.settings.backlog * tenant.objective_s * self.settings.slots:
            self._refuse(event, Why.OVER_SHARE, self._retry_after(tenant, request, now), now)
            return
        self._arrivals += 1
        job = Job(tenant, request, self._arrivals)
        job.reckon()
        tenant.backlog_s += cost_s
        self._jobs[request.id] = (job, request)
        insort(self._waiting, job, key=_order)

    def _chunk_done(self, event: ChunkDone) -> None:
        slot = self._slots[event.slot]
        offer = slot.running
        if offer is None or offer.chunk.version != event.version:
            raise SchedulingError(f"Chunk version {event.version} ended, but it wasn't running.")
        chunk = offer.chunk
        took = event.ended - event.began
        spaced = event.began - slot.last_end > self.settings.gap_s
        if offer.jobs:
            leader = offer.jobs[0]
            batch = len(offer.jobs) if chunk.steps else leader.batch
            leader.tenant.estimate.see(chunk.index, chunk.steps, batch, offer.scale, took, spaced=spaced)
        slot.last_end = event.ended
        slot.running = None
        each = took / max(1, len(chunk.requests))
        for job in offer.jobs:
            job.running = None
            for request in tuple(job.members):
                request.device_s += each
                if job.ended or request.id in event.finished:
                    self._finish(job, request, event.ended)
        if event.started is not None:
            taken = slot.offers.get(event.started)
            if taken is None:
                raise SchedulingError(f"Chunk version {event.started} was started, but it wasn't queued.")
            self._begin(slot, taken, event.ended)
        slot.offers.clear()
        slot.queued = None

    def _chunk_lost(self, event: ChunkLost) -> None:
        slot = self._slots[event.slot]
        offer = slot.running
        if offer is None or offer.chunk.version != event.version:
            return
        slot.clear()
        for job in offer.jobs:
            job.running = None
            for request in tuple(job.members):
                self._shed(job, request, Why.WORKER_LOST, event.time, retry_after_s=job.tenant.paused_retry_s or 1.0)

    def _cancelled(self, event: Cancelled) -> None:
        found = self._jobs.pop(event.request, None)
        if found is None:
            return
        job, request = found
        self._out.append(Dropped(request.id, job.tenant.name, job.begun))
        self._remove(job, request)

    def _tenant_added(self, event: TenantAdded) -> None:
        self._agree(event.contract, event.costs, event.time)
        self._settle()
        chunks = len(event.costs.chunks)
        for job in self._waiting:
            if job.tenant.name == event.contract.tenant and not job.begun:
                job.stages = chunks

    def _tenant_removed(self, event: TenantRemoved) -> None:
        tenant = self._named(event.tenant)
        self._shed_all(tenant, Why.REMOVED, None, event.time)
        del self.tenants[event.tenant]
        self._settle()

    def _tenant_paused(self, event: TenantPaused) -> None:
        tenant = self._named(event.tenant)
        tenant.paused_retry_s = event.retry_after_s
        if not event.drain:
            self._shed_all(tenant, Why.PAUSED, event.retry_after_s, event.time)

    def _tenant_resumed(self, event: TenantResumed) -> None:
        self._named(event.tenant).paused_retry_s = None

    def _tick(self, event: Tick) -> None:
        """Nothing but the decision that follows every event."""

    # Decisions

    def _decide(self, now: float) -> None:
        for slot in self._slots:
            if slot.running is None:
                offer = self._offer(slot, now, now)
                if offer is None:
                    continue
                self._out.append(Start(offer.chunk))
                self._begin(slot, offer, now)
            if self.settings.queue_ahead:
                self._queue_ahead(slot, now)

    def _queue_ahead(self, slot: Slot, now: float) -> None:
        assert slot.running is not None
        offer = self._offer(slot, now, max(now, slot.expected_end))
        queued = slot.queued
        if offer is queued:
            return
        slot.queued = offer
        if offer is not None:
            slot.offers[offer.chunk.version] = offer
        self._out.append(QueueAhead(slot.running.chunk.version, offer.chunk if offer else None, slot.index))

    def _offer(self, slot: Slot, now: float, begin: float) -> Offer | None:
        """The chunk that should go next on the slot; the queued one itself if it is still the best."""
        self._shed_hopeless(now, begin)
        jobs = self._waiting
        if self.settings.slots > 1:
            taken = {job for other in self._slots if other is not slot for job in other.held()}
            jobs = [job for job in jobs if job not in taken]
        if not jobs:
            return None
        choice = self.policy.choose(jobs, begin)
        leader = choice.jobs[0]
        tenant = leader.tenant
        decoding = leader.stage >= leader.stages
        batch = len(choice.jobs) if decoding or len(choice.jobs) > 1 else leader.batch
        steps = self._steps(choice.jobs, batch) if decoding else 0
        queued = slot.queued
        if queued is not None and queued.matches(choice.jobs, leader.stage, steps):
            return queued
        spaced = slot.running is None and begin - slot.last_end > self.settings.gap_s
        scale = max(job.scale for job in choice.jobs)
        predicted = tenant.estimate.chunk_s(leader.stage, steps, batch, scale, spaced=spaced)
        self._versions += 1
        requests = tuple(request.id for job in choice.jobs for request in job.members)
        chunk = Chunk(self._versions, slot.index, tenant.name, requests, leader.stage, steps, predicted)
        if self.log.due():
            self._keep(now, choice, chunk, begin)
        return Offer(chunk, choice.jobs, scale)

    def _begin(self, slot: Slot, offer: Offer, at: float) -> None:
        """Book a chunk as running. Requests that ended since it was queued are left out; the worker skips them too."""
        slot.running = offer
        slot.queued = None
        slot.offers.clear()
        slot.expected_end = at + offer.chunk.predicted_s
        jobs = [job for job in offer.jobs if job.members]
        chunk = offer.chunk
        if len(jobs) > 1 and not chunk.steps:
            leader = jobs[0]
            for job in jobs[1:]:
                leader.join(job)
                self._waiting.remove(job)
                for request in job.members:
                    self._jobs[request.id] = (leader, request)
            jobs = [leader]
            self._waiting.sort(key=_order)
        offer.jobs = jobs
        for job in jobs:
            job.begun = True
            job.running = slot.index
            if chunk.steps:
                job.steps -= chunk.steps
            else:
                job.stage += 1
            if job.ended:
                self._waiting.remove(job)

    def _steps(self, jobs: list[Job], batch: int) -> int:
        estimate = jobs[0].tenant.estimate
        one = estimate.chunk_s(0, 1, batch, 1.0, spaced=False)
        return max(1, min(int(self.quantum_s / one), min(job.steps for job in jobs)))

    def _shed_hopeless(self, now: float, begin: float) -> None:
        sheds = self.policy.sheds
        for job in tuple(self._waiting):
            job.reckon()
            if not sheds or job.late:
                if job.late and now > job.members[0].arrived + job.tenant.contract.patience * job.tenant.objective_s:
                    self._shed_members(job, Why.DEVICE_FULL, now)
                continue
            earliest = begin + 2 * job.rest_s - job.plan_s
            if earliest <= job.deadline:
                continue
            if not job.tenant.contract.hard:
                job.late = True
                continue
            for request in tuple(job.members):
                if earliest > request.deadline:
                    why = Why.DEVICE_FULL if request.conforming else Why.OVER_SHARE
                    self._shed(job, request, why, now)

    # Ends

    def _shed_members(self, job: Job, why: Why, now: float) -> None:
        for request in tuple(job.members):
            self._shed(job, request, why, now)

    def _shed_all(self, tenant: Tenant, why: Why, retry_after_s: float | None, now: float) -> None:
        for job, request in tuple(self._jobs.values()):
            if job.tenant is tenant:
                self._shed(job, request, why, now, retry_after_s=retry_after_s)

    def _shed(self, job: Job, request: Request, why: Why, now: float, *, retry_after_s: float | None = None) -> None:
        tenant = job.tenant
        if why in (Why.OVER_SHARE, Why.DEVICE_FULL):
            retry_after_s = self._retry_after(tenant, request, now)
        del self._jobs[request.id]
        self._remove(job, request)
        wait = self.predicted_wait_s(now, request.due)
        self._out.append(Shed(request.id, tenant.name, why, retry_after_s, wait, job.begun))
        self._log_shed(now, request.id, tenant.name, why)

    def _refuse(self, event: Arrived, why: Why, retry_after_s: float | None, now: float) -> None:
        wait = self.predicted_wait_s(now, event.deadline or now)
        self._out.append(Shed(event.request, event.tenant, why, retry_after_s, wait, begun=False))
        self._log_shed(now, event.request, event.tenant, why)

    def _finish(self, job: Job, request: Request, at: float) -> None:
        del self._jobs[request.id]
        met = at <= request.deadline
        if met and request.conforming:
            job.tenant.meet(at)
        self._out.append(Done(request.id, job.tenant.name, met, at - request.arrived, request.device_s))
        self._remove(job, request)

    def _remove(self, job: Job, request: Request) -> None:
        job.tenant.backlog_s -= request.cost_s
        due = job.due
        job.leave(request)
        if not job.members:
            if job in self._waiting:
                self._waiting.remove(job)
        elif job.due != due:
            self._waiting.sort(key=_order)

    def _retry_after(self, tenant: Tenant, request: Request, now: float) -> float:
        """When a request like this one is likely to be served in time."""
        if request.conforming:
            wait = self.predicted_wait_s(now, request.due)
            after = max(wait + request.cost_s - tenant.objective_s, request.cost_s)
        else:
            after = tenant.book_return(request.cost_s, now)
        return min(after, self.settings.longest_retry_s)

    # Tenants

    def _named(self, name: str) -> Tenant:
        if name not in self.tenants:
            raise SchedulingError(f"The device has no tenant {name}.", hint=f"It has {', '.join(self.tenants)}.")
        return self.tenants[name]

    def _agree(self, contract: Contract, costs: TenantCosts, now: float) -> None:
        if contract.hard and costs.total_s > contract.objective_s:
            raise SchedulingError(
                f"Tenant {contract.tenant}: the objective of {1e3 * contract.objective_s:g} ms is below what one request "
                f"takes alone ({1e3 * costs.total_s:.3g} ms).",
                hint="Raise the objective above that time, or make the contract soft.",
            )
        if contract.tenant in self.tenants:
            self.tenants[contract.tenant].agree(contract, costs, self.speed)
        else:
            self.tenants[contract.tenant] = Tenant(contract, costs, self.speed, now)

    def _settle(self) -> None:
        settings = self.settings
        shares = settle_shares(tenant.contract for tenant in self.tenants.values())
        for tenant in self.tenants.values():
            tenant.grant(shares[tenant.name], settings.slots, settings.burst, settings.memory_s)
        slack = [tenant.objective_s - tenant.estimate.costs.total_s for tenant in self.tenants.values()]
        self.quantum_s = settings.quantum_s or max(min(slack, default=0.0) / 2, 1e-4)
        if isinstance(self.policy, SlackStealing):
            self.policy.quantum_s = self.quantum_s

    # Log

    def _keep(self, now: float, choice: Choice, chunk: Chunk, begin: float) -> None:
        leader = choice.jobs[0]
        spare = leader.due - begin - leader.rest_s
        record = Decision(
            now,
            "chunk",
            chunk.tenant,
            chunk.requests,
            choice.why,
            chunk.version,
            len(self._waiting),
            choice.planned,
            spare,
        )
        self.log.keep(record)

    def _log_shed(self, now: float, request: RequestId, tenant: str, why: Why) -> None:
        self.log.keep(Decision(now, "shed", tenant, (request,), why, None, len(self._waiting), 0, 0.0))
