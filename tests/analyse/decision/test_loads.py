"""The finding of a study over several rates: what is known first."""

import pytest

from cotenant.analyse.decision import decide
from cotenant.analyse.decision.option import behind
from cotenant.analyse.findings import load_findings
from tests.analyse.decision.truth import Truth


def at(rate, time_ms, limit_ms=30, requests=300, arrivals="poisson"):
    run = Truth(rate=rate, requests=requests, arrivals=arrivals).solos(a=(10, limit_ms), b=(10, limit_ms))
    return run.trials("mps", {"a": (time_ms, limit_ms), "b": (time_ms, limit_ms)})


def findings(*runs):
    first, *others = runs
    for other in others:
        first.and_at(other)
    summary = first.summary()
    return load_findings(decide(summary), summary)


def test_the_rate_up_to_which_objectives_are_kept_comes_first_and_then_the_knee():
    assert findings(at(5, 11), at(10, 14), at(20, 60)) == [
        "a + b together keep every objective up to 10 requests/s each.",
        "The knee, beyond which a median latency more than doubles: 10 requests/s each.",
    ]


def test_a_knee_that_is_known_comes_before_objectives_that_are_not():
    few = {"limit_ms": 60, "requests": 2}
    said = findings(at(5, 48.9, **few), at(10, 49, **few), at(20, 49.1, **few))
    assert said == [
        "No median latency doubles up to 20 requests/s each, the heaviest load tried.",
        "Whether a + b together keep every objective is unclear at every load tried.",
    ]


def test_a_rate_of_one_is_singular():
    assert findings(at(0.5, 11), at(1, 14), at(2, 60))[0].endswith("up to 1 request/s each.")
    assert findings(at(0.25, 11), at(0.5, 11), at(1, 11))[1].startswith("No median latency doubles up to 1 request/s")


def test_without_objectives_the_knee_is_the_finding():
    runs = [at(rate, time_ms, limit_ms=None) for rate, time_ms in ((5, 11), (10, 12), (20, 30))]
    assert findings(*runs) == ["The knee, beyond which a median latency more than doubles: 10 requests/s each."]


def test_arrivals_under_which_no_load_is_certain_are_named_apart():
    known = [at(5, 11), at(10, 14), at(20, 60)]
    missed = [at(rate, 60, arrivals="trace") for rate in (5, 10, 20)]
    assert findings(*known, *missed)[0] == (
        "a + b together keep every objective up to 10 requests/s each under poisson; under trace no load tried is "
        "certain."
    )


@pytest.mark.parametrize(
    ("served_rps", "measured_s", "falls_behind"),
    [
        (0.905, 150, False),  # 136 of 150: one count in eight is as small
        (0.905, 15_000, True),
        (0.96, 1e6, False),  # within what counts as keeping up
        (0.0, 0, True),
    ],
)
def test_fewer_requests_than_arrive_are_an_overload_only_beyond_chance(served_rps, measured_s, falls_behind):
    assert behind(1.0, served_rps, measured_s) is falls_behind
    assert not behind(None, served_rps, measured_s)
