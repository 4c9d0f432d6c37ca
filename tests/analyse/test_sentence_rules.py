"""Which sentence is said when: comparisons, neighbours that were stopped, clocks, worst ways, fleets."""

from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.analyse.comparison import sentences
from cotenant.analyse.comparison.sentences import comparison_sentences, row_name, row_reason
from cotenant.analyse.decision import wording
from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.explanation import explanation, patterns
from cotenant.analyse.explanation.split import WORK, Split
from cotenant.analyse.findings import clock_findings
from cotenant.analyse.sharing import closing
from cotenant.analyse.variability import wording as fleet
from cotenant.analyse.variability.readings import FleetReadings
from cotenant.tenancy.interval import Estimate, Interval, Missing


def about(value, lo=None, hi=None, n=4):
    return Estimate(value, lo, hi, n, "by hand")


# --- comparisons


def outcome(verdict="same", because="within the margin", *, p=0.01, own=None, missing=None, regression=False, **more):
    own = own or about(1.2, 1.1, 1.3)
    fields = {"total": own, "clock": about(1.0), "cycles": about(1.0)} | more
    return Facts(
        verdict=verdict, because=because, p_value=p, own=own, blocks_missing=missing, regression=regression, **fields
    )


def row(of="a", *, solo=False, load="closed 1", settings="{}", detail="", tokens=(), **result):
    place = Facts(tenant=of, of=of, solo=solo, load=load, settings=settings, mix="a+b", sharing="mps")
    return Facts(row=place, of=of, outcome=outcome(**result), detail=detail, tokens=tokens)


def compared(rows, tenants=(), **more):
    quality = Facts(doubtful=0, trials=4, failed_checks=())
    facts = {"common": None, "margin": 0.03, "withheld": "", "before": quality, "now": quality}
    return Facts(**facts | {"only_before": (), "only_now": (), "notes": ()} | more, rows=rows, tenants=tenants)


def said(*rows, tenants=(), **more):
    return comparison_sentences(compared(list(rows), tenants, **more))


def slower(of="a", **more):
    return row(of, verdict="slower", because="beyond the margin", **more)


def test_names_of_rows():
    assert row_name(row().row) == "a in a+b (mps, closed 1)"
    assert row_name(row(settings="clock 900").row) == "a in a+b (mps, closed 1, clock 900)"
    assert row_name(row(solo=True, settings="").row) == "a alone (closed 1)"


def test_the_headline_is_the_most_general_that_holds():
    everything = Facts(outcome=outcome("slower", "beyond the margin", regression=True), alike=3, tenants=3)
    tenant = Facts(of="a", rows=2, outcome=outcome("slower", "beyond the margin", regression=True))
    hit = slower(regression=True)
    assert said(hit, common=everything)[0] == "Slower: everything, by about as much."
    assert said(hit, tenants=[tenant])[0] == "Slower: a."
    assert said(hit, hit, row("b"))[0] == "Slower: a, in 2 of 3 cells."
    assert said(row())[0] == "Nothing is shown to be more than 3 % slower."
    clock = row(verdict="slower", because="the clock")
    assert said(clock)[0].endswith("slower, but for what the clock explains.")
    assert said(row(p=None))[0] == "No verdict: no cell could be compared."
    assert said(row(p=None), row())[0].startswith("Nothing is shown")


def test_numbers_of_trials_that_are_mostly_not_valid_are_not_quoted():
    moved = Facts(outcome=outcome("slower", "beyond the margin", regression=True), alike=3, tenants=3)
    lines = said(slower(regression=True), row(p=None, detail="why"), withheld="it was busy", common=moved, notes=["x"])
    refused = "a in a+b (mps, closed 1) can't be compared: why."
    assert lines == ["No verdict: it was busy. Measure again on a quiet machine.", refused, "x"]


