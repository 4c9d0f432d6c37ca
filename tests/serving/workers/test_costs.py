"""Costs are measured accurately: a device with known times reproduces them."""

import pytest

from cotenant.errors import ServingError
from cotenant.scheduling import Contract, TenantCosts, chunk_cost
from cotenant.serving.workers.admission import Effort, check_floor, measure_costs
from cotenant.serving.workers.work import Call, ChunkProgress, Prompt


class Timed:
    """An engine on its own clock: chunks of 2 and 3 ms, twice that after a gap, a batch of b at (1 + b) / 2."""

    stages = 2

    def __init__(self):
        self.now = 0.0
        self.idle = True
        self.held = set()

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.idle = True

    def take(self, request, _):
        self.held.add(request)

    def free(self, request):
        self.held.discard(request)

    def run(self, requests, stage):
        self._spend((0.002, 0.003)[stage] * (1 + len(requests)) / 2)
        return ChunkProgress()

    def step(self, requests, steps):
        self._spend(0.001 * steps * (3 + len(requests)) / 4)
        return ChunkProgress()

    def _spend(self, seconds):
        self.now += seconds * (2 if self.idle else 1)
        self.idle = False

    def measure(self, work, **options):
        return measure_costs(self, work, clock=self.clock, sleep=self.sleep, effort=Effort(budget_s=0.2), **options)


def test_chunks_are_measured_back_to_back_and_after_a_gap():
    costs = Timed().measure(Call())
    assert [chunk.p50_s for chunk in costs.chunks] == pytest.approx([0.002, 0.003])
    assert [chunk.p90_s for chunk in costs.chunks] == pytest.approx([0.002, 0.003])
    assert [chunk.spaced_s for chunk in costs.chunks] == pytest.approx([0.004, 0.003])


def test_the_batch_curve_passes_through_the_measurements():
    assert Timed().measure(Call(), largest=6).curve.factors == pytest.approx((1, 1.5, 2, 2.5, 3, 3.5))


def test_a_decoder_has_a_step_and_the_curve_of_its_gang():
    costs = Timed().measure(Prompt((1, 2), tokens=9), largest=4)
    assert costs.step.p50_s == pytest.approx(0.001)
    assert costs.step.spaced_s == pytest.approx(0.002)
    assert costs.steps == 8
    assert costs.step_curve.factors == pytest.approx((1, 1.25, 1.5, 1.75))
    assert costs.curve.largest == 1


def test_nothing_stays_held():
    engine = Timed()
    engine.measure(Prompt((1, 2), tokens=9), largest=3)
    assert not engine.held


def test_a_sample_that_fails_is_refused():
    engine = Timed()
    engine.run = lambda requests, _: ChunkProgress(failures={requests[0]: ValueError("no such token")})
    with pytest.raises(ServingError, match="ValueError: no such token"):
        engine.measure(Call())


def test_an_objective_below_the_solo_time_is_refused_with_the_floor():
    costs = TenantCosts((chunk_cost(0.040, cold=1.25),))
    check_floor(Contract("bert", 0.060), costs)
    with pytest.raises(ServingError, match=r"bert can't meet its objective of 45.0 ms.* takes 50.0 ms alone"):
        check_floor(Contract("bert", 0.045), costs)


def test_effort_is_bounded_by_time():
    engine = Timed()
    measure_costs(engine, Call(), clock=engine.clock, sleep=engine.sleep, effort=Effort(budget_s=0.0, least=2))
    assert engine.now < 0.2
