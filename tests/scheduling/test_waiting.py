"""The queue, against a sorted list."""

import random

import pytest

from cotenant.scheduling.waiting import MOST_IN_BLOCK, VIEW, Waiting


class Work:
    """What the queue looks at."""

    def __init__(self, due, order, rest_s, *, conforming=True, begun=False, tenant="t", late=False):
        self.due, self.order, self.rest_s, self.conforming = due, order, rest_s, conforming
        self.begun, self.tenant, self.late, self.block = begun, tenant, late, None


def test_the_queue_is_a_sorted_list_in_blocks():
    dice = random.Random(4)
    waiting, plain = Waiting(), []
    for order in range(1500):
        if plain and dice.random() < 0.3:
            job = plain.pop(dice.randrange(len(plain)))
            waiting.remove(job)
            assert job.block is None
        else:
            job = Work(dice.randrange(60), order, dice.choice([0.25, 0.5, 2.0]), conforming=dice.random() < 0.7)
            plain.append(job)
            waiting.add(job)
            assert job in job.block.jobs
        if order % 7 == 0:
            changed = dice.choice(plain) if plain else None
            if changed:
                changed.rest_s += 0.5
                changed.block.lengthen(0.5)
        assert len(waiting) == len(plain)
        due = dice.randrange(-1, 61)
        assert waiting.rest_before_s(due) == pytest.approx(sum(job.rest_s for job in plain if job.due <= due))
        kinds = [
            sorted((job for job in plain if job.conforming is kind), key=lambda job: (job.due, job.order))
            for kind in (True, False)
        ]
        most = VIEW if len(plain) <= VIEW else VIEW // 3
        expected = sorted(kinds[0][:VIEW] + kinds[1][:most], key=lambda job: (job.due, job.order))
        assert waiting.view() == expected
        assert all(len(job.block.jobs) <= MOST_IN_BLOCK for job in plain[:3])
    assert len(plain) > 3 * MOST_IN_BLOCK
    for job in plain:
        waiting.remove(job)
    assert (len(waiting), waiting.view(), waiting.rest_before_s(99)) == (0, [], 0.0)


def test_the_begun_job_beyond_a_share_that_is_due_first():
    waiting = Waiting()
    jobs = [
        Work(3, 0, 1.0, conforming=False, begun=True),
        Work(1, 1, 2.1, conforming=False, begun=True),
        Work(2, 2, 2.0, conforming=False, begun=True),
        Work(0, 3, 1.0, conforming=False),
        Work(0, 4, 1.0, begun=True),
        Work(0, 5, 1.0, conforming=False, begun=True, late=True),
        Work(0, 6, 1.0, conforming=False, begun=True, tenant="u"),
    ]
    for job in jobs:
        waiting.add(job)
    assert waiting.begun_beyond("t", 2.0) is jobs[2]
    waiting.remove(jobs[2])
    assert waiting.begun_beyond("t", 2.0) is jobs[0]
    waiting.begin(jobs[3])
    assert waiting.begun_beyond("t", 2.0) is jobs[3]
    assert waiting.begun_beyond("nobody", 2.0) is None
