"""Series of a comparison: logarithms of a block's mean, by row, with figures by hand."""

import math
from dataclasses import replace

import pytest

from cotenant.analyse.comparison.series import pooled, series_by_row
from cotenant.analyse.sharing.evidence import relative_to
from tests.analyse.explanation.scenes_of_tenants import Beside, Scene, Tenant

MS = 1e6


def evidence(blocks=(0, 0, 1), latency_ms=(1.0, 4.0, 3.0), **seen):
    """A tenant alone; each trial has its block and its latency."""
    [item] = Scene(Tenant("a"), blocks=1, noise=0.0).alone().evidence
    return [
        replace(
            item,
            service_ns=None,
            clock_mhz=None,
            seen=replace(item.seen, trial=trial, block=block, mean_latency_ns=ms * MS, **seen),
        )
        for trial, (block, ms) in enumerate(zip(blocks, latency_ms, strict=True))
    ]


def only(items):
    [series] = series_by_row(items).values()
    return series


def test_a_block_is_one_replicate_however_many_trials_it_has():
    series = only(evidence())
    assert series.time == pytest.approx({0: math.log(2 * MS), 1: math.log(3 * MS)}), "the geometric mean of 1 and 4"
    assert series.service == series.time, "without a queue that is known"
    assert (series.trials, series.cycles, series.clock, series.ttft, series.tpot) == (3, {}, {}, {}, {})


def test_cycles_are_time_at_the_clock():
    items = [replace(item, clock_mhz=clock) for item, clock in zip(evidence(), (1000.0, 1000.0, None), strict=True)]
    series = only(items)
    assert series.clock == pytest.approx({0: math.log(1000)})
    assert series.cycles == pytest.approx({0: math.log(2 * MS * 1000)})


def test_requests_that_were_not_served():
    series = only(evidence(unfinished=25))
    assert series.offered == pytest.approx(dict.fromkeys((0, 1), math.log(1.25)))
    assert series.unserved == pytest.approx(0.2)
    assert series.overloaded
    served = only(evidence())
    assert (served.overloaded, served.unserved) == (False, 0.0)
    assert not only(evidence(unfinished=1)).overloaded, "one in a hundred is the limit"
    assert only(evidence(unfinished=2)).overloaded


def test_trials_that_can_not_be_used_are_counted_by_their_checks():
    good, bad, empty = evidence()
    bad = replace(bad, seen=replace(bad.seen, verdict="invalid", failed_checks=("quiet_machine",)))
    empty = replace(empty, seen=replace(empty.seen, n=0))
    series = only([good, bad, empty])
    assert series.time == pytest.approx({0: math.log(MS)})
    assert (series.trials, series.unusable) == (3, {"quiet_machine": 1})


def test_rates_are_those_that_were_meant():
    items = [replace(item, rate_rps=rate) for item, rate in zip(evidence(), (2.0, 4.0, None), strict=True)]
    assert only(items).rate_rps == 3.0
    assert only(evidence()).rate_rps is None


def test_rows_alone_come_first_and_blocks_around_the_study_not_at_all():
    scene = Scene(Tenant("a"), Tenant("b"), blocks=1).mix({"a": Beside(), "b": Beside()}).alone()
    rows = list(series_by_row(scene.evidence))
    assert [(row.solo, row.tenant) for row in rows] == [(True, "a"), (True, "b"), (False, "a"), (False, "b")]
    assert rows[0].to_json()["solo"] is True
    assert "with_neighbours" not in rows[0].to_json()
    assert series_by_row(evidence(blocks=(-1, -1, -1))) == {}


def test_series_meet_in_the_blocks_that_both_have():
    assert pooled([{0: 1.0, 1: 2.0}, {1: 4.0, 2: 9.0}]) == {1: 3.0}
    assert pooled([]) == {}
    assert relative_to({0: 5.0, 1: 7.0}, {1: 3.0, 2: 1.0}) == {1: 4.0}