@pytest.mark.parametrize(
    ("verdict", "because", "text"),
    [
        ("slower", "the clock", "the clock did (clock 1.000x, in cycles 1.000x), not the code."),
        ("faster", "beyond the margin", "that is the machine or something that all of them use, not one tenant."),
        ("same", "within the margin", "within 3 %, so it was taken out."),
        ("ambiguous", "too noisy", "too uncertain to call it a change; it was taken out."),
    ],
)
def test_what_all_have_in_common(verdict, because, text):
    line = sentences._common(Facts(outcome=outcome(verdict, because), alike=2, tenants=3), 0.03)
    assert line.startswith("2 of 3 tenants alone moved alike, 1.200x [1.100, 1.300]")
    assert line.endswith(text)


def test_common_changes_need_three_tenants_alone():
    alone = [row(of, solo=True) for of in "abc"]
    assert "fewer than three" in said(*alone[:2], row("c"))[1]
    assert "did not move together" in said(*alone)[1]


def test_rows_of_named_tenants_are_not_repeated_and_the_rest_is_counted():
    tenant = Facts(of="a", rows=3, outcome=outcome("slower", "beyond the margin"))
    lines = said(slower(), slower("b"), row(solo=True), tenants=[tenant])
    assert (
        "a is slower: 1.200x [1.100, 1.300] over its 3 cells (1.200x [1.100, 1.300] alone), 1 of which show" in lines[2]
    )
    assert [line for line in lines if line.startswith("a in")] == []
    assert any(line.startswith("b in a+b (mps, closed 1) is slower: 1.200x") for line in lines)
    many = [slower(str(number)) for number in range(6)] + [row("z", verdict="faster", because="beyond the margin")]
    assert "2 more cells changed, 1 of them for the slower." in said(*many)
    assert not any("more cells changed" in line for line in said(*many[:5]))


def test_whether_the_tenant_or_the_cost_of_sharing_changed():
    hit = slower()
    assert "the cost of sharing changed" in sentences._where_it_lies(hit, [row(solo=True)])
    assert "so it is alone (1.200x" in sentences._where_it_lies(hit, [slower(solo=True)])
    for other in (row(), row("b", solo=True), row(solo=True, load="open 5"), row(solo=True, verdict="ambiguous")):
        assert sentences._where_it_lies(hit, [other]) == ""
    assert sentences._where_it_lies(slower(solo=True), [row(solo=True)]) == ""


def test_open_questions_are_counted():
    noisy = [row(verdict="ambiguous", because="too noisy", missing=number) for number in (3, 9, None)]
    lines = said(row(), *noisy)
    assert "1 of 4 cells are shown to be the same within 3 %." in lines
    assert any("needs about 9 more blocks in each run; 1 lies so near" in line for line in lines)
    assert any("; 2 lie so near the margin" in line for line in said(noisy[2], noisy[2]))
    assert not any("so near" in line for line in said(*noisy[:2]))


def test_tokens_refusals_and_rows_of_one_side():
    def token(lo, hi):
        return Facts(metric="TTFT", before_ms=10.0, now_ms=12.0, ratio=about(1.2, lo, hi))

    assert any(line.startswith("TTFT of a in") for line in said(row(tokens=[token(1.01, 1.3)])))
    still = said(row(tokens=[token(1.0, 1.3), token(0.9, 1.0)]))
    assert "TTFT and TPOT did not move in 1 cell that generate." in still
    lost = said(row(p=None, detail="why"), row(p=None, detail="why"), row("b", p=None, detail="why"))
    assert "a in a+b (mps, closed 1) and 1 more cells can't be compared: why." in lost
    assert "b in a+b (mps, closed 1) can't be compared: why." in lost
    assert "Measured only now: a in a+b (mps, closed 1) and 1 more." in said(row(), only_now=[row().row] * 2)
    assert "Measured only before: a in a+b (mps, closed 1)." in said(row(), only_before=[row().row])
    unserved = row(because="requests not served", detail="9 of 10")
    assert any(line.endswith("9 of 10; its latency can't be compared under overload.") for line in said(unserved))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"verdict": "slower", "because": "beyond the margin"}, "shown to be more than 3 % slower: 1.200x"),
        ({}, "shown to be within 3 %: 1.200x [1.100, 1.300]"),
        ({"because": "the clock"}, "slower, but so was the clock"),
        ({"verdict": "slower", "because": "all tenants alike"}, "slower as all tenants are"),
        ({"because": "requests not served", "detail": "d"}, "judged by requests that were not served: d"),
        ({"because": "not valid"}, "no verdict, since the trials are mostly not valid"),
        ({"because": "too noisy", "missing": 1}, "neither within 3 % nor beyond it can be shown: 1.200x"),
        ({"because": "something", "detail": "else"}, "else"),
    ],
)
def test_the_reason_of_a_row(fields, text):
    assert row_reason(row(**fields), compared([])).startswith(text)
    if fields.get("because") == "beyond the margin":
        assert "without what all tenants have in common" in row_reason(row(**fields), compared([], common=Facts()))


