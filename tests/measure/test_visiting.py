"""Cells that are precise enough are visited less often, and never without their baselines."""

from cotenant.measure.visiting import SELDOM, Visits, cell_of, visited
from cotenant.study.expand import expand
from cotenant.study.files import study_from

STUDY = study_from({"tenants": {name: {"workload": "spin"} for name in "abc"}, "mixes": ["solo", "pairs"]})
TRIALS = expand(STUDY, 1, ("processes",)).trials
PRECISE = {("a+b", "processes", "closed(1)"), ("a+c", "processes", "closed(1)")}


def labels(trials):
    return sorted(trial.mix for trial in trials)


def test_time_goes_to_imprecise_cells_and_their_baselines():
    assert labels(visited(TRIALS, 1, PRECISE)) == ["b", "b+c", "c"]


def test_every_so_often_all_cells_are_visited():
    assert visited(TRIALS, SELDOM, PRECISE) == TRIALS
    assert visited(TRIALS, 1, ()) == TRIALS


def test_when_all_are_precise_none_is_skipped():
    assert visited(TRIALS, 1, {cell_of(trial) for trial in TRIALS}) == TRIALS


def test_a_resumed_run_skips_the_same_cells():
    visits = Visits()
    assert visits.note(5, PRECISE)
    assert not visits.note(6, PRECISE)
    again = Visits(visits.to_json())
    for block in range(12):
        assert again.of(TRIALS, block) == visits.of(TRIALS, block)
    assert again.of(TRIALS, 3) == TRIALS
    assert labels(again.of(TRIALS, 7)) == ["b", "b+c", "c"]
