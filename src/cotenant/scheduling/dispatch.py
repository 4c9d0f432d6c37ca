"""Chunks for the worker: what starts now, what is queued behind it, and what can no longer be in time."""

from cotenant.errors import SchedulingError
from cotenant.scheduling.answers import EventAnswers
from cotenant.scheduling.contract import Settings
from cotenant.scheduling.instructions import Chunk, Decision, DecisionLog, QueueAhead, StartChunk, Why
from cotenant.scheduling.job import Job
from cotenant.scheduling.policy import Policy, PolicyChoice
from cotenant.scheduling.roster import Caches, Roster
from cotenant.scheduling.slot import Offer, Slot
from cotenant.scheduling.waiting import Waiting


class Dispatcher:
    """Keeps every slot busy with the policy's choices, a chunk ahead."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        *,
        roster: Roster,
        waiting: Waiting,
        slots: list[Slot],
        answers: EventAnswers,
        log: DecisionLog,
        caches: Caches,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._roster = roster
        self._waiting = waiting
        self._slots = slots
        self._answers = answers
        self._log = log
        self._caches = caches
        self._versions = 0

    def decide(self, now: float) -> None:
        """Give every idle slot a chunk, then every busy slot its next: nothing queues while a slot is idle."""
        for slot in self._slots:
            if slot.running is None and (offer := self._offer(slot, now, now)) is not None:
                self._answers.out.append(StartChunk(offer.chunk))
                self._begin(slot, offer, now)
        for slot in self._slots if self._settings.queue_ahead else ():
            if slot.running is not None and (self._waiting or slot.queued is not None):
                self._queue_ahead(slot, now)

    def take_queued(self, slot: Slot, version: int, at: float) -> None:
        """The worker started a queued chunk by itself."""
        taken = slot.offers.get(version)
        if taken is None:
            raise SchedulingError(f"Chunk version {version} was started, but it wasn't queued.")
        self._begin(slot, taken, at)

    def _queue_ahead(self, slot: Slot, now: float) -> None:
        assert slot.running is not None
        offer = self._offer(slot, now, slot.free_at(now))
        if offer is slot.queued:
            return
        slot.queued = offer
        if offer is not None:
            slot.offers[offer.chunk.version] = offer
        chunk = None if offer is None else offer.chunk
        self._answers.out.append(QueueAhead(slot.running.chunk.version, chunk, slot.index))

    def _offer(self, slot: Slot, now: float, begin: float) -> Offer | None:
        """The chunk to run next on the slot; the queued chunk if it is still the best."""
        if not self._waiting:
            return None
        jobs = self._timely(now, begin)
        if self._caches.total is not None:
            jobs = [job for job in jobs if self._caches.fits(job)]
        if len(self._slots) > 1:
            held = {job for other in self._slots if other is not slot for job in other.held()}
            jobs = [job for job in jobs if job not in held]
        if not jobs:
            return None
        choice = self._policy.choose(jobs, begin)
        together = choice.jobs
        leader = together[0]
        estimate, stage = leader.estimate, leader.stage
        batch = leader.batch if len(together) == 1 else len(together)
        steps = self._steps(together, batch) if stage >= leader.stages else 0
        if slot.queued is not None and slot.queued.matches(together, stage, steps):
            return slot.queued
        scale = leader.scale if batch == 1 else max(job.scale for job in together)
        spaced = slot.running is None and begin - slot.last_end > self._settings.gap_s
        predicted = estimate.chunk_s(stage, steps, batch, scale, spaced=spaced)
        self._versions += 1
        requests = tuple([request.id for job in together for request in job.members])
        chunk = Chunk(self._versions, slot.index, leader.tenant.name, requests, stage, steps, predicted)
        if self._log.due():
            self._keep(now, begin, choice, chunk)
        return Offer(chunk, together, scale, batch)

    def _timely(self, now: float, begin: float) -> list[Job]:
        """Jobs in view that can still be in time; otherwise, late ones of soft contracts."""
        timely, late = [], []
        sheds, stamp = self._policy.sheds, self._roster.speed.stamp
        for job in self._waiting.view():
            if job.stamp != stamp:
                job.reckon()
            earliest = begin + 2 * job.rest_s - job.plan_s  # about one in ten ends earlier
            if not sheds or (earliest <= job.deadline and not job.late):
                timely.append(job)
            elif job.tenant.contract.hard:
                for request in tuple(job.members):
                    if earliest > request.deadline - request.way_s:
                        why = Why.DEVICE_FULL if request.conforming else Why.OVER_SHARE
                        self._answers.shed(job, request, why, now)
                if job.members:
                    timely.append(job)
            elif now > job.due + (job.tenant.contract.patience - 1) * job.tenant.objective_s:
                for request in tuple(job.members):
                    self._answers.shed(job, request, Why.DEVICE_FULL, now)
            else:
                job.late = True
                late.append(job)
        return timely or late

    def _steps(self, jobs: list[Job], batch: int) -> int:
        """Decode steps per chunk, limited by the member that ends first."""
        step_s = jobs[0].estimate.chunk_s(0, 1, batch, 1.0, spaced=False)
        return max(1, min([int(self._roster.quantum_s / step_s), *[job.steps for job in jobs]]))

    def _begin(self, slot: Slot, offer: Offer, at: float) -> None:
        """Book a chunk as running. Requests that ended since it was queued are left out; the worker skips them too."""
        chunk = offer.chunk
        slot.run(offer, at)
        jobs = offer.jobs = [job for job in offer.jobs if job.members]
        if len(jobs) > 1 and not chunk.steps:
            jobs = offer.jobs = [self._merge(jobs)]
        for job in jobs:
            if not job.begun:
                self._caches.hold(job)
                self._waiting.begin(job)
            job.advance(chunk.steps)
            if job.stage >= job.stages and job.steps == 0:
                self._waiting.remove(job)

    def _merge(self, jobs: list[Job]) -> Job:
        for job in jobs:
            self._waiting.remove(job)
        leader = jobs[0]
        for job in jobs[1:]:
            leader.join(job)
        for request in leader.members:
            self._answers.expect(leader, request)
        self._waiting.add(leader)
        return leader

    def _keep(self, now: float, begin: float, choice: PolicyChoice, chunk: Chunk) -> None:
        leader = choice.jobs[0]
        spare_s = leader.due - begin - leader.rest_s
        waiting = len(self._waiting)
        self._log.keep(
            Decision(
                now, "chunk", chunk.tenant, chunk.requests, choice.why, chunk.version, waiting, choice.planned, spare_s
            )
        )