def test_a_faster_clock_may_hide_a_change():
    hidden = outcome(cycles=about(1.05, 1.031, 1.07), clock=about(1.02))
    assert sentences._hidden_by_clock(hidden).startswith("; but the clock was faster: in cycles it is 1.050x")
    for cycles, clock in ((about(1.05, 1.03, 1.07), about(1.02)), (about(1.05, 1.04, 1.07), about(1.01)),
                          (about(1.05), about(1.02)), (Missing("no"), about(1.02))):  # fmt: skip
        assert sentences._hidden_by_clock(outcome(cycles=cycles, clock=clock)) == ""
    assert sentences._with_ends(Missing("no")) == "no number"
    assert sentences._with_ends(about(1.0, None, 2.0)) == "1.000x"


# --- a tenant alone in three ways


def trial(block, ms, *, number=0, of="a", verdict="valid", n=5, solo=True):
    return Facts(run="r", of=of, block=block, trial=number, mean_latency_ns=ms * 1e6, verdict=verdict, n=n, solo=solo)


def test_alone_beside_idle_and_stopped_neighbours():
    idle = [trial(0, 10.0), trial(1, 12.0), trial(2, 99.0, n=0), trial(3, 99.0, solo=False)]
    around = [trial(-2, 10.2, number=9), trial(-2, 10.0, number=1), trial(-3, 8.0, number=2)]
    (found,) = closing.three_ways([*idle, *around, trial(0, 5.0, of="b")])
    assert (found.of, found.idle_ms, found.stopped_ms, found.whole_ms) == ("a", 11.0, (10.0, 10.2), 8.0)
    assert not found.doubtful
    first, second = closing.alone_sentences([found])
    assert first == (
        "a alone takes 11 ms beside idle neighbours; with them stopped 10 ms before the run and 10.2 ms after it: "
        "8.9 % more beside idle neighbours."
    )
    assert second.endswith("takes 8 ms instead of 10.1: its share costs 26 %.")
    (doubtful,) = closing.three_ways([idle[0], trial(-2, 10.0, verdict="suspect")])
    assert doubtful.doubtful
    (sentence,) = closing.alone_sentences([doubtful])
    assert sentence == (
        "a alone takes 10 ms beside idle neighbours; with them stopped 10 ms before the run: idle neighbours cost it "
        "nothing measurable (not all of these trials were valid)."
    )
    assert closing.three_ways(around) == ()
    (whole,) = closing.three_ways([idle[0], trial(-3, 9.6)])
    assert closing.alone_sentences([whole])[0].endswith("the smaller share costs it nothing measurable.")
    (less,) = closing.three_ways([trial(0, 8.0), trial(-2, 10.0)])
    assert "20 % less beside" in closing.alone_sentences([less])[0]
    (drifting,) = closing.three_ways([trial(0, 12.0), trial(-2, 10.0), trial(-2, 12.0, number=1)])
    assert "nothing measurable" in closing.alone_sentences([drifting])[0]


