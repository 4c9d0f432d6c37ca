"""Results to come: known to one listener at once, or awaited."""

import asyncio

import pytest

from cotenant.serving.tickets import Pending


def test_the_listener_is_called_once_with_the_first_end():
    heard = []
    pending = Pending()
    pending.then(lambda one: heard.append(one.result()))
    pending.resolve(1)
    pending.resolve(2)
    pending.resolve(error=ValueError())
    assert heard == [1]
    pending = Pending()
    pending.resolve(3)
    pending.then(lambda one: heard.append(one.result()))
    assert heard == [1, 3]


def test_a_result_takes_other_forms():
    pending = Pending().into(str).into(len)
    pending.resolve(1000)
    assert pending.result() == 4


def test_it_is_awaited_like_a_future():
    async def scenario():
        pending, failing, known = Pending(), Pending(), Pending()
        known.resolve("known")
        loop = asyncio.get_running_loop()
        loop.call_soon(pending.resolve, "later")
        loop.call_soon(lambda: failing.resolve(error=ValueError("no")))
        assert [await pending, await known] == ["later", "known"]
        with pytest.raises(ValueError, match="no"):
            await failing

    asyncio.run(scenario())


def test_cancelling_the_task_that_waits_cancels_it():
    async def scenario():
        class Watched(Pending):
            def cancel(self):
                cancelled.append(True)

        cancelled = []
        task = asyncio.ensure_future(Watched())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled == [True]

    asyncio.run(scenario())


def test_a_listener_is_not_called_for_what_was_cancelled():
    heard = []
    pending = Pending()
    pending.then(heard.append)
    pending.cancel()
    assert pending.done
    assert heard == []
