"""Memory for caches is part of a share: never overrun, lent while unused, and kept for the first request of others."""

from dataclasses import replace

import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling import Arrived, Cancelled, Settings, Shed, Why

from .worker import Worker, decoder, encoder, scheduler

EACH = 100


def costs():
    return replace(decoder(steps=50), cache_bytes=EACH)


def held(core):
    return core.cache_use * core.settings.cache_bytes


def two(total):
    return scheduler(("a", 10.0, costs()), ("b", 0.5, costs()), cache_bytes=total, quantum_s=0.01)


def test_a_request_without_room_waits_and_is_served_when_another_ends():
    worker = Worker(scheduler(("a", 10.0, costs()), cache_bytes=2 * EACH))
    for number in range(3):
        worker.send(Arrived(0.0, number, "a"))
    most = 0.0
    while worker.running is not None:
        most = max(most, held(worker.scheduler))
        worker.end_chunk()
    assert most == 2 * EACH
    assert held(worker.scheduler) == 0
    assert all(answer.met for answer in worker.answers.values())
    assert len(worker.answers) == 3


def test_unused_memory_is_lent_but_for_one_request_of_the_others():
    core = two(4 * EACH)
    worker = Worker(core)
    for number in range(6):
        worker.send(Arrived(0.0, number, "a"))
    while held(core) < 3 * EACH:
        worker.end_chunk()
    for _ in range(5):  # b's first request still has its room
        worker.end_chunk()
        assert held(core) <= 3 * EACH
    worker.send(Arrived(worker.began, "late", "b"))
    while not any("late" in chunk.requests for chunk in worker.ran):
        worker.end_chunk()
    assert held(core) == 4 * EACH


def test_a_cancelled_request_returns_its_memory():
    core = scheduler(("a", 10.0, costs()), cache_bytes=EACH)
    worker = Worker(core)
    worker.send(Arrived(0.0, 1, "a"))
    assert held(core) == EACH
    worker.send(Cancelled(0.0, 1))
    assert held(core) == 0


def test_a_request_larger_than_all_memory_is_refused_at_once():
    (end,) = scheduler(("a", 10.0, costs()), cache_bytes=EACH).handle(Arrived(0.0, 1, "a", cache_bytes=2 * EACH))
    assert isinstance(end, Shed)
    assert end.why is Why.TOO_LARGE


def test_requests_without_a_cache_need_no_room():
    worker = Worker(scheduler(("a", 10.0, costs()), ("plain", 10.0, encoder()), cache_bytes=EACH))
    worker.send(Arrived(0.0, 1, "a"))
    worker.send(Arrived(0.0, 2, "a"))
    worker.send(Arrived(0.0, "plain", "plain"))
    while "plain" not in worker.answers:
        worker.end_chunk()
    assert worker.answers["plain"].met


def test_memory_has_to_be_positive():
    with pytest.raises(SchedulingError, match="positive"):
        Settings(cache_bytes=0)