@pytest.mark.parametrize(("n", "width"), [(4, 0.1), (6, 0.06), (10, 0.04)])
def test_more_blocks_until_an_interval_is_narrow(n, width):
    more = closing._more_blocks(about(1.0, 1 - width, 1 + width, n), 0.03)
    spread = width * n**0.5 / student_t(n - 1)

    def half(blocks):
        return spread * student_t(blocks - 1) / blocks**0.5

    assert half(n + more) <= 0.03 < half(int((n + more) / 1.05) - 1)
    assert closing._more_blocks(about(1.0, 0.97, 1.03, n), 0.031) == 0
    assert closing._more_blocks(about(1.0, 0.9, 1.1, n), None) == 0
    assert [closing._more_blocks(about(1.0, n=count), 0.03) for count in (1, 2)] == [2, 0]
    assert closing._more_blocks(Missing("no"), 0.03) == 0


# --- clocks


def sweep(job, saved, lost, control="clock_mhz", value=900.0):
    return Facts(job=job, control=control, energy_saved=saved, time_lost=lost, best=Facts(value=value))


def test_advice_on_clocks():
    assert clock_findings([]) == []
    assert clock_findings([sweep("a", 0.2, 0.1)]) == [
        "Lower the clock: a request needs 20 % less energy for 10 % more time."
    ]
    clock, limit = clock_findings([sweep("a", 0.2, 0.1), sweep("b", 0.3, -0.1), sweep("c", 0.04, 0.0, "power_w")])
    assert clock == (
        "Lower the clock: a request needs 20 to 30 % less energy for 0 to 10 % more time at the best clock of each of "
        "2 jobs; b gains most: 30 % for 0 % at 900 MHz."
    )
    assert limit == "Leave the limit as it is: no other saves more than 4 % of the energy."
    assert clock_findings([sweep("a", 0.05, 0.0, "power_w")])[0].startswith("Limit the power: a request needs 5")


# --- decisions


def way(sharing, est, lo, hi, *, trusted=True):
    return Facts(cell=Facts(sharing=sharing), work=about(est, lo, hi), trusted=trusted)


def test_the_clearly_worst_way():
    best, bad = way("mps", 1.5, 1.4, 1.6), way("processes", 0.9, 0.8, 0.95)

    def loser(*others):
        return wording._loser(Facts(best=best, options=[best, *others]))

    assert loser(bad).startswith("; processes costs more than it gains, ")
    assert loser(bad, way("streams", 1.1, 1.0, 1.2)).startswith("; processes")
    assert loser(way("streams", 1.1, 1.0, 1.0)).startswith("; streams gains least, ")
    assert loser() == loser(way("x", 1.0, 0.9, 1.4)) == loser(way("x", 0.5, 0.4, 0.6, trusted=False)) == ""
    assert loser(way("x", 0.5, 0.4, None)) == ""
    choice = Facts(best=Facts(work=about(1.5), standings=[1, 2, 3]))
    assert wording._gain_of_each(choice) == pytest.approx(0.25)
    assert wording._mode(way("mps[50, 50]", 1, 1, 1)) == "mps"
    assert wording._ways(Facts(options=[1])) == "the only way tried"
    assert wording._ways(Facts(options=[1, 2])) == "the best of 2 ways tried"


# --- fleets


@pytest.mark.parametrize(
    ("est", "text"), [(0.1, "10 %"), (0.099, "9.9 %"), (0.01, "1.0 %"), (0.0099, "0.990 %"), (-0.2, "-20 %")]
)
def test_shares_of_a_fleet_have_sensible_digits(est, text):
    assert fleet._percent(about(est)) == text
    assert fleet._percent(about(0.1, 0.05, 0.15)) == "10 % [5, 15]"
    assert fleet._percent(Missing("no")) == "an unknown share"


