"""Jobs with chunks left to issue, in order of due times. No operation looks at all of them: a flood stays cheap."""

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter

from cotenant.scheduling.job import Job
from cotenant.scheduling.tenant import TenantState

VIEW = 48
"""Conforming jobs considered per decision, and a third of it for the others: a flood must not slow decisions."""
MOST_IN_BLOCK = 128

_order = attrgetter("due", "order")


class WaitingBlock:
    """A few jobs next to each other, and the sum of their remaining times."""

    __slots__ = ("jobs", "queue", "rest_s")

    def __init__(self, jobs: list[Job], queue: "_Queue") -> None:
        self.jobs = jobs
        self.queue = queue
        self.rest_s = 0.0
        for job in jobs:
            job.block = self
            self.rest_s += job.rest_s

    def lengthen(self, seconds: float) -> None:
        """The remaining time of a job has changed by so much."""
        self.rest_s += seconds
        self.queue.rest_s += seconds


class _Queue:
    """A sorted list in blocks."""

    __slots__ = ("_blocks", "_ends", "length", "rest_s")

    def __init__(self) -> None:
        self._blocks: list[WaitingBlock] = []
        self._ends: list[tuple[float, int]] = []
        """Due time and order of each block's last job."""
        self.length = 0
        self.rest_s = 0.0

    def first(self, most: int) -> list[Job]:
        """The jobs due first."""
        blocks = self._blocks
        if len(blocks) == 1:
            return blocks[0].jobs[:most]
        jobs: list[Job] = []
        for block in blocks:
            jobs += block.jobs[: most - len(jobs)]
            if len(jobs) == most:
                break
        return jobs

    def add(self, job: Job) -> None:
        key = _order(job)
        at = bisect_left(self._ends, key)
        self.length += 1
        self.rest_s += job.rest_s
        if not self._blocks:
            self._blocks.append(WaitingBlock([job], self))
            self._ends.append(key)
            return
        if at == len(self._blocks):
            at -= 1
            self._ends[at] = key
        block = self._blocks[at]
        insort(block.jobs, job, key=_order)
        block.rest_s += job.rest_s
        job.block = block
        if len(block.jobs) > MOST_IN_BLOCK:
            self._split(at)

    def remove(self, job: Job) -> None:
        key = _order(job)
        at = bisect_left(self._ends, key)
        block = self._blocks[at]
        del block.jobs[bisect_left(block.jobs, key, key=_order)]
        block.rest_s -= job.rest_s
        job.block = None
        self.length -= 1
        self.rest_s = self.rest_s - job.rest_s if self.length else 0.0  # rounding errors don't add up for ever
        if block.jobs:
            self._ends[at] = _order(block.jobs[-1])
        else:
            del self._blocks[at], self._ends[at]

    def rest_before_s(self, due: float) -> float:
        """Remaining time of all jobs due by then, summed from the nearer end."""
        at = bisect_right(self._ends, due, key=_due_of)
        if 2 * at < len(self._blocks):
            rest = sum([block.rest_s for block in self._blocks[:at]])
        else:
            rest = self.rest_s - sum([block.rest_s for block in self._blocks[at:]])
        if at < len(self._blocks):
            rest += sum([job.rest_s for job in self._blocks[at].jobs if job.due <= due])
        return rest

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        half = len(block.jobs) // 2
        self._blocks[at : at + 1] = [WaitingBlock(block.jobs[:half], self), WaitingBlock(block.jobs[half:], self)]
        self._ends[at : at + 1] = [_order(self._blocks[at].jobs[-1]), self._ends[at]]


def _due_of(end: tuple[float, int]) -> float:
    return end[0]


class Waiting:
    """Sorted jobs. Remove a job before changing its due time or whether it conforms, and add it again after."""

    __slots__ = ("_begun", "_conforming", "_others")

    def __init__(self) -> None:
        self._conforming = _Queue()
        self._others = _Queue()
        self._begun: dict[TenantState, dict[Job, None]] = {}
        """Begun jobs beyond their tenant's share."""

    def __len__(self) -> int:
        return self._conforming.length + self._others.length

    def add(self, job: Job) -> None:
        """Put a job in its place."""
        (self._conforming if job.conforming else self._others).add(job)
        if job.begun:
            self.begin(job)

    def remove(self, job: Job) -> None:
        """Take a job out."""
        if job.conforming:
            self._conforming.remove(job)
            return
        self._others.remove(job)
        if job.begun:
            self._begun.get(job.tenant, {}).pop(job, None)

    def begin(self, job: Job) -> None:
        """A waiting job has begun."""
        if not job.conforming:
            self._begun.setdefault(job.tenant, {})[job] = None

    def begun_beyond(self, tenant: TenantState, longest_s: float) -> Job | None:
        """The tenant's begun job beyond its share that is due first, in time, with no more than this left to do."""
        begun = self._begun.get(tenant)
        if not begun:
            return None
        return min([job for job in begun if not job.late and job.rest_s <= longest_s], key=_order, default=None)

    def rest_before_s(self, due: float) -> float:
        """Remaining time of all jobs due by then."""
        return self._conforming.rest_before_s(due) + self._others.rest_before_s(due)

    def view(self) -> list[Job]:
        """The jobs a decision considers: all, or in a long queue those due first, conforming and others separately."""
        if not self._others.length:
            return self._conforming.first(VIEW)
        others = self._others.first(VIEW if len(self) <= VIEW else VIEW // 3)
        if not self._conforming.length:
            return others
        return sorted(self._conforming.first(VIEW) + others, key=_order)
