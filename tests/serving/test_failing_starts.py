"""What fails while a server starts or stops ends in an error, never in a wait for ever."""

import asyncio
import os
import signal
import threading
from types import SimpleNamespace

import pytest

from cotenant.errors import ServingError
from cotenant.serving import simulated
from cotenant.serving.deployment import begin
from cotenant.serving.measures import Measures
from cotenant.serving.server import _Stopping
from cotenant.serving.tenants_file import read_tenants
from cotenant.serving.workers import wire
from cotenant.serving.workers.supervisor import Patience
from tests.support import pace


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tenants.yaml"
    path.write_text("device: sim:t4\ntenants:\n  bert: {workload: bert-base-mini, slo: 500ms}\n")
    return read_tenants(path)


def started(file, patience, *, last=lambda: None):
    async def start():
        try:
            async with asyncio.timeout(pace.seconds(20)):
                await begin(file, Measures(), patience=patience)
        finally:
            last()

    asyncio.run(start())


def test_costs_that_stop_an_iteration_are_an_error(file, monkeypatch):
    def exhausted(*_):
        return next(iter(()))

    monkeypatch.setattr(simulated, "_known", exhausted)
    with pytest.raises(RuntimeError, match="StopIteration"):
        started(file, Patience())


def test_the_error_of_the_costs_is_that_of_the_start(file, monkeypatch):
    def refused(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(simulated, "_known", refused)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        started(file, Patience())


def test_costs_that_never_come_end_the_start_in_time(file, monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(simulated, "_known", lambda *_: never.wait())
    with pytest.raises(ServingError, match="The costs of bert weren't known within 0 s"):
        started(file, Patience(start_s=0.2), last=never.set)


def test_a_sentinel_that_can_not_stand_does_not_hold_up_its_worker(monkeypatch):
    def refused(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(wire, "ctypes", SimpleNamespace(CDLL=refused))
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as ours:
        posting = threading.Thread(target=wire.post_sentinels, args=(0, (write,)), daemon=True)
        posting.start()
        posting.join(pace.seconds(20))
        assert not posting.is_alive()
        assert ours.read() == b"", "the parent doesn't learn that nobody stands there"


def test_a_drain_that_fails_still_stops_the_server():
    async def failing(within_s):
        raise OSError(within_s)

    async def stopped():
        stopping = _Stopping(SimpleNamespace(draining=False, drain=failing), 1.0)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        stopping._on_signal(signal.SIGTERM)
        await asyncio.wait_for(stopping.done.wait(), pace.seconds(20))
        await asyncio.gather(stopping._draining, return_exceptions=True)

    asyncio.run(stopped())
