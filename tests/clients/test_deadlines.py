"""Requests that take too long are ended, by one timer for all of them."""

import asyncio

import psutil
import pytest

from cotenant.clients.alarm import Deadlines
from tests.support import pace

MS = 1_000_000


def waiting(scenario):
    """Run a scenario with deadlines, and a function that starts to watch a new answer for so many ms."""

    async def run():
        loop, deadlines = asyncio.get_running_loop(), Deadlines()

        def watched(ms):
            answer = loop.create_future()
            deadlines.watch(answer, int(loop.time() * 1e9) + ms * MS)
            return answer

        try:
            await asyncio.wait_for(scenario(deadlines, watched), pace.seconds(20))
        finally:
            deadlines.close()

    asyncio.run(run())


def test_each_answer_has_its_own_deadline():
    async def scenario(deadlines, watched):
        late, later, soon = watched(10), watched(30), watched(1)
        for answer in (late, later, soon):
            with pytest.raises(TimeoutError):
                await answer
        again = watched(1)
        with pytest.raises(TimeoutError):
            await again

    waiting(scenario)


def test_what_is_done_or_forgotten_is_left_alone():
    async def scenario(deadlines, watched):
        done, forgotten, last = watched(5), watched(5), watched(10)
        done.set_result("answer")
        deadlines.forget(forgotten)
        with pytest.raises(TimeoutError):
            await last
        assert done.result() == "answer"
        assert not forgotten.done()

    waiting(scenario)


def test_closing_leaves_no_timer_behind():
    async def scenario(deadlines, watched):
        before = psutil.Process().num_fds()
        for _ in range(3):
            watched(1000)
            deadlines.close()
        assert psutil.Process().num_fds() == before

    waiting(scenario)
