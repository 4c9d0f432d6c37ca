import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling import (
    BatchCurve,
    ChunkCost,
    Contract,
    DeviceScheduler,
    ServiceClass,
    TenantCosts,
    settle_shares,
    some_batches,
)

from .worker import encoder


def test_shares_default_to_equal_parts_of_what_is_left():
    contracts = [Contract("a", 0.03, share=0.5), Contract("b", 0.03), Contract("c", 0.03)]
    assert settle_shares(contracts) == {"a": 0.5, "b": 0.25, "c": 0.25}


def test_a_best_effort_tenant_gets_no_share():
    contracts = [Contract("a", 0.03), Contract("b", 0.03, service=ServiceClass.BEST_EFFORT)]
    assert settle_shares(contracts) == {"a": 1.0, "b": 0.0}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Contract("a", 0.0), "positive time"),
        (lambda: Contract("a", 0.03, share=1.2), "between 0 and 1"),
        (lambda: Contract("", 0.03), "name"),
        (lambda: Contract("a", 0.03, share=0.1, service=ServiceClass.BEST_EFFORT), "best-effort"),
        (lambda: settle_shares([Contract("a", 1, share=0.7), Contract("b", 1, share=0.6)]), "add up to 1.30"),
        (lambda: settle_shares([Contract("a", 1, share=1.0), Contract("b", 1)]), "nothing for b"),
        (lambda: settle_shares([Contract("a", 1), Contract("a", 1)]), "two contracts"),
        (lambda: ChunkCost(0.01, 0.005, 0.01), "p90"),
        (lambda: BatchCurve((1.0, 0.9)), "can't fall"),
        (lambda: TenantCosts(()), "at least one chunk"),
        (
            lambda: DeviceScheduler([(Contract("a", 0.005), encoder(each_s=0.010))]),
            "below the 10 ms that one request takes",
        ),
    ],
)
def test_errors_are_one_sentence(make, words):
    with pytest.raises(SchedulingError, match=words) as raised:
        make()
    assert raised.value.message.endswith(".")
    assert raised.value.message.count(". ") == 0


def test_a_curve_goes_straight_through_the_measured_batches_and_never_falls():
    assert some_batches(6) == [1, 2, 4, 6]
    assert BatchCurve.through({1: 2.0, 2: 3.0, 4: 4.0}).factors == (1.0, 1.5, 1.75, 2.0)
    assert BatchCurve.through({1: 2.0, 4: 1.0}).factors == (1.0, 1.0, 1.0, 1.0)
    assert BatchCurve.through({1: 5.0}).factors == (1.0,)


def test_a_batch_past_the_largest_measured_is_paid_in_parts():
    curve = BatchCurve((1.0, 1.5))
    assert [curve.at(batch) for batch in (1, 2, 3, 4)] == [1.0, 1.5, 2.5, 3.0]
