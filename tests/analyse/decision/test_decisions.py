"""The decision over mixes and ways to share, on runs with known truth."""

import re
import shlex
from io import StringIO
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from cotenant.analyse.decision import decide
from cotenant.analyse.decision.option import chance_below, objective_of
from cotenant.analyse.decision.remedies import what_would_tell
from cotenant.analyse.decision.wording import decision_word, headline, in_words, option_sentence, slowdowns, verdict
from cotenant.analyse.tabular import plain
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.results.decided import answer_elements
from cotenant.study.files import load_study
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.records import ModelErrorRecord
from cotenant.text import percent
from tests.analyse.decision.truth import Truth

WIDE = ModelErrorRecord("kind", True, "", time=(0.7, 1.4), slowdown=(0.7, 1.4), tail=(0.7, 1.4))


def free(time_ms):
    return time_ms, None


def test_the_way_that_keeps_every_objective_wins_over_one_that_does_more_work():
    run = Truth().solos(a=(10, 30), b=(10, 30))
    run.trials("threads", {"a": (11, 30), "b": (35, 30)}).trials("mps", {"a": (16, 30), "b": (16, 30)})
    choice = run.answer().main
    assert (choice.verdict, choice.best.cell.sharing) == ("share", "mps")
    assert headline(run.answer())[0].startswith("Share a + b by mps: every objective is kept")


def test_a_missed_objective_is_never_recommended():
    run = Truth().solos(a=(10, 30), b=(10, 30)).trials("mps", {"a": (12, 30), "b": (40, 30)})
    answer = run.answer()
    assert (answer.main.verdict, answer.main.because) == ("apart", "missed shared")
    assert headline(answer)[0].startswith("Don't share a + b: b misses its objective (p90 is")


def test_a_tenant_that_misses_alone_is_named_first():
    run = Truth().solos(a=(40, 30), b=(10, 30)).trials("mps", {"a": (45, 30), "b": (12, 30)})
    said = headline(run.answer())
    assert said[0].startswith("a misses its objective even alone: p90 is")
    assert (
        said[1]
        == "Don't put a + b on this device: a misses its objective even alone (run by eager, the default software)."
    )


def test_an_open_objective_names_the_measurement_that_would_decide():
    run = Truth(requests=3, blocks=3).solos(a=(10, 60), b=(10, 60)).trials("mps", {"a": (49.5, 60), "b": (15, 60)})
    choice = run.answer().main
    assert choice.verdict == "open"
    assert what_would_tell(choice).startswith("measure a + b for ")


def test_without_objectives_work_decides_and_the_payer_is_named():
    run = Truth().solos(a=free(10), b=free(10))
    run.trials("processes", {"a": free(12), "b": free(16)}).trials("threads", {"a": free(24), "b": free(25)})
    answer = run.answer()
    assert (answer.main.verdict, answer.main.best.cell.sharing) == ("share", "processes")
    assert "b pays most, 1." in headline(answer)[0]


def test_where_rates_are_given_sharing_is_described_by_how_long_requests_take():
    run = Truth(rate=5).solos(a=(10, 30), b=(10, 30))
    run.trials("mps", {"a": (11, 30), "b": (11, 30)}).trials("threads", {"a": (14, 30), "b": (14, 30)})
    (said,), best = headline(run.answer()), run.answer().main.best
    assert "requests take 1.1" in said
    assert "as long as alone" in said
    assert "work" not in said
    assert best.gauge == best.delay
    console = Console(file=StringIO(), width=80)
    console.print(*to_terminal(answer_elements(run.answer())))
    assert "work" not in console.file.getvalue()
    assert option_sentence(run.answer().main.options[1]).startswith("threads makes requests take 1.4")


def test_less_work_than_taking_turns_is_not_shared():
    run = Truth().solos(a=free(10), b=free(10)).trials("threads", {"a": free(25), "b": free(25)})
    assert run.answer().main.because == "does less work"


def test_work_within_the_margin_of_taking_turns_gains_nothing():
    run = Truth(noise=0.002).solos(a=free(10), b=free(10)).trials("threads", {"a": free(20), "b": free(20)})
    assert run.answer().main.because == "gains nothing"


