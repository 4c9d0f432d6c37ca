"""Models that don't fit together: one backend awake at a time, turn by turn."""

import asyncio

from cotenant.serving.backends.lanes import Gate
from tests.serving.backends.behind import Repeater, fronting, listening, run


class Sleeper:
    def __init__(self, log, name, *, fails=False):
        self.log, self.name, self.fails = log, name, fails

    async def sleep(self):
        self.log.append(f"{self.name} sleeps")

    async def wake(self):
        if self.fails:
            raise RuntimeError("no memory")
        self.log.append(f"{self.name} wakes")


def test_the_awake_backend_is_admitted_at_once_and_a_change_waits_for_requests_in_flight():
    log = []

    async def scenario():
        gate, a, b = Gate(), Sleeper(log, "a"), Sleeper(log, "b")

        async def ask(who, seconds):
            async with gate.through(who):
                log.append(f"{who.name} begins")
                await asyncio.sleep(seconds)
                log.append(f"{who.name} ends")

        first = asyncio.ensure_future(ask(a, 0.05))
        await asyncio.sleep(0.01)
        await asyncio.gather(first, ask(b, 0.0))

    run(scenario)
    assert log == ["a wakes", "a begins", "a ends", "a sleeps", "b wakes", "b begins", "b ends"]


def test_a_turn_ends_for_waiting_backends_under_any_load():
    now, log = [0.0], []

    async def scenario():
        gate, a, b = Gate(lambda: now[0]), Sleeper(log, "a"), Sleeper(log, "b")
        async with gate.through(a):
            other = asyncio.ensure_future(_pass(gate, b, log))
            await asyncio.sleep(0)
            now[0] = 100.0
            late = asyncio.ensure_future(_pass(gate, a, log))
            await asyncio.sleep(0)
        await asyncio.gather(other, late)

    run(scenario)
    assert [line for line in log if "through" in line] == ["b through", "a through"]


def test_a_backend_that_does_not_wake_fails_its_own_requests_only():
    log = []

    async def scenario():
        gate, a, b = Gate(), Sleeper(log, "a"), Sleeper(log, "b", fails=True)
        return await asyncio.gather(_pass(gate, a, log), _pass(gate, b, log), return_exceptions=True), await _pass(
            gate, a, log
        )

    (first, second), _ = run(scenario)
    assert first is None
    assert str(second) == "no memory"


async def _pass(gate, who, log):
    async with gate.through(who):
        log.append(f"{who.name} through")


def test_two_models_that_do_not_fit_together_are_served_in_turns():
    one, two = Repeater(models=("one",)), Repeater(models=("two",), asleep=True)

    async def scenario():
        async with listening(one.handle) as first, listening(two.handle) as second:
            tenants = {
                name: {"slo": "20s", "backend": {"openai": f"http://127.0.0.1:{port}", "sleep": True}}
                for name, port in (("a", first), ("b", second))
            }
            async with fronting(tenants) as client:
                names = [name for _ in range(3) for name in ("a", "b")]
                answers = await asyncio.gather(
                    *(client.post("/v1/completions", {"model": name, "prompt": "x"}) for name in names)
                )
                return [answer.status for answer in answers], (one.asleep, two.asleep)

    statuses, asleep = run(scenario)
    assert statuses == [200] * 6
    assert sorted(asleep) == [False, True]