def test_changes_of_a_fleet():
    step = Facts(gpu="g1", by=0.2, kind="step", at_s=0.0)
    assert fleet.change_sentence(step).startswith("g1 became 20 % slower on ")
    drift = Facts(gpu="", by=-0.2, kind="drift", at_s=0.0)
    assert fleet.change_sentence(drift).startswith("The whole fleet has drifted by 20 % and is now faster than on ")


def test_readings_are_thinned_evenly_and_cut_by_time():
    names = ["a"] * 100 + ["b"] * 3 + ["c"]
    at = [*range(100), *range(3), 0]
    fleet_ = FleetReadings.of(names, np.arange(104.0), at_s=at, node=["n1"] * 60 + [""] * 10 + ["n2"] * 34)
    assert fleet_.counts.tolist() == [100, 3, 1]
    assert fleet_.thinned(104) is fleet_
    thin = fleet_.thinned(15)
    assert thin.counts.tolist() == [5, 3, 1]
    assert thin.time_ms.tolist() == [0.0, 24.0, 49.0, 74.0, 99.0, 100.0, 101.0, 102.0, 103.0]
    assert fleet_.thinned(3).counts.tolist() == [2, 2, 1]
    assert fleet_.gpu_times.tolist() == [49.5, 101.0, 103.0]
    assert [fleet_.place_of(number, "node") for number in range(3)] == ["n1", "n2", "n2"]
    assert fleet_.place_of(0, "cabinet") == ""
    late = fleet_.since({"a": 95, "b": 1})
    assert late.counts.tolist() == [5, 2, 1]
    assert fleet_.since({}) is fleet_
    assert fleet_.noun == "GPU"
    with pytest.raises(ValueError, match="holds 2 values, not 1"):
        FleetReadings.of(["a"], [1.0, 2.0])
    with pytest.raises(ValueError, match="holds 2 labels, not 1"):
        FleetReadings.of(["a"], [1.0], node=["x", "y"])


# --- explanations


def more(*, device="cpu", threads=1, flops=None, slowed=False, parts=(), sure=(), worth=(), **peaks):
    evidence = [Facts(seen=Facts(device=device), work=Facts(flops_per_request=flops, threads=threads))]
    split = Facts(parts=dict.fromkeys(parts, 1.0), slowed=slowed, unsplit=None, cell=None)
    alone = [Facts(sure=each, reason=reason) for each, reason in sure]
    rates = {"counters": True, "flops_per_s": 1e9, "undisturbed": True} | peaks
    stories = [Facts(worth=each, stp=Facts(lo=lo), cell=Facts(simulated=False)) for each, lo in worth]
    return list(explanation._more(evidence, alone, [split], stories, Facts(**rates)))


@pytest.mark.parametrize(
    ("facts", "without", "begins"),
    [
        ({"parts": (WORK,), "slowed": True}, {"parts": (WORK,)}, "There is no clock sensor"),
        ({"parts": (WORK,), "slowed": True}, {"slowed": True}, "There is no clock sensor"),
        ({"counters": False, "slowed": True}, {"slowed": True}, "Hardware counters"),
        ({"counters": False, "slowed": True}, {"counters": False}, "Hardware counters"),
        ({"counters": False, "slowed": True}, {"counters": False, "slowed": True, "device": "gpu:0"}, "Hardware"),
        ({"flops_per_s": None, "flops": 1.0}, {"flops": 1.0}, "This run has no roofline"),
        ({"undisturbed": False}, {}, "The peak rates were measured while"),
        ({"threads": 2, "slowed": True}, {"threads": 1, "slowed": True}, "Threads that spin"),
        ({"threads": 2, "slowed": True}, {"threads": None, "slowed": True}, "Threads that spin"),
        ({"threads": 2, "slowed": True}, {"threads": 2}, "Threads that spin"),
        (
            {"sure": [("unclear", "it states neither"), ("sure", "x")]},
            {"sure": [("sure", "it states neither")]},
            "Workloads that state",
        ),
        ({"sure": [("unclear", "it states neither")]}, {"sure": [("unclear", "x")]}, "Workloads that state"),
        ({"worth": [("open", 0.9)]}, {"worth": [("open", None), ("yes", 0.9)]}, "More blocks would settle"),
    ],
)
def test_what_would_tell_more(facts, without, begins):
    assert any(line.startswith(begins) for line in more(**facts))
    assert not any(line.startswith(begins) for line in more(**without))