def test_noise_leaves_it_open_and_names_what_would_decide():
    run = Truth(noise=0.25, blocks=4).solos(a=free(10), b=free(10)).trials("threads", {"a": free(19), "b": free(19)})
    choice = run.answer().main
    assert (choice.verdict, choice.because) == ("open", "too few blocks")
    assert "blocks" in what_would_tell(choice)


def test_a_starved_tenant_speaks_against_sharing():
    run = Truth().solos(a=free(10), b=free(10)).trials("mps", {"a": free(10.1), "b": free(60)})
    assert run.answer().main.because == "starves a tenant"


def test_no_mix_is_kept_apart_while_a_way_that_may_keep_its_objectives_has_no_trusted_trial():
    run = Truth().solos(a=(10, 30), b=(10, 30))
    run.trials("mps", {"a": (60, 30), "b": (60, 30)})
    run.trials("processes", {"a": (15, 30), "b": (15, 30)}, verdict="unstable")
    choice = run.answer().main
    assert (choice.verdict, choice.because, choice.best.cell.sharing) == ("open", "no trial passed", "processes")
    assert [one.cell.sharing for one in choice.options] == ["processes", "mps"]
    run = Truth().solos(a=(10, 30), b=(10, 30))
    run.trials("mps", {"a": (60, 30), "b": (60, 30)})
    run.trials("processes", {"a": (70, 30), "b": (70, 30)}, verdict="unstable")
    assert run.answer().main.because == "missed shared", "it misses them too, as far as can be seen"


def test_untrusted_trials_decide_nothing():
    run = Truth().solos(a=free(10), b=free(10)).trials("mps", {"a": free(12), "b": free(12)}, "unstable")
    assert run.answer().main.because == "no trial passed"


def test_of_ways_without_a_valid_trial_the_one_that_looks_best_is_to_be_measured_again():
    run = Truth().solos(a=free(10), b=free(10))
    run.trials("pinned", {"a": free(90), "b": free(22)}, "unstable")
    run.trials("processes", {"a": free(12), "b": free(12)}, "unstable")
    assert headline(run.answer())[0] == "Can't tell yet about a + b: no trial of processes passed every check."


def test_ways_that_overlap_are_named_as_rivals():
    run = Truth(noise=0.05).solos(a=free(10), b=free(10))
    run.trials("mps", {"a": free(12), "b": free(12)}).trials("streams", {"a": free(12.1), "b": free(12.1)})
    assert len(run.answer().main.rivals) == 1
    assert "may be as good" in headline(run.answer())[0]


def test_the_largest_mix_comes_first_and_a_subset_that_works_is_offered():
    run = Truth().solos(a=(10, 30), b=(10, 30), c=(10, 30))
    run.trials("mps", {"a": (40, 30), "b": (40, 30), "c": (40, 30)}).trials("mps", {"a": (15, 30), "b": (15, 30)})
    said = headline(run.answer())
    assert said[0].startswith("Don't share a + b + c")
    assert said[1].startswith("Share a + b by mps")


def test_copies_are_grouped():
    run = Truth().solos(gpt=free(10)).trials("mps", {f"gpt#{n}": free(31) for n in range(1, 11)})
    assert slowdowns(run.answer().main.best) == "gpt x10: 3.10x each"


def test_trials_that_all_failed_a_check_support_no_recommendation():
    run = Truth().solos(a=free(10), b=free(20)).trials("pinned", {"a": free(12), "b": free(24)}, "unstable")
    assert headline(run.answer())[0] == "Can't tell yet about a + b: no trial of pinned passed every check."
    run.trials("threads", {"a": free(25), "b": free(50)})
    choice = run.answer().main
    assert (choice.verdict, choice.because) == ("open", "no trial passed"), "threads say nothing about the other way"
    run.trials("processes", {"a": free(14), "b": free(28)})
    assert headline(run.answer())[0].startswith("Share a + b by processes: 1.4"), "slower, but it can be trusted"


def test_more_than_all_tenants_alone_is_not_believed():
    run = Truth().solos(a=free(10), b=free(20)).trials("pinned", {"a": free(3), "b": free(6)})
    assert run.answer().main.because == "disturbed"


