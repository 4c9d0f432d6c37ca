"""Contracts and settings at their limits."""

import math

import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling.contract import Contract, ServiceClass, Settings, settle_shares


@pytest.mark.parametrize(
    "bad",
    [
        {"tenant": ""},
        {"objective_s": 0.0},
        {"objective_s": -1.0},
        {"objective_s": math.inf},
        {"share": -0.1},
        {"share": 1.1},
        {"share": 0.1, "service": ServiceClass.BEST_EFFORT},
        {"per_step_s": -0.1},
        {"patience": 0.9},
    ],
)
def test_a_contract_is_refused(bad):
    with pytest.raises(SchedulingError):
        Contract(**{"tenant": "a", "objective_s": 0.1} | bad)


@pytest.mark.parametrize(
    "good",
    [
        {"share": 0.0},
        {"share": 1.0},
        {"patience": 1.0},
        {"per_step_s": 0.0},
        {"share": 0.0, "service": ServiceClass.BEST_EFFORT},
    ],
)
def test_a_contract_at_its_limits_is_accepted(good):
    assert Contract("a", 0.1, **good).within_s(3) == pytest.approx(0.1)
    assert Contract("a", 0.1, per_step_s=0.02).within_s(3) == pytest.approx(0.16)


def test_what_is_left_is_split_equally():
    best = Contract("d", 1, service=ServiceClass.BEST_EFFORT)
    shares = settle_shares([Contract("a", 1, share=0.4), Contract("b", 1), Contract("c", 1), best])
    assert shares == pytest.approx({"a": 0.4, "b": 0.3, "c": 0.3, "d": 0.0})
    assert settle_shares([Contract("a", 1, share=1.0)]) == {"a": 1.0}
    for bad in ([("a", 0.6), ("b", 0.5)], [("a", 1.0), ("b", None)], [("a", 0.1), ("a", 0.1)]):
        with pytest.raises(SchedulingError):
            settle_shares([Contract(name, 1, share=share) for name, share in bad])


@pytest.mark.parametrize(
    "bad",
    [
        {"slots": 0},
        {"log_every": 0},
        {"log_length": 0},
        {"burst": -1},
        {"reserve": -1},
        {"margin": -1},
        {"backlog": -1},
        {"gap_s": -1},
        {"way_s": -1},
        {"cache_bytes": 0},
        {"memory_s": 0.0},
    ],
)
def test_settings_are_refused(bad):
    with pytest.raises(SchedulingError):
        Settings(**bad)


def test_settings_at_their_limits():
    Settings(
        slots=1, log_every=1, log_length=1, burst=0, reserve=0, margin=0, backlog=0, gap_s=0, way_s=0, cache_bytes=1
    )
    usual = Settings()
    assert (usual.burst, usual.reserve, usual.margin, usual.memory_s, usual.gap_s, usual.backlog) == (
        2.0,
        1.5,
        0.1,
        2.0,
        0.001,
        2.0,
    )
    assert (usual.slots, usual.queue_ahead, usual.longest_retry_s, usual.log_every, usual.log_length) == (
        1,
        True,
        60.0,
        16,
        1024,
    )
    assert Contract("a", 1).patience == 10.0
