import re
from dataclasses import replace

from cotenant.analyse.sharing.closing import closing_sentences
from cotenant.analyse.sharing.summarise import summarise


def text(run, target=None):
    return closing_sentences(summarise(run.observations), target)


def matching(lines, part):
    return [line for line in lines if part in line]


def solos(run, **options):
    return run.trials("bert", "alone", {"bert": 10}, **options).trials("gpt", "alone", {"gpt": 20}, **options)


def test_a_slowdown_with_its_interval_neighbour_and_sharing(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "processes", {"bert": 16.2, "gpt": 30})
    (line,) = matching(text(run), "bert runs")
    assert line.startswith("bert runs 1.6")
    assert "x slower [1." in line
    assert line.endswith("beside gpt (processes).")


def test_no_slowdown_is_reported_as_equivalence_within_bounds(synthetic_run):
    run = solos(synthetic_run(seed=5)).trials("bert+gpt", "pinned", {"bert": 10, "gpt": 20})
    (line,) = matching(text(run), "gpt runs")
    assert "as fast as alone within ±" in line
    assert "no effect" not in " ".join(text(run))


def test_an_interval_too_wide_for_a_conclusion_is_not_clear(synthetic_run):
    run = solos(synthetic_run(blocks=3, block_noise=0.2)).trials("bert+gpt", "threads", {"bert": 11, "gpt": 22})
    assert matching(text(run), "not clear whether")


def test_one_block_has_no_interval(synthetic_run):
    run = solos(synthetic_run(blocks=1)).trials("bert+gpt", "threads", {"bert": 15, "gpt": 30})
    assert matching(text(run), "from one block, so without an interval")


def test_slowdowns_are_those_of_the_best_way_to_share(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "pinned", {"bert": 12, "gpt": 24})
    run.trials("bert+gpt", "processes", {"bert": 18, "gpt": 36})
    lines = text(run)
    assert matching(lines, "(pinned)")
    assert not matching(lines, "(processes)"), "its numbers are in the table"


def test_of_many_slowdowns_only_the_largest_are_reported(synthetic_run):
    run = synthetic_run()
    for number in range(20):
        run.trials(f"t{number}", "alone", {f"t{number}": 10})
    for number in range(0, 20, 2):
        pair = {f"t{number}": 12 + number, f"t{number + 1}": 12}
        run.trials(f"t{number}+t{number + 1}", "processes", pair)
    lines = matching(text(run), "x slower")
    assert len(lines) == 12
    assert lines[0].startswith("t18 runs")


def test_a_missed_objective_is_reported_with_its_numbers(synthetic_run):
    run = solos(synthetic_run(), slo_ms=30).trials("bert+gpt", "pinned", {"bert": 12, "gpt": 34}, slo_ms=30)
    assert matching(text(run), "gpt misses its 30 ms for 90 % of requests in bert+gpt (pinned)")


def test_imprecise_numbers_say_how_much_longer_to_measure(synthetic_run):
    run = solos(synthetic_run(blocks=3, requests=40)).trials("bert+gpt", "threads", {"bert": 15, "gpt": 30})
    lines = text(run, target=0.001)
    assert matching(lines, "slowdowns are not yet known to ±0.1 %")
    (line,) = matching(lines, "quantiles need more requests")
    assert re.search(r"needs \d+ and has 120: measure it \d+ s longer", line)
    assert not matching(text(run, target=0.9), "not yet known")


def test_rejected_trials_are_named_with_their_checks(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "mps", {"bert": 15, "gpt": 30}, verdicts=["invalid"] * 6)
    assert matching(text(run), "6 of 18 trials were not valid (clock-steady: 6); the 6 invalid ones were left out.")


def test_copies_and_conditions_that_vary_are_spelled_out(synthetic_run):
    run = synthetic_run()
    for load in ("closed(1)", "closed(4)"):
        run.trials("bert", "alone", {"bert": 10}, load=load)
        run.trials("3 x bert", "processes", {"bert#1": 30, "bert#2": 30, "bert#3": 30}, load=load)
    assert matching(text(run), "beside 2 copies of itself (processes, closed(4))")


def test_simulated_numbers_are_labelled(synthetic_run):
    rows = [replace(row, simulated=True) for row in solos(synthetic_run()).observations]
    assert "Simulated" in closing_sentences(summarise(rows))[-1]


def test_an_empty_summary_has_no_sentences():
    assert closing_sentences(summarise([])) == []
