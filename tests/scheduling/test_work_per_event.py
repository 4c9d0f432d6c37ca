"""The work of an event doesn't grow with the number of waiting requests, in the scheduler and the simulator."""

import sys
from pathlib import Path

import pytest

from cotenant import scheduling
from cotenant.scheduling import Arrived, ChunkDone, Contract, DeviceScheduler, Fairness, Settings, StartChunk, Tick
from cotenant.scheduling.simulation import Arrival, SimulatedDevice, simulate
from cotenant.scheduling.waiting import VIEW

from .worker import decoder, encoder

HERE = str(Path(scheduling.__file__).parent)
FEW, MANY = 1_000, 8_000


class Steps:
    """Counts the lines of `scheduling` that run: the same on any machine."""

    def __enter__(self):
        self.count = 0
        self._before = sys.gettrace()

        def line(frame, event, arg):
            self.count += event == "line"
            return line

        sys.settrace(lambda frame, event, arg: line if frame.f_code.co_filename.startswith(HERE) else None)
        return self

    def __exit__(self, *failure):
        sys.settrace(self._before)


def backlogged(waiting, *, fairness=Fairness.SHARES):
    """A scheduler with a running chunk and so many requests behind it, of three tenants with different objectives."""
    costs = {"quick": encoder(each_s=1e-4, curve=(1.0, 1.6)), "slow": encoder(chunks=3, each_s=1e-4), "gpt": decoder()}
    objectives = {"quick": 900.0, "slow": 2000.0, "gpt": 4000.0}
    contracts = [(Contract(name, objectives[name]), costs[name]) for name in costs]
    scheduler = DeviceScheduler(contracts, Settings(fairness=fairness))
    started = []
    for number in range(waiting):
        tenant = ("quick", "slow", "gpt")[number % 3]
        out = scheduler.handle(Arrived(number * 1e-6, number, tenant))
        started += [one.chunk for one in out if isinstance(one, StartChunk)]
    assert scheduler.unanswered == waiting
    return scheduler, started[0]


def steps_of(waiting, event, **options):
    scheduler, running = backlogged(waiting, **options)
    with Steps() as steps:
        event(scheduler, running)
    return steps.count


EVENTS = {
    "an arrival": lambda scheduler, _: scheduler.handle(Arrived(1.0, "new", "slow")),
    "one that is refused": lambda scheduler, _: scheduler.handle(Arrived(1.0, "new", "gpt", deadline=1.001)),
    "one due in the middle": lambda scheduler, _: scheduler.handle(Arrived(1.0, "new", "quick", deadline=3000.0)),
    "the end of a chunk": lambda scheduler, chunk: scheduler.handle(ChunkDone(1.0, chunk.version, 0.0, 1.0)),
    "a tick": lambda scheduler, _: scheduler.handle(Tick(1.0)),
    "the next time to wake up": lambda scheduler, _: scheduler.wake_at(),
    "a predicted wait": lambda scheduler, _: scheduler.predicted_wait_s("slow", 1.0),
}


@pytest.mark.parametrize("fairness", list(Fairness))
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_costs_the_same_however_many_requests_wait(event, fairness):
    few, many = (steps_of(waiting, EVENTS[event], fairness=fairness) for waiting in (FEW, MANY))
    assert few > 0
    assert many < 1.5 * few + 200, f"{many} lines instead of {few}, {MANY // FEW} times as many requests waiting"


@pytest.mark.parametrize("tenant", ["quick", "gpt"])
def test_a_simulation_ten_times_too_fast_costs_the_same_per_request(tenant):
    """As `plan --check` of a plan at ten times its rate."""
    costs = {"quick": encoder(each_s=0.005, curve=(1.0, 1.6, 2.3), spread=0.1), "gpt": decoder()}[tenant]

    def steps_each(requests):
        arrivals = [Arrival(number * costs.total_s / 10, tenant) for number in range(requests)]
        scheduler = DeviceScheduler([(Contract(tenant, 10_000.0), costs)])
        with Steps() as steps:
            result = simulate(arrivals, scheduler, SimulatedDevice({tenant: costs}, noise=0.0))
        assert all(outcome.met for outcome in result.outcomes), "all of them waited"
        return steps.count / requests

    assert steps_each(2400) < 1.25 * steps_each(600)


def test_a_tick_finds_what_it_was_asked_for_in_a_long_queue():
    """The time to wake up is that of a job in view: a tick would not look at the others."""
    scheduler = DeviceScheduler([(Contract("quick", 100.0), encoder(each_s=0.01))])
    for number in range(10 * VIEW):
        scheduler.handle(Arrived(0.0, number, "quick"))
    out = scheduler.handle(Tick(scheduler.wake_at() + 1e-3))
    assert [one.request for one in out if hasattr(one, "why")]
