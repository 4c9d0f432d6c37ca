"""Jobs with chunks left to issue, in order of due times."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from cotenant.scheduling.job import Job

VIEW = 48
"""Conforming jobs considered per decision, and a third of it for the others: a flood must not slow decisions."""


def _order(job: Job) -> tuple[float, int]:
    return job.due, job.order


class Waiting:
    """A sorted list of jobs. Remove a job before changing its due time, and add it again after."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def add(self, job: Job) -> None:
        """Put a job in its place."""
        job.waits = True
        jobs = self._jobs
        if not jobs or _order(jobs[-1]) < _order(job):
            jobs.append(job)
        else:
            insort(jobs, job, key=_order)

    def remove(self, job: Job) -> None:
        """Take a job out."""
        job.waits = False
        del self._jobs[bisect_left(self._jobs, (job.due, job.order), key=_order)]

    def view(self) -> list[Job]:
        """The jobs a decision considers: all, or in a long queue those due first, conforming and others separately."""
        if len(self._jobs) <= VIEW:
            return list(self._jobs)
        room = {True: VIEW, False: VIEW // 3}
        seen = []
        for job in self._jobs:
            if room[job.conforming]:
                room[job.conforming] -= 1
                seen.append(job)
        return seen
