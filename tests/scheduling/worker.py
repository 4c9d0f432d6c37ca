"""A worker for tests: carries instructions out at exact times and checks the contract between scheduler and worker."""

from cotenant.scheduling import (
    Arrived,
    BatchCurve,
    ChunkDone,
    ChunkLost,
    Contract,
    DeviceScheduler,
    Done,
    Dropped,
    QueueAhead,
    Settings,
    Shed,
    StartChunk,
    TenantCosts,
    chunk_cost,
)
from cotenant.scheduling.job import Job, Request
from cotenant.scheduling.roster import Roster


def encoder(chunks=1, each_s=0.010, curve=(1.0,), spread=0.0):
    return TenantCosts((chunk_cost(each_s, spread=spread),) * chunks, BatchCurve(curve))


def decoder(prefill_s=0.010, step_s=0.002, steps=10, curve=(1.0, 1.2, 1.4, 1.6), spread=0.0):
    prefill, step = (chunk_cost(cost_s, spread=spread) for cost_s in (prefill_s, step_s))
    return TenantCosts((prefill,), step=step, step_curve=BatchCurve(curve), steps=steps)


def scheduler(*tenants, policy=None, **settings):
    """Tenants as (name, objective_s, costs) or as complete contracts with costs."""
    agreed = [
        (tenant[0], tenant[1]) if len(tenant) == 2 else (Contract(tenant[0], tenant[1]), tenant[2])
        for tenant in tenants
    ]
    return DeviceScheduler(agreed, Settings(**settings), policy)


class Worker:
    """One slot that takes exactly the predicted time for each chunk; ``answers`` holds the end of each request."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.running = None
        self.began = 0.0
        self.queued = None
        self.versions = []
        self.ran = []
        self.answers = {}

    def send(self, event):
        out = self.scheduler.handle(event)
        for instruction in out:
            if isinstance(instruction, StartChunk):
                assert self.running is None
                self._run(instruction.chunk, event.time)
            elif isinstance(instruction, QueueAhead):
                assert self.running is not None
                assert instruction.after == self.running.version
                if instruction.chunk:
                    self.versions.append(instruction.chunk.version)
                self.queued = instruction.chunk
            else:
                assert isinstance(instruction, Done | Shed | Dropped)
                assert instruction.request not in self.answers
                self.answers[instruction.request] = instruction
        return out

    def arrive(self, time, request, tenant, **more):
        return self.send(Arrived(time, request, tenant, **more))

    @property
    def ends_at(self):
        return self.began + self.running.predicted_s

    def end_chunk(self, took=1.0, finished=()):
        """The running chunk ends after ``took`` times its predicted duration; the queued one starts at once."""
        chunk, began = self.running, self.began
        end = began + took * chunk.predicted_s
        queued, self.running, self.queued = self.queued, None, None
        if queued:
            self._run(queued, end)
        return self.send(ChunkDone(end, chunk.version, began, end, queued.version if queued else None, finished))

    def lose_chunk(self, time):
        """The worker dies: the running and queued chunks are lost."""
        lost, self.running, self.queued = self.running, None, None
        return self.send(ChunkLost(time, lost.version))

    def run_until_idle(self, limit=10_000):
        while self.running and limit:
            self.end_chunk()
            limit -= 1
        assert limit

    def _run(self, chunk, at):
        assert chunk.version not in [ran.version for ran in self.ran]
        self.versions.append(chunk.version)
        self.running, self.began = chunk, at
        self.ran.append(chunk)


def roster(*tenants, **settings):
    return Roster(
        [(Contract(name, objective_s), costs) for name, objective_s, costs in tenants], Settings(**settings), 0
    )


def job(tenant, due, *, steps=None, prefilled=False, order=0, conforming=True, scale=1.0, priority=0):
    costs = tenant.estimate.costs
    steps = (costs.steps if steps is None else steps) if costs.step else 0
    request = Request(
        Arrived(due - tenant.contract.within_s(steps), order, tenant.name, None, scale, steps, priority),
        tenant.contract,
        steps,
    )
    request.conforming = conforming
    work = Job(tenant, request, order)
    if prefilled:
        work.advance(0)
    work.reckon()
    return work