def test_a_gain_that_two_decimals_would_not_show_is_ignored():
    run = (
        Truth(noise=1e-6, requests=20_000)
        .solos(a=free(10), b=free(10))
        .trials("mps", {"a": free(19.99), "b": free(19.99)})
    )
    choice = run.answer().main
    assert (choice.verdict, choice.because) == ("apart", "gains nothing")


def test_one_block_decides_nothing():
    run = Truth(blocks=1).solos(a=free(10), b=free(20)).trials("pinned", {"a": free(12), "b": free(24)})
    choice = run.answer().main
    assert (choice.verdict, choice.because) == ("open", "too few blocks")
    assert "run more blocks" in what_would_tell(choice)


def test_every_other_way_to_share_has_its_own_sentence():
    run = Truth().solos(a=(10, 30), b=(10, 30))
    run.trials("mps", {"a": (12, 30), "b": (12, 30)}).trials("threads", {"a": (40, 30), "b": (12, 30)})
    run.trials("pinned", {"a": (12, 30), "b": (12, 30)}, "invalid")
    said = [option_sentence(one) for one in run.answer().main.options]
    assert any(line.startswith("threads does 1.") and line.endswith("a missed.") for line in said)


def test_the_answer_is_plain_data_too():
    run = Truth().solos(a=(10, 30), b=(10, 30)).trials("mps", {"a": (12, 30), "b": (12, 30)})
    data = plain(in_words(run.answer()))
    assert data["headline"][0].startswith("Share a + b by mps")
    assert (data["choices"][0]["verdict"], data["choices"][0]["options"][0]["objectives"]) == ("share", "kept")
    assert data["choices"][0]["options"][0]["work"]["est"] == pytest.approx(1.67, abs=0.1)


def test_the_answer_and_what_stands_below_it_fit_a_screen_of_25_lines():
    names = ("search", "ranker", "tagger", "chat", "draft")
    run = Truth(blocks=4).solos(**dict.fromkeys(names[:3], (10, 30)), **dict.fromkeys(names[3:], (40, 30)))
    for size in (5, 4, 3, 2):
        for members in combinations(names, size):
            run.trials("mps", {name: (12 if name in names[:3] else 44, 30) for name in members})
    console = Console(width=80, record=True, file=StringIO())
    parts = to_terminal(answer_elements(run.answer()))
    for part in parts:
        console.print(part)
    lines = console.export_text().splitlines()
    note_and_next_commands = 1 + 2 + 1 + 4
    assert len(lines) + len(parts) - 1 + note_and_next_commands <= 25
    assert lines[0].startswith("chat misses its objective even alone"), "who misses alone is named first"
    assert any("more mixes" in line for line in lines)


def simulated(p99_ms, lo=None, hi=None):
    """A tenant of a shared cell whose requests were all in time, with a simulation that may be wrong threefold."""
    return SimpleNamespace(
        cell=SimpleNamespace(simulated=True, solo=False),
        slo=SimpleNamespace(
            quantile=0.99, answer="met", share=SimpleNamespace(est=1.0, n=400), needs_n=None, metric="latency"
        ),
        slo_ms=30.0,
        latency_ms={"p99": Estimate(p99_ms, lo, hi, 400)},
        throughput_rps=SimpleNamespace(est=40.0),
        model_error=ModelErrorRecord("kind", True, "", time=(1.0, 1.0), slowdown=(0.5, 2.0), tail=(1 / 3, 3.0)),
    )  # fmt: skip


def test_the_simulations_error_leaves_an_objective_open_also_where_too_few_requests_give_no_interval():
    assert objective_of(simulated(9.0)).answer == "kept"
    assert objective_of(simulated(11.0)).answer == "open"
    assert objective_of(simulated(11.0, 5.0, 29.0)).answer == "kept", "the interval holds the error already"


def test_an_objective_within_the_simulations_error_is_not_decided_by_more_simulated_requests():
    tenant = simulated(11.0)
    tenant.slo.needs_n, tenant.slo.answer = 4000, "undecided"
    assert objective_of(tenant).more_s is None
    tenant.cell.simulated = False
    assert objective_of(tenant).more_s == (4000 - 400) / 40
    run = Truth().solos(a=(10, 60), b=(10, 60))
    run.trials("mps", {"a": (49.5, 60), "b": (15, 60)}, simulated=True, error=WIDE)
    remedy = what_would_tell(run.answer().main)
    assert remedy.startswith("measure it on the real device, at most 5 min: cotenant run FILE --device cuda:0 ")


