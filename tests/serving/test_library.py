"""The scheduler inside a program: call admitted models like functions; refusals state the reason and retry time."""

import asyncio

import pytest
import torch
from torch import nn

import cotenant
from cotenant.errors import Refused, SchedulingError, ServingError
from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.building import stand
from cotenant.workloads.protocol import WorkloadSpec
from tests.support import pace


def mini(name):
    entry = next(entry for entry in model_entries() if entry.name == name)
    return stand(entry, WorkloadSpec(name=name), device="cpu", dtype=torch.float32)


def test_results_equal_plain_calls_with_concurrent_tenants():
    bert, inputs = mini("bert-base-mini")
    mlp = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4)).eval()
    batch = inputs.ring[0]
    rows = [torch.randn(2, 64) for _ in range(8)]

    async def main():
        async with cotenant.Scheduler("cpu") as device:
            one = device.admit(bert, slo="20s", share=0.5)
            two = device.admit(mlp, slo="20s", batch=4)
            await two.prepare(rows[0])
            return await asyncio.gather(one(**batch), one(**batch), *(two(row) for row in rows))

    first, second, *others = asyncio.run(main())
    with torch.inference_mode():
        assert torch.equal(first.last_hidden_state, bert(**batch).last_hidden_state)
        assert torch.equal(second.last_hidden_state, first.last_hidden_state)
        for row, result in zip(rows, others, strict=True):
            torch.testing.assert_close(result, mlp(row))


def test_a_decoder_returns_tokens_at_once_or_as_a_stream():
    gpt, inputs = mini("gpt2-mini")
    ids = inputs.ring[0]["input_ids"][0, :12].tolist()

    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(gpt, slo="60s", tokens=6, batch=2)
            streamed = [token async for token in tenant.stream(ids)]
            whole = await asyncio.gather(tenant(ids), tenant(ids[:5], tokens=3), tenant(ids, tokens=1))
            return streamed, whole

    streamed, (whole, short, single) = asyncio.run(main())
    assert streamed == whole
    assert [len(whole), len(short), single] == [6, 3, whole[:1]]


def test_a_decoder_takes_ids_as_generate_does():
    gpt, inputs = mini("gpt2-mini")
    row = inputs.ring[0]["input_ids"][:1, :6]
    padded = {"input_ids": nn.functional.pad(row, (2, 0)), "attention_mask": nn.functional.pad(row * 0 + 1, (2, 0))}

    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(gpt, slo="60s", tokens=4)
            same = [
                await tenant(row[0].tolist()),
                await tenant(row),
                await tenant(row[0]),
                await tenant(input_ids=row, attention_mask=torch.ones_like(row), max_new_tokens=4),
                await tenant(padded),
                [token async for token in tenant.stream(**padded)],
            ]
            for wrong, sentence in (
                ({"input_ids": torch.cat([row, row])}, "2 prompts"),
                ({"input_ids": row, "top_kk": 3}, "Did you mean top_k"),
                ({}, "one prompt"),
                ({"input_ids": []}, "empty"),
                ({"input_ids": torch.tensor([0.5])}, "whole numbers"),
                ({"input_ids": row[None]}, "shape (n) or (1, n)"),
                ({"input_ids": 7}, "whole numbers"),
                ({"input_ids": "a text"}, "whole numbers"),
            ):
                with pytest.raises(ServingError) as caught:
                    await tenant(**wrong)
                assert sentence in f"{caught.value.message} {caught.value.hint}"
            return same

    first, *others = asyncio.run(main())
    assert len(first) == 4
    assert others == [first] * 5


def test_closing_it_ends_waiting_callers_with_an_error_of_ours():
    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(lambda x: x, slo="20s")
            await tenant.prepare(1)
            waiting = asyncio.ensure_future(tenant(2))
            await asyncio.sleep(0)
        with pytest.raises(ServingError, match="closed before this request was served"):
            await waiting

    asyncio.run(main())


def test_a_caller_has_its_result_before_it_is_counted_and_the_next_call_comes_after():
    async def main():
        order = []
        async with cotenant.Scheduler("cpu") as device:
            same = device.admit(lambda value: value, slo="20s")
            await same.prepare(1)
            core = device._conductor.scheduler
            handle = core.handle
            core.handle = lambda event: order.append(type(event).__name__) or handle(event)
            order.append(await same(1))
            order.append(await same(2))
            await asyncio.sleep(0)
            assert device._conductor.in_flight == 0
        return order

    assert asyncio.run(main()) == ["Arrived", 1, "ChunkDone", "Arrived", 2, "ChunkDone"]


def test_any_function_can_be_a_tenant():
    async def main():
        async with cotenant.Scheduler("cpu") as device:
            double = device.admit(lambda value: 2 * value, slo="5s")
            return await double(21)

    assert asyncio.run(main()) == 42


def test_a_refusal_states_the_reason_and_retry_time():
    def slow(value):
        import time

        time.sleep(0.02)
        return value

    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(slow, slo="200ms", name="slow")
            await tenant.prepare(1)
            return await asyncio.gather(*(tenant(1) for _ in range(60)), return_exceptions=True), device.explain()

    answers, explained = asyncio.run(main())
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert refused
    assert 1 in answers
    assert all(one.tenant == "slow" and one.why in {"over share", "device full"} for one in refused)
    assert all(one.retry_after_s > 0 for one in refused)
    assert any(one.predicted_wait_s > 0 for one in refused)
    assert any("was shed" in sentence for sentence in explained)


def test_a_model_error_reaches_only_its_caller():
    mlp = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(mlp, slo="5s")
            await tenant.prepare(torch.ones(1, 4))
            return await asyncio.gather(tenant(torch.ones(1, 3)), tenant(torch.ones(1, 4)), return_exceptions=True)

    wrong, right = asyncio.run(main())
    assert isinstance(wrong, RuntimeError)
    assert right.shape == (1, 4)


def test_a_cancelled_call_is_withdrawn():
    import time

    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(lambda: time.sleep(0.05), slo="5s")
            await tenant.prepare()
            waiting = [asyncio.ensure_future(tenant()) for _ in range(3)]
            await asyncio.sleep(0.02)
            for call in waiting:
                call.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await asyncio.wait_for(device._conductor.drained(), pace.seconds(5))
            return await tenant(), device._conductor.in_flight

    assert asyncio.run(main()) == (None, 0)


def test_an_objective_below_the_solo_time_is_refused_at_the_first_call():
    import time

    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(lambda: time.sleep(0.03), slo="10ms", name="tight")
            await tenant()

    with pytest.raises(ServingError, match=r"tight can't meet its objective of 10.0 ms"):
        asyncio.run(main())


def test_shares_that_do_not_add_up_are_refused_at_once():
    async def main():
        async with cotenant.Scheduler("cpu") as device:
            device.admit(print, slo="1s", share=0.7)
            device.admit(print, slo="1s", share=0.6)

    with pytest.raises(SchedulingError, match=r"add up to 1\.30"):
        asyncio.run(main())


def test_a_tenant_that_left_is_not_served():
    async def main():
        async with cotenant.Scheduler("cpu") as device:
            tenant = device.admit(lambda: 1, slo="1s")
            await tenant()
            tenant.leave()
            await tenant()

    with pytest.raises(Refused, match="unknown tenant"):
        asyncio.run(main())


def test_it_has_to_be_open():
    tenant = cotenant.Scheduler("cpu").admit(print, slo="1s")
    with pytest.raises(ServingError, match="isn't open"):
        asyncio.run(tenant())
