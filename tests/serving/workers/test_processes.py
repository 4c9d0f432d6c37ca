"""Worker processes: the same results as in-process, deaths detected at once, others unaffected."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cotenant.errors import BadInput, Refused, ServingError
from cotenant.scheduling import Chunk, Contract, DeviceScheduler
from cotenant.serving.conductor import Conductor
from cotenant.serving.tensors import label, unpack
from cotenant.serving.workers.crew import Crew
from cotenant.serving.workers.remote import CHILD, Remote
from cotenant.serving.workers.servable import build_servable, parcel_of, tensors_of
from cotenant.serving.workers.supervisor import Patience, Post, Supervisor
from cotenant.serving.workers.wire import PAGE, FrameReader, FrameWriter, SharedArena, TenantOrder, WorkerOrder, frame
from cotenant.serving.workers.work import Prompt
from cotenant.workloads.protocol import WorkloadSpec
from tests.support import pace

pytestmark = [pytest.mark.slow, pytest.mark.long]

BERT = WorkloadSpec(name="bert-base-mini", seq=16)
GPT = WorkloadSpec(name="distilgpt2-mini", seq=8, mode="generate", tokens=6)


def order(**tenants):
    return WorkerOrder(
        device="cpu",
        threads=1,
        budget_s=0.05,
        tenants=tuple(TenantOrder(name=name, workload=spec, largest=2) for name, spec in tenants.items()),
    )


def serving(scenario, *orders, objective_s=30.0, **patience):
    """Run a scenario with workers; it gets the conductor and the supervisor."""

    async def main():
        conductor = Conductor(DeviceScheduler([], now=time.monotonic()), Crew())
        supervisor = Supervisor(conductor, Patience(**patience))
        contracts = [Contract(tenant.name, objective_s) for one in orders for tenant in one.tenants]
        try:
            await supervisor.open(orders, contracts)
            return await asyncio.wait_for(scenario(conductor, supervisor), pace.seconds(120))
        finally:
            conductor.close()
            await supervisor.close()

    return asyncio.run(main())


def ids(*shape):
    return torch.randint(8, 400, shape, generator=torch.Generator().manual_seed(0))


def test_tensors_and_tokens_cross_unchanged():
    inputs = ids(1, 16)

    async def scenario(conductor, supervisor):
        assert supervisor.known["bert"][1].embeds
        return await asyncio.gather(
            conductor.serve("bert", parcel_of({"input_ids": inputs})),
            conductor.serve("gpt", Prompt((9, 10, 11), tokens=6), steps=5),
        )

    embedding, tokens = serving(scenario, order(bert=BERT, gpt=GPT))
    here = build_servable(BERT, device="cpu", dtype="float32")
    with torch.inference_mode():
        assert torch.equal(tensors_of(embedding)["embedding"], here.model(input_ids=inputs)["embedding"])
    assert len(tokens) == 6


def test_a_killed_worker_is_restarted_without_affecting_others():
    async def scenario(conductor, supervisor):
        inputs = parcel_of({"input_ids": ids(1, 16)})
        killed = next(post for post in supervisor.posts if "bert" in post.tenants)
        os.kill(killed.worker.pid, signal.SIGKILL)
        while supervisor.ready("bert"):
            await asyncio.sleep(0.01)
        with pytest.raises(Refused) as refusal:
            await conductor.serve("bert", inputs)
        other = await conductor.serve("gpt", Prompt((9, 10), tokens=3), steps=2)
        while not supervisor.ready("bert"):
            await asyncio.sleep(0.05)
        return refusal.value, other, await conductor.serve("bert", inputs), killed.restarts

    refusal, other, back, restarts = serving(scenario, order(bert=BERT), order(gpt=GPT))
    assert refusal.why == "paused"
    assert refusal.retry_after_s >= 1
    assert (len(other), len(back.tensors), restarts) == (3, 1, 1)


def test_the_time_of_a_restart_is_what_restarts_have_taken_here():
    post = Post(order(bert=BERT))
    post.start_s = 8.0
    assert post.lost(100.0) == 8.0, "before the first one, the time of the first start"
    assert post.restarted(121.0) == 21.0
    assert post.lost(200.0) == 21.0
    post.restarted(203.0)
    assert post.lost(300.0) == 21.0, "the longest of the last few"
    for _ in range(5):
        post.restarted(302.0)
        post.lost(300.0)
    assert post.restart_s == 2.0
    assert post.restarts == 8


def test_a_restart_from_a_prepared_process_says_nothing_about_others():
    post = Post(order(bert=BERT))
    post.start_s = 8.0
    assert post.lost(100.0, prepared=True) == 8.0
    post.restarted(101.2)
    assert post.lost(200.0) == 8.0, "nothing is prepared so soon after the last restart"
    post.restarted(207.0)
    assert (post.lost(300.0, prepared=True), post.lost(400.0)) == pytest.approx((1.2, 7.0))


def test_a_prepared_spare_takes_the_place_of_a_killed_worker():
    async def scenario(conductor, supervisor):
        while not (supervisor._spare and supervisor._spare.alive):
            await asyncio.sleep(0.01)
        spare = supervisor._spare.pid
        supervisor.posts[0].worker.kill()
        while supervisor.ready("bert"):
            await asyncio.sleep(0.01)
        while not supervisor.ready("bert"):
            await asyncio.sleep(0.01)
        served = await conductor.serve("bert", parcel_of({"input_ids": ids(1, 16)}))
        return spare, supervisor.posts[0].worker.pid, served

    spare, now, served = serving(scenario, order(bert=BERT), spare_s=0.1)
    assert now == spare
    assert served.tensors


def test_two_threads_of_a_worker_hold_a_pipe_that_no_other_thread_does():
    async def scenario(conductor, supervisor):
        del conductor
        threads = Path(f"/proc/{supervisor.posts[0].worker.pid}/task")
        return [{str(one.readlink()) for one in (thread / "fd").iterdir()} for thread in threads.iterdir()]

    tables = serving(scenario, order(bert=BERT))
    apart = [table for table in tables if len(table) == 2]
    assert len(apart) == 2
    for sentinel in apart:
        (pipe,) = [one for one in sentinel if one.startswith("pipe:")]
        assert [pipe in table for table in tables].count(True) == 1


def test_requests_in_flight_fail_when_their_worker_dies():
    async def scenario(conductor, supervisor):
        calls = [asyncio.ensure_future(conductor.serve("gpt", Prompt((9,), tokens=400), steps=399)) for _ in range(4)]
        await asyncio.sleep(0.2)
        supervisor.posts[0].worker.kill()
        return await asyncio.gather(*calls, return_exceptions=True), conductor.in_flight

    answers, left = serving(scenario, order(gpt=GPT), objective_s=300.0)
    assert {one.why for one in answers} <= {"paused", "worker lost"}
    assert all(isinstance(one, Refused) for one in answers)
    assert left == 0


def test_a_hung_worker_is_killed_and_restarted():
    async def scenario(conductor, supervisor):
        os.kill(supervisor.posts[0].worker.pid, signal.SIGSTOP)
        with pytest.raises(Refused, match=r"paused|worker lost"):
            await conductor.serve("bert", parcel_of({"input_ids": ids(1, 16)}))
        while not supervisor.ready("bert"):
            await asyncio.sleep(0.05)
        return await conductor.serve("bert", parcel_of({"input_ids": ids(1, 16)}))

    assert serving(scenario, order(bert=BERT), hang_s=0.5, hang_times=1.0).tensors


def test_a_worker_ends_when_its_parent_closes_the_connection():
    ours, theirs = socket.socketpair()
    arena = SharedArena.create(PAGE)
    with ours, theirs:
        fds, (read, held) = (theirs.fileno(), arena.fd, arena.fd), os.pipe()
        process = subprocess.Popen([*CHILD, *map(str, fds), str(PAGE), str(held)], pass_fds=(*fds, held))
        theirs.close()
        os.close(held)
        os.close(read)
        ours.sendall(frame(["order"])[:6])  # half of a message
    arena.close()
    assert process.wait(pace.seconds(60)) == 0


def test_unknown_ids_are_refused_and_the_worker_survives():
    async def scenario(conductor, _):
        with pytest.raises(BadInput, match="Token ids have to lie between 0 and 4095"):
            await conductor.serve("bert", parcel_of({"input_ids": torch.full((1, 4), 1_000_000)}))
        return await conductor.serve("bert", parcel_of({"input_ids": ids(1, 4)}))

    assert serving(scenario, order(bert=BERT)).tensors


def test_an_objective_below_the_floor_stops_the_start():
    with pytest.raises(ServingError, match=r"bert can't meet its objective of 0\.00100 ms"):
        serving(None, order(bert=BERT), objective_s=1e-6)


def test_a_workload_that_is_not_a_model_is_refused():
    with pytest.raises(ServingError, match="only models can be served"):
        serving(None, order(gemm=WorkloadSpec(name="null")))


def test_an_arena_reuses_released_space_and_reports_when_full():
    arena = SharedArena.create(4 * PAGE)
    places = [arena.put([b"a" * PAGE], PAGE) for _ in range(4)]
    assert arena.put([b"b"], 1) is None
    arena.release(places[1])
    arena.release(places[2])
    assert arena.put([b"c" * (2 * PAGE)], 2 * PAGE) == places[1]
    assert bytes(arena.view(places[1], 3)) == b"ccc"
    arena.close()


def test_an_input_is_sent_with_the_next_chunk():
    async def scenario():
        sent = []
        remote = Remote(ended=sent.append)
        remote.connection_made(SimpleNamespace(is_closing=lambda: False, write=sent.append))
        inputs = parcel_of({"input_ids": ids(1, 16)})
        remote.take(1, "bert", inputs)
        remote.start(Chunk(1, 0, "bert", (1,), 0, 0, 1e-3))
        remote.take(2, "bert", inputs)
        await asyncio.sleep(0)
        remote.queue(1, Chunk(2, 0, "bert", (2,), 0, 0, 1e-3))
        return [[one[0] for messages, _ in FrameReader().feed(piece) for one in messages] for piece in sent]

    assert asyncio.run(scenario()) == [["take", "start"], ["take", "queue"]]


def test_messages_are_reassembled_from_any_pieces():
    writer = FrameWriter()
    writer.add(["take", 1, {"a": [1, 2]}], [b"\x00", memoryview(b"\x01")])
    writer.add(["take", 2, {}], [b"\x02"])
    wire, reader = writer.frame() + frame(["free", []]), FrameReader()
    found = [one for byte in wire for one in reader.feed(bytes([byte]))]
    assert found == [([["take", 1, {"a": [1, 2]}], ["take", 2, {}]], b"\x00\x01\x02"), ([["free", []]], b"")]


def test_a_parcel_survives_its_label():
    halves = torch.ones(2, dtype=torch.float16), torch.ones(3, dtype=torch.bfloat16)
    mixed = {"b": halves[0], "c": halves[1], "d": torch.tensor(True)}
    parcel = parcel_of({"a": torch.arange(6).reshape(2, 3), **mixed})
    data = b"".join(bytes(one.data) for one in parcel.tensors)
    back = tensors_of(unpack(label(parcel), data))
    assert torch.equal(back["a"], torch.arange(6).reshape(2, 3))
    for name, value in mixed.items():
        assert back[name].dtype is value.dtype
        assert torch.equal(back[name], value)