def test_an_open_objective_that_its_estimate_keeps_says_how_near_it_is():
    run = Truth(blocks=3).solos(a=(10, 30), b=(10, 30))
    run.trials(
        "mps",
        {"a": (22, 30), "b": (12, 30)},
        simulated=True,
        error=ModelErrorRecord("kind", True, "", (0.7, 1.4), (0.7, 1.4), (0.7, 1.4)),
    )
    [said] = headline(run.answer())
    assert re.fullmatch(
        r"Share a \+ b by mps, 66 % sure: every estimate keeps its objective; closest: a's p90 is [\d.]+ ms "
        r"\(range [\d.]+ to [\d.]+\), its limit 30 ms\.",
        said,
    )


def test_open_objectives_are_decided_by_what_the_evidence_favours():
    def favoured(time_ms):
        run = Truth(blocks=3).solos(a=(10, 30), b=(10, 30))
        run.trials("mps", {"a": (time_ms, 30), "b": (12, 30)}, simulated=True, error=WIDE)
        return run.answer().main

    near, over = favoured(22), favoured(29)
    assert (near.verdict, near.favours, over.favours) == ("open", "share", "apart")
    assert near.confidence == pytest.approx(near.best.chance)
    assert over.confidence == pytest.approx(1 - over.best.chance)
    assert verdict(over).startswith(f"Don't share a + b, {percent(over.confidence)} sure: under mps")
    assert decision_word(over) == f"keep apart, {percent(over.confidence)}"
    assert favoured(10).confidence is None, "the intervals tell"


def test_the_likeliest_way_to_keep_every_objective_is_favoured():
    run = Truth(blocks=3).solos(a=(10, 30), b=(10, 30))
    run.trials("threads", {"a": (27, 30), "b": (10, 30)}, simulated=True, error=WIDE)
    run.trials("mps", {"a": (21, 30), "b": (21, 30)}, simulated=True, error=WIDE)
    assert run.answer().main.best.cell.sharing == "mps"


@pytest.mark.parametrize("limit", [20.0, 26.0, 30.0, 37.0, 50.0])
def test_a_stated_chance_is_how_often_it_happens(limit):
    ends, rng = (18.0, 60.0), np.random.default_rng(1)
    deviations = np.log(30 / ends[0]) / 1.645, np.log(ends[1] / 30) / 1.645
    errors = rng.standard_normal(20_000)
    truth = 30 * np.exp(np.where(errors < 0, deviations[0], deviations[1]) * errors)
    assert chance_below(30.0, ends, limit, 1.645) == pytest.approx((truth <= limit).mean(), abs=0.01)


def test_the_command_that_settles_it_is_one_that_run_takes(tmp_path):
    study = tmp_path / "my study.yaml"
    study.write_text("tenants: {a: {workload: gpt2}, on: {workload: bert-base}}\n")
    for sharing in ("mps", "mps[25, 75]", "mig[3g.20gb, 4g.20gb]"):
        run = Truth(blocks=3).solos(a=(10, 30), on=(10, 30))
        run.trials(sharing, {"a": (22, 30), "on": (12, 30)}, simulated=True, error=WIDE)
        choice = decide(run.summary(), str(study)).main
        words = shlex.split(what_would_tell(choice).split(": ", 1)[1])
        assert words[:5] == ["cotenant", "run", str(study), "--device", "cuda:0"]
        found = load_study(study, words[6::2])
        assert [mix.members for mix in found.mix_list()] == [("a", "on")]
        assert str(found.sharing[0]).replace(" ", "") == sharing.replace(" ", "")
        assert found.blocks.max >= 3


def test_in_the_table_many_open_objectives_are_counted():
    times = dict.fromkeys(("search", "ranker", "tagger"), (22, 30))
    run = Truth(blocks=3).solos(**dict.fromkeys(times, (10, 30)))
    run.trials("mps", times, simulated=True, error=WIDE)
    console = Console(width=80, record=True, file=StringIO())
    console.print(*to_terminal(answer_elements(run.answer())))
    assert "3 of 3 undecided" in console.export_text()