def link(name, r, p):
    return patterns.Link(name, Interval(r, r - 0.1, r + 0.1), p)


def test_patterns_in_sentences():
    def lines(*links, r2=0.3, model=("size",)):
        return list(patterns.pattern_sentences(patterns.Pattern("mps", 7, 14, links, model, r2)))

    shown, useful = lines(link("size", 0.8, 0.05), link("depth", 0.3, 0.051), link("width", 0.5, 0.2))
    assert "depends on size (r = 0.80 [0.70, 0.90], more slowdown the more of it), not on depth (r = 0.30)" in shown
    assert useful == "Under mps, size predicts 30 % of how slowdowns differ in held-out mixes."
    less, useless = lines(link("size", -0.8, 0.01), r2=0.29, model=("a", "b"))
    assert "less slowdown the more of it) (14 tenants in 7 mixes)" in less
    assert "predict held-out mixes well (29 % at best)" in useless
    assert "(0 % at best)" in lines(link("size", 0.8, 0.01), r2=-0.5)[1]
    (nothing,) = lines(link("size", 0.8, 0.06))
    assert nothing.startswith("Under mps, no tenant property clearly correlates")
    assert "a and b predict 90 %" in lines(link("s", 0.8, 0.01), r2=0.9, model=("a", "b"))[1]


def test_contrasts_name_the_worse_group_first():
    one, other = (Facts(name=name, mixes=4, slowdown=slowdown) for name, slowdown in (("x", 1.5), ("y", 1.2)))

    def contrast(ratio, *, shown=True):
        more = Interval(ratio, ratio / 2, ratio * 2)
        return Facts(sharing="mps", one=one, other=other, ratio=more, p=0.01, shown=shown)

    (first,) = patterns.contrast_sentences([contrast(1.25)], ["mps"])
    assert "pairs of x (4) slow each other down 1.25x [0.62, 2.50] as much as pairs of y (4): 1.50x against" in first
    (second,) = patterns.contrast_sentences([contrast(0.5)], ["mps"])
    assert "pairs of y (4) slow each other down 2.00x [1.00, 4.00] as much as pairs of x (4): 1.20x against" in second
    assert len(list(patterns.contrast_sentences([contrast(2.0)] * 3, ["mps"]))) == 2
    (none,) = patterns.contrast_sentences([contrast(2.0, shown=False)], ["mps", "streams"])
    assert none.endswith("after Holm's correction: x, y.")


@pytest.mark.parametrize(
    ("total", "simulated", "slowed"),
    [
        (about(1.03, 1.001, 1.1), False, True),
        (about(1.03, 1.0, 1.1), False, False),
        (about(1.029, 1.01, 1.1), False, False),
        (about(1.2), False, False),
        (about(1.03), True, True),
        (about(1.02), True, False),
    ],
)
def test_slowed_is_shown_and_noticeable(total, simulated, slowed):
    split = Split(Facts(simulated=simulated), "a", "a", total, {}, about(1.0), None)
    assert split.slowed is slowed


@pytest.mark.parametrize(
    ("parts", "greatest"),
    [
        ({"x": about(1.2, 1.1, 1.3), "y": about(1.1, 1.05, 1.2)}, "x"),
        ({"x": about(1.2, 1.0, 1.3), "y": about(1.1, 1.05, 1.2)}, None),
        ({"x": about(1.2), "y": Missing("no")}, "x"),
        ({"y": Missing("no")}, None),
    ],
)
def test_the_greatest_part_is_shown_to_be_one(parts, greatest):
    assert Split(Facts(simulated=False), "a", "a", about(1.2), parts, about(1.0), None).greatest == greatest
