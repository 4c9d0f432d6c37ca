"""Cells that are precise enough are visited less often, and never without their baselines."""

from cotenant.analyse.sharing.slowdown import CurrentSlowdown
from cotenant.measure.dispatch import SELDOM, Visits, cell_of, visited, widths_of
from cotenant.study.expand import expand
from cotenant.study.files import study_from
from cotenant.tenancy.interval import Estimate

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


def test_cells_half_as_wide_as_the_widest_are_visited_in_every_second_block():
    visits = Visits()
    widths = {cell_of(trial): 0.1 for trial in TRIALS if not trial.solo} | dict.fromkeys(PRECISE, 0.04)
    assert visits.note(4, widths, 0.03, relax=True)
    assert visits.of(TRIALS, 3) == visits.of(TRIALS, 6) == TRIALS
    assert labels(visits.of(TRIALS, 5)) == ["b", "b+c", "c"]
    assert not visits.note(4, dict.fromkeys(widths, 0.1), 0.03, relax=True), "too soon to judge again"
    assert visits.note(5, dict.fromkeys(widths, 0.1), 0.03, relax=True)
    assert visits.of(TRIALS, 7) == TRIALS


def test_a_resumed_run_skips_the_same_cells():
    visits = Visits()
    widths = {cell_of(trial): 0.05 for trial in TRIALS if not trial.solo} | dict.fromkeys(PRECISE, 0.03)
    assert visits.note(5, widths, 0.03)
    assert not visits.note(6, widths, 0.03)
    again = Visits(visits.to_json())
    for block in range(12):
        assert again.of(TRIALS, block) == visits.of(TRIALS, block)
    assert again.of(TRIALS, 3) == TRIALS
    assert labels(again.of(TRIALS, 7)) == ["b", "b+c", "c"]


def test_a_precise_cell_with_too_few_requests_for_an_objective_does_not_rest():
    narrow = Estimate(1.0, 0.99, 1.01, 5, "")
    now = [CurrentSlowdown(mix, "processes", "closed(1)", "a", narrow) for mix in ("a+b", "a+c")]
    lacking = {("a+b", "processes", "closed(1)"), ("a", "alone", "closed(1)")}
    widths = widths_of(now, lacking, 0.03)
    assert [mix for (mix, _, _), width in widths.items() if width <= 0.03] == ["a+c"]
    assert len(widths) == 2
