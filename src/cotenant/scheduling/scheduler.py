"""The scheduler of a device: events in, instructions out. Deterministic."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from cotenant.errors import SchedulingError
from cotenant.scheduling.answers import EventAnswers
from cotenant.scheduling.contract import Contract, Settings
from cotenant.scheduling.costs import TenantCosts
from cotenant.scheduling.dispatch import Dispatcher
from cotenant.scheduling.events import (
    Arrived,
    Cancelled,
    ChunkDone,
    ChunkLost,
    Event,
    TenantAdded,
    TenantPaused,
    TenantRemoved,
    TenantResumed,
    Tick,
)
from cotenant.scheduling.instructions import Decision, DecisionLog, Instruction, Why
from cotenant.scheduling.job import Job, Request
from cotenant.scheduling.policy import Policy
from cotenant.scheduling.roster import Caches, Roster, TenantStanding, standings
from cotenant.scheduling.slack_stealing import SlackStealing
from cotenant.scheduling.slot import Slot
from cotenant.scheduling.tenant import TenantState
from cotenant.scheduling.waiting import Waiting


class DeviceScheduler:
    """Orders the requests of all tenants of a device.

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
        self.settings = settings = settings or Settings()
        self._roster = Roster(tenants, settings, now)
        self._policy = policy or SlackStealing(settings, self._roster)
        self._log = DecisionLog(settings.log_every, settings.log_length)
        self._slots = [Slot(index) for index in range(settings.slots)]
        self._waiting = Waiting()
        self._answers = EventAnswers(settings, self._waiting, self._slots, self._log)
        self._caches = Caches(settings.cache_bytes, self._roster)
        self._dispatcher = Dispatcher(
            settings,
            self._policy,
            roster=self._roster,
            waiting=self._waiting,
            slots=self._slots,
            answers=self._answers,
            log=self._log,
            caches=self._caches,
        )
        self._arrivals = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            Arrived: self._arrived,
            ChunkDone: self._chunk_done,
            ChunkLost: self._chunk_lost,
            Cancelled: self._cancelled,
            TenantAdded: self._tenant_added,
            TenantRemoved: self._tenant_removed,
            TenantPaused: self._tenant_paused,
            TenantResumed: self._tenant_resumed,
        }

    def handle(self, event: Event) -> list[Instruction]:
        """Process an event and return the instructions to carry out, in order."""
        if type(event) is not Tick:
            self._handlers[type(event)](event)
        self._dispatcher.decide(event.time)
        out, self._answers.out = self._answers.out, []
        return out

    def wake_at(self) -> float | None:
        """When a ``Tick`` would first find a waiting request that can no longer be in time; None if none waits."""
        if not self._waiting or not self._policy.sheds:
            return None
        return min([job.deadline - job.rest_s for job in self._waiting.view() if not job.late], default=None)

    def predicted_wait_s(self, tenant: str, now: float) -> float:
        """Expected wait of a request of the tenant arriving now."""
        return self._answers.wait_s(now, now + self._roster.named(tenant).objective_s)

    def standings(self, now: float) -> list[TenantStanding]:
        """Each tenant's account, recent attainment and corrected cost, for metrics and explanations."""
        return standings(self._roster, now)

    def decisions(self) -> tuple[Decision, ...]:
        """The decision log, oldest first: every refusal, and one in ``settings.log_every`` other decisions."""
        return self._log.records()

    @property
    def cache_use(self) -> float | None:
        """Used part of the memory for caches; None if it is unlimited."""
        total = self._caches.total
        return None if total is None else self._caches.held() / total

    @property
    def unanswered(self) -> int:
        """Number of requests not answered yet."""
        return len(self._answers)

    @property
    def speed(self) -> float:
        """Current ratio of chunk times to predictions."""
        return self._roster.speed.pace

    def _arrived(self, event: Arrived) -> None:
        self._answers.check_new(event.request)
        now = event.time
        tenant = self._roster.tenants.get(event.tenant)
        if tenant is None:
            self._answers.refuse(event, Why.UNKNOWN_TENANT)
            return
        paused_s = tenant.paused_for_s(now)
        if paused_s is not None:
            self._answers.refuse(event, Why.PAUSED, min(paused_s, self.settings.longest_retry_s))
            return
        self._fade_if_idle(now)
        costs = tenant.estimate.costs
        steps = (event.steps or costs.steps) if costs.step else 0
        request = Request(event, tenant.contract, steps, self.settings.way_s)
        request.cost_s = cost_s = tenant.estimate.request_s(event.scale, steps)
        sheds = self._policy.sheds
        if event.cache_bytes is None:
            request.cache_bytes = costs.cache_bytes
        too_long = sheds and tenant.contract.hard and now + cost_s > request.deadline
        if too_long or not self._caches.holds(request):
            self._answers.refuse(event, Why.TOO_LARGE)
            return
        request.conforming = self._policy.conforms(tenant, cost_s, now)
        if request.conforming:
            tenant.offer(cost_s, now)
        else:
            tenant.exceed(cost_s, now)
        bounded = request.conforming and self._policy.guarantees
        room_s = self.settings.backlog * tenant.objective_s * self.settings.slots
        if sheds and not bounded and tenant.backlog_s > room_s:
            why = Why.DEVICE_FULL if request.conforming else Why.OVER_SHARE
            self._answers.refuse(event, why, self._answers.retry_after_s(tenant, request, now))
            return
        if bounded:
            self._cover_started(tenant, request)
        self._arrivals += 1
        job = Job(tenant, request, self._arrivals)
        job.reckon()
        tenant.backlog_s += cost_s
        self._answers.expect(job, request)
        self._waiting.add(job)

    def _cover_started(self, tenant: TenantState, request: Request) -> None:
        """Let a request that began beyond its tenant's share conform instead of a new request that costs more.

        Otherwise the tenant's own newcomers would displace what it has begun, and waste the time already spent.
        """
        job = self._waiting.begun_beyond(tenant, request.cost_s)
        if job is not None:
            self._waiting.remove(job)
            job.cover()
            self._waiting.add(job)
            request.conforming = False

    def _fade_if_idle(self, now: float) -> None:
        last = -math.inf
        for slot in self._slots:
            if slot.running is not None:
                return
            last = max(last, slot.last_end)
        self._roster.speed.fade(last, now)

    def _chunk_done(self, event: ChunkDone) -> None:
        slot = self._slots[event.slot]
        offer = slot.running
        if offer is None or offer.chunk.version != event.version:
            raise SchedulingError(f"Chunk version {event.version} ended, but it wasn't running.")
        if event.started is not None and event.started not in slot.offers:
            raise SchedulingError(f"Chunk version {event.started} was started, but it wasn't queued.")
        chunk = offer.chunk
        took = event.ended - event.began
        if offer.jobs:
            spaced = event.began - slot.last_end > self.settings.gap_s
            estimate = offer.jobs[0].estimate
            estimate.see(
                chunk.stage, chunk.steps, offer.batch, offer.scale, began=event.began, ended=event.ended, spaced=spaced
            )
        slot.last_end = event.ended
        each = took / len(chunk.requests)
        for job in offer.jobs:
            ended = job.ended
            for request in tuple(job.members):
                request.device_s += each
                if ended or request.id in event.finished:
                    self._answers.finish(job, request, event.ended)
        if event.started is None:
            slot.end()
        else:
            self._dispatcher.take_queued(slot, event.started, event.ended)

    def _chunk_lost(self, event: ChunkLost) -> None:
        slot = self._slots[event.slot]
        offer = slot.running
        if offer is None or offer.chunk.version != event.version:
            return
        slot.end()
        for job in offer.jobs:
            retry = job.tenant.paused_for_s(event.time) or job.tenant.objective_s
            for request in tuple(job.members):
                self._answers.shed(job, request, Why.WORKER_LOST, event.time, retry)

    def _cancelled(self, event: Cancelled) -> None:
        self._answers.drop(event.request)

    def _tenant_added(self, event: TenantAdded) -> None:
        self._roster.add(event.contract, event.costs, event.time)

    def _tenant_removed(self, event: TenantRemoved) -> None:
        self._answers.shed_all(self._roster.named(event.tenant), Why.REMOVED, event.time, None)
        self._roster.remove(event.tenant)

    def _tenant_paused(self, event: TenantPaused) -> None:
        tenant = self._roster.named(event.tenant)
        tenant.pause(event.retry_after_s, event.time)
        if not event.drain:
            self._answers.shed_all(tenant, Why.PAUSED, event.time, event.retry_after_s)

    def _tenant_resumed(self, event: TenantResumed) -> None:
        self._roster.named(event.tenant).resume()
