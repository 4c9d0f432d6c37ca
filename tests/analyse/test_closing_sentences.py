import re
from dataclasses import replace

from cotenant.analyse.sharing.sentences import closing_sentences
from cotenant.analyse.sharing.summary import summarise


def told(run, target=None):
    return closing_sentences(summarise(run.observations), target)


def matching(lines, part):
    return [line for line in lines if part in line]


def solos(run, **options):
    return run.trials("bert", "alone", {"bert": 10}, **options).trials("gpt", "alone", {"gpt": 20}, **options)


def test_a_slowdown_with_its_interval_neighbour_and_sharing(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "processes", {"bert": 16.2, "gpt": 30})
    (line,) = matching(told(run), "bert runs")
    assert line.startswith("bert runs 1.6")
    assert "x slower [1." in line
    assert line.endswith("beside gpt (processes).")


def test_no_slowdown_is_said_as_equivalence_within_bounds(synthetic_run):
    run = solos(synthetic_run(seed=5)).trials("bert+gpt", "pinned", {"bert": 10, "gpt": 20})
    (line,) = matching(told(run), "gpt runs")
    assert "as fast as alone within +-" in line
    assert "no effect" not in " ".join(told(run))


def test_an_interval_too_wide_to_say_anything_says_so(synthetic_run):
    run = solos(synthetic_run(blocks=3, block_noise=0.2)).trials("bert+gpt", "threads", {"bert": 11, "gpt": 22})
    assert matching(told(run), "not clear whether")


def test_one_block_has_no_interval(synthetic_run):
    run = solos(synthetic_run(blocks=1)).trials("bert+gpt", "threads", {"bert": 15, "gpt": 30})
    lines = told(run)
    assert matching(lines, "from one block, so without an interval")
    assert lines[-1] == "Run more blocks before deciding on bert+gpt: one block has no interval."


def test_nothing_is_advised_on_trials_that_all_failed_a_check(synthetic_run):
    run = synthetic_run()
    shaky = ["unstable"] * run.blocks
    solos(run).trials("bert+gpt", "pinned", {"bert": 12, "gpt": 24}, verdicts=shaky)
    undecided = "Don't decide on bert+gpt yet: no trial of what looks best passed every check; mend those that failed."
    assert told(run)[-1] == undecided
    run.trials("bert+gpt", "threads", {"bert": 25, "gpt": 50})
    assert told(run)[-1] == undecided, "that threads cost more than they give says nothing about the other way"
    run.trials("bert+gpt", "processes", {"bert": 14, "gpt": 28})
    assert told(run)[-1].startswith("Share bert+gpt (processes): 1.4"), "slower, but it can be trusted"


def test_more_than_all_tenants_alone_is_not_believed(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "pinned", {"bert": 3, "gpt": 6})
    assert told(run)[-1].startswith("Don't believe bert+gpt: it did more than all its tenants alone")


def test_work_against_taking_turns_and_the_best_sharing_last(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "pinned", {"bert": 12, "gpt": 24})
    run.trials("bert+gpt", "processes", {"bert": 18, "gpt": 36})
    lines = told(run)
    assert lines[-1].startswith("Share bert+gpt (pinned): 1.6")
    assert "the work of taking turns" in lines[-1]
    assert not matching(lines, "(processes)")  # its numbers are in the table; the sentences are about the best way


def test_mixes_that_gain_nothing_are_named_together(synthetic_run):
    run = solos(synthetic_run()).trials("resnet", "alone", {"resnet": 5})
    run.trials("bert+gpt", "processes", {"bert": 20, "gpt": 40})
    run.trials("bert+resnet", "processes", {"bert": 20, "resnet": 10})
    (line,) = matching(told(run), "gains nothing")
    assert "bert+gpt, bert+resnet" in line


def test_of_many_slowdowns_only_the_largest_are_told(synthetic_run):
    run = synthetic_run()
    for number in range(20):
        run.trials(f"t{number}", "alone", {f"t{number}": 10})
    for number in range(0, 20, 2):
        pair = {f"t{number}": 12 + number, f"t{number + 1}": 12}
        run.trials(f"t{number}+t{number + 1}", "processes", pair)
    lines = matching(told(run), "x slower")
    assert len(lines) == 12
    assert lines[0].startswith("t18 runs")


def test_sharings_that_can_not_be_told_apart_are_named_together(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "pinned", {"bert": 12, "gpt": 24})
    run.trials("bert+gpt", "processes", {"bert": 12, "gpt": 24})
    assert "can't be told apart" in told(run)[-1]


def test_sharing_that_costs_is_advised_against(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "processes", {"bert": 30, "gpt": 60})
    assert told(run)[-1].startswith("Don't share bert+gpt:")


def test_an_objective_that_sharing_breaks_speaks_against_it(synthetic_run):
    run = solos(synthetic_run(), slo_ms=30).trials("bert+gpt", "pinned", {"bert": 12, "gpt": 34}, slo_ms=30)
    lines = told(run)
    assert matching(lines, "gpt misses its 30 ms for 90 % of requests in bert+gpt (pinned)")
    assert "gpt would miss the objective" in lines[-1]


def test_an_objective_missed_alone_is_not_blamed_on_sharing(synthetic_run):
    run = solos(synthetic_run(), slo_ms=15).trials("bert+gpt", "pinned", {"bert": 10, "gpt": 22}, slo_ms=15)
    assert told(run)[-1].startswith("Share bert+gpt")


def test_what_is_not_precise_enough_says_how_much_longer(synthetic_run):
    run = solos(synthetic_run(blocks=3, requests=40)).trials("bert+gpt", "threads", {"bert": 15, "gpt": 30})
    lines = told(run, target=0.001)
    assert matching(lines, "slowdowns are not yet known to +-0.1 %")
    (line,) = matching(lines, "quantiles want more requests")
    assert re.search(r"needs \d+ and has 120: measure it \d+ s longer", line)
    assert not matching(told(run, target=0.9), "not yet known")


def test_rejected_trials_are_named_with_their_checks(synthetic_run):
    run = solos(synthetic_run()).trials("bert+gpt", "mps", {"bert": 15, "gpt": 30}, verdicts=["invalid"] * 6)
    lines = told(run)
    assert matching(lines, "6 of 18 trials were not valid (clock-steady 6); the 6 invalid ones were left out.")
    assert lines[-1].startswith("No mix can be judged")


def test_copies_and_conditions_that_vary_are_spelled_out(synthetic_run):
    run = synthetic_run()
    for load in ("closed(1)", "closed(4)"):
        run.trials("bert", "alone", {"bert": 10}, load=load)
        run.trials("3 x bert", "processes", {"bert#1": 30, "bert#2": 30, "bert#3": 30}, load=load)
    assert matching(told(run), "beside 2 copies of itself (processes, closed(4))")


def test_simulated_numbers_are_called_so(synthetic_run):
    rows = [replace(row, simulated=True) for row in solos(synthetic_run()).observations]
    assert "Simulated" in closing_sentences(summarise(rows))[-1]


def test_nothing_to_say_about_nothing():
    assert closing_sentences(summarise([])) == []
