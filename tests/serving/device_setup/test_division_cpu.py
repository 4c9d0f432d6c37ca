"""Cores of this machine as parts: each tenant's worker on its own, at the same time as the others."""

import asyncio
import os

import pytest

from cotenant.serving.http.operations import state_of
from tests.serving.device_setup.division import ask, file, served

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


@pytest.mark.slow
def test_pinned_tenants_compute_on_their_own_cores():
    async def scenario(service):
        return await ask(service, "a", "b"), service.workers()

    (a, b), workers = served(file("pinned", device="cpu"), scenario)
    assert bytes(a.tensors[0].data) == bytes(b.tensors[0].data), "both run the same model on the same input"
    cores = [set(one["granted"]["cores"]) for one in workers]
    assert cores[0]
    assert not cores[0] & cores[1]


def test_a_restarted_worker_has_the_cores_of_the_old_one(hollow_workers):
    async def scenario(service):
        first = state_of(service)
        os.kill(first["workers"][0]["pid"], 9)
        while service.ready("a"):
            await asyncio.sleep(0.01)
        await ask(service, "b")
        while not service.ready("a"):
            await asyncio.sleep(0.05)
        await ask(service, "a")
        return first["workers"], service.workers()

    first, second = served(file("pinned", device="cpu"), scenario)
    assert [one["granted"] for one in first] == [one["granted"] for one in second]
    assert [one["restarts"] for one in second] == [1, 0]
