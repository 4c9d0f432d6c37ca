"""Who is slow and why, what a clock costs, and the words for it: each limit to its exact value."""

import math
from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.analyse.variability import frequency, slow, summary, wording
from cotenant.analyse.variability.drift import Change
from cotenant.analyse.variability.readings import FleetReadings
from cotenant.analyse.variability.slow import SickSensor, SlowGpu
from cotenant.tenancy.interval import Estimate, Missing

NAN = math.nan

# --- slow or not


def fleet(times, runs=1, **more):
    """GPUs g00, g01, ... with a value each, repeated in every run; a list of values is that GPU's runs."""
    names = [f"g{number:02d}" for number in range(len(times)) for _ in range(runs)]

    def rows(values):
        return [one for value in values for one in (value if isinstance(value, list) else [value] * runs)]

    columns = {name: rows(values) if isinstance(values, list) else values for name, values in more.items()}
    return FleetReadings.of(names, rows(times), **columns)


@pytest.mark.parametrize(
    ("times", "fence"),
    [
        ([10.0] * 9, 1.03),  # few: 3 %
        ([10.0] * 10, 1.01),  # many alike: at least 1 %
        ([float(time) for time in range(1, 11)], (7.75 + 1.5 * 4.5) / 5.5),  # many: the upper whisker
    ],
)
def test_the_fence_of_slow(times, fence):
    assert slow.slow_fence(np.array(times)) == pytest.approx(fence)


def test_slow_is_beyond_the_fence_and_the_slowest_comes_first():
    found = slow.slow_gpus(fleet([10.0, 10.0, 10.0, 10.0, 10.31, 11.0]))
    assert [(gpu.gpu, gpu.runs, round(gpu.ratio, 9)) for gpu in found] == [("g05", 1, 1.1), ("g04", 1, 1.031)]
    assert slow.slow_gpus(fleet([10.0])) == ()
    assert slow.slow_gpus(fleet([10.0, 10.0, 10.3])) == (), "exactly at the fence is not beyond it"
    assert [gpu.gpu for gpu in slow.slow_gpus(fleet([10.0, 10.0, 10.301]))] == ["g02"]


@pytest.mark.parametrize(
    ("powers", "limit", "cap"),
    [
        ([300.0] * 3, None, None),
        ([300.0] * 4, None, 292.5),
        ([300.0] * 4, 400.0, 388.0),
        ([300.0, 300.0, 306.0, 306.0, NAN], None, 0.975 * 303),
        ([297.0, 297.0, 303.1, 303.1], None, None),
        ([297.0, 297.0, 303.0, 303.0], None, 292.5),
        ([], 100.0, 97.0),
    ],
)
def test_a_cap_is_stated_or_seen_in_equal_powers(powers, limit, cap):
    found, evidence = slow.power_cap(np.array(powers), limit)
    assert found == (None if cap is None else pytest.approx(cap))
    assert bool(evidence) is (cap is not None)


USUAL = {"clock_mhz": 1400.0, "temperature_c": 60.0, "power_w": 300.0}


def cause(*, others=USUAL, runs=1, reasons=(), limit=300.0, others_clocks=None, **own):
    """The cause of one of five GPUs, the others as usual."""
    columns = {name: [others[name]] * 4 + [own.get(name, others[name])] for name in USUAL}
    if others_clocks is not None:
        columns["clock_mhz"][:4] = [others_clocks] * 4
    readings = fleet([10.0] * 4 + [12.0], runs, power_limit_w=limit, **columns)
    object.__setattr__(readings, "reasons", reasons)
    [found] = slow.slow_gpus(readings)
    return found


@pytest.mark.parametrize(
    ("own", "name", "because"),
    [
        ({"clock_mhz": 1385.0}, "silicon", "at the limit of 300 W it reaches 1385 MHz, others 1400 MHz"),
        ({"clock_mhz": 1385.0, "power_w": 291.0}, "silicon", "reaches"),
        ({"clock_mhz": 1386.0}, "not the clock", "as the others are: 300 W, 1386 MHz, 60 C"),
        ({"clock_mhz": 1385.0, "temperature_c": 61.0}, "silicon", "and it runs hot"),
        ({"power_w": 290.9}, "heat or power brake", "below the limit of 300 W: 291 W, 1400 MHz, 60 C"),
        ({"power_w": 290.9, "temperature_c": 61.0}, "heat or power brake", "hot and below the limit"),
        ({"clock_mhz": NAN, "power_w": NAN, "temperature_c": NAN}, "unknown", "no clock was read"),
        ({"power_w": NAN, "temperature_c": NAN}, "not the clock", "as the others are: no W, 1400 MHz, no C"),
        ({"clock_mhz": 1385.0, "power_w": NAN, "temperature_c": 61.0}, "heat or power brake", "hot: no W"),
    ],
)
def test_a_cause_by_power_clock_and_heat(own, name, because):
    found = cause(**own)
    assert found.cause == name
    assert because in found.because


def test_a_lower_clock_without_any_cap_or_heat():
    found = cause(limit=None, others=USUAL | {"power_w": NAN}, clock_mhz=1300.0)
    assert (found.cause, found.because) == (
        "heat or power brake", "its clock is lower than the others': no W, 1300 MHz, 60 C",
    )  # fmt: skip
    assert (found.clock_mhz, found.temperature_c, found.power_w) == (1300.0, 60.0, None)


@pytest.mark.parametrize(("runs", "name"), [(3, "clock locked"), (2, "heat or power brake")])
def test_a_clock_is_locked_if_it_stands_still_for_three_runs_and_the_others_move(runs, name):
    moving = [1390.0, 1410.0, 1400.0][:runs]
    own = {"clock_mhz": 1200.0, "power_w": 200.0}
    assert cause(runs=runs, others_clocks=moving, **own).cause == name
    assert cause(runs=runs, **own).cause == "heat or power brake", "the others stand still as well"
    hot = cause(runs=runs, others_clocks=moving, temperature_c=61.0, **own)
    assert hot.because.startswith("hot and below")


@pytest.mark.parametrize(
    ("reason", "clock", "name"),
    [
        ("power cap", 1400.0, "silicon"),
        ("heat", 1400.0, "heat or power brake"),
        ("power brake", 1400.0, "heat or power brake"),
        ("clock setting", 1385.0, "clock locked"),
        ("clock setting", 1400.0, "not the clock"),
        ("something else", 1400.0, "not the clock"),
    ],
)
def test_the_driver_s_reason_decides_unless_all_are_locked(reason, clock, name):
    found = cause(reasons=("", "", "", "", reason), clock_mhz=clock)
    assert found.cause == name
    assert (f"names {reason}" in found.because) is (name != "not the clock")


def powers(rows, times=None, runs=20):
    return slow.sick_sensors(fleet(times or [10.0] * len(rows), runs, power_w=rows))


def test_a_reading_that_stands_still_for_twenty_runs_while_others_move_is_sick():
    moving = [300.0 + 2 * (run % 2) for run in range(20)]
    [found] = powers([moving, moving, [300.0] * 20])
    assert (found.gpu, found.because) == ("g02", "300.0 W in all 20 runs, to the last digit")
    assert powers([moving[:19], moving[:19], [300.0] * 19], runs=19) == ()
    still = [300.0 + run % 2 for run in range(20)]
    assert powers([still, still, [300.0] * 20]) == (), "the others hardly move: 1 of 300 W is less than half a percent"


@pytest.mark.parametrize(
    ("watts", "time", "sick"), [(149.0, 10.0, True), (150.0, 10.0, False), (149.0, 10.1, False), (149.0, 10.09, True)]
)
def test_less_than_half_the_power_at_the_usual_speed_is_sick(watts, time, sick):
    found = powers([300.0, 300.0, 300.0, watts], [10.0, 10.0, 10.0, time], runs=1)
    assert [each.gpu for each in found] == (["g03"] if sick else [])
    if sick:
        assert found[0].because == "149 W at the usual speed, where others draw 300 W"


# --- alike or not


@pytest.mark.parametrize(
    ("p", "gpus", "why"),
    [
        (0.05, 5, ""), (0.051, 5, "indistinguishable (p = 0.051)"), (None, 9, "takes 3 runs"), (None, 10, ""),
        (None, 1, ""),
    ],
)  # fmt: skip
def test_none_is_called_slow_where_all_could_be_alike(p, gpus, why):
    tested = summary.Alikeness(None, p, gpus, 0, 0, None)
    found = summary._undecided(fleet([10.0 + number for number in range(gpus)]), tested)
    assert (why in found) if why else found == ""
    assert summary._undecided(fleet([10.0] * 5), summary.Alikeness(None, None, 5, 0, 0, None)) == ""


def test_alikeness_needs_three_runs_each_of_two():
    assert summary.alikeness(fleet([1.0, 2.0], 2)).gpus == 0
    assert summary.alikeness(fleet([1.0, 2.0], 3)).pairs == 1
    same = summary.alikeness(fleet([1.0, 1.0], 3))
    assert (same.anderson_darling, same.p_value, same.gpus, same.differing, same.median_effect) == (
        None, None, 2, 0, None,
    )  # fmt: skip


def test_pairs_that_differ_and_by_how_much():
    wave = np.resize([-1.0, 0.0, 1.0], 60)
    found = summary.alikeness(fleet([list(10 + wave), list(10 + wave), list(13 + wave)], 60))
    assert (found.gpus, found.pairs, found.differing) == (3, 3, 2)
    assert found.median_effect == pytest.approx(abs(summary.robust_effect(10 + wave, 13 + wave)))


def test_the_median_effect_is_that_of_all_pairs_that_differ():
    wave = np.resize([-1.0, 0.0, 1.0], 60)
    found = summary.alikeness(fleet([list(level + wave) for level in (10, 13, 18)], 60))
    assert (found.pairs, found.differing) == (3, 3)
    assert found.median_effect == pytest.approx(abs(summary.robust_effect(wave, 5 + wave))), "of 3, 5 and 8"


def test_robust_effects_where_nothing_scatters():
    assert summary.robust_effect(np.array([1.0, 1.0]), np.array([1.0])) == 0.0
    assert summary.robust_effect(np.array([1.0, 1.0]), np.array([2.0])) == -math.inf
    a = np.array([0.0, 1, 2, 3, 100])  # 20 % of five: one from either end
    assert summary.robust_effect(a, a + 2) == pytest.approx(0.642 * -2 / math.sqrt(4 * 2 * 1.0 / 8), rel=1e-9)


def test_rank_correlations_need_three_with_both():
    assert isinstance(summary._of(np.array([1.0, 2, 3]), np.array([1.0, 2, NAN])), Missing)
    assert summary._of(np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3, NAN])).est == pytest.approx(1.0)
    assert summary._of(np.array([1.0, 2, 2]), np.array([3.0, 1, 2])).est == pytest.approx(-math.sqrt(3) / 2)
    assert isinstance(summary._of(np.array([1.0, 2, 3]), np.array([1.0, 1, 1])), Missing)


# --- clocks


def test_power_and_time_over_the_clock_by_their_formulas():
    power = frequency.PowerByClock(50.0, 0.1, 0.001, 1000.0, None, 5)
    assert power.at(np.array([900.0, 1000.0, 1100.0])) == pytest.approx([140.0, 150.0, 170.0])
    time = frequency.TimeByClock(2.0, 6.0, 1500.0, None, 3)
    assert time.at(np.array([750.0, 1500.0])) == pytest.approx([14.0, 8.0])
    assert (time.core_share, frequency.TimeByClock(0.0, 0.0, 1.0, None, 3).core_share) == (0.75, 0.0)
    assert time.to_json()["core_share"] == 0.75


CLOCKS = np.array([600.0, 800.0, 1000.0, 1200.0, 1400.0, 1600.0])


def test_fits_give_back_what_made_the_numbers():
    time = frequency.fit_time(CLOCKS, 2 + 6 * 1600 / CLOCKS)
    assert (time.memory_ms, time.core_ms, time.top_mhz, time.clocks) == (
        pytest.approx(2), pytest.approx(6), 1600.0, 6,
    )  # fmt: skip
    assert time.held_out == pytest.approx(0, abs=1e-9)
    made = frequency.PowerByClock(50.0, 0.1, 0.0005, 1000.0, None, 6)
    power = frequency.fit_power(CLOCKS, made.at(CLOCKS))
    assert power.at(CLOCKS) == pytest.approx(made.at(CLOCKS), rel=5e-3)
    assert 950 < power.knee_mhz < 1050
    assert power.held_out is not None


@pytest.mark.parametrize(("clocks", "held_out"), [(3, False), (4, True)])
def test_clocks_are_left_out_only_if_enough_stay(clocks, held_out):
    found = frequency.fit_time(CLOCKS[:clocks], 8 * 1000 / CLOCKS[:clocks])
    assert (found.held_out is not None) is held_out
    assert (found.memory_ms, found.top_mhz) == (pytest.approx(0, abs=1e-9), CLOCKS[clocks - 1])
    with pytest.raises(ValueError, match="need 3 different clocks, not 2"):
        frequency.fit_time(CLOCKS[[0, 1, 1]], np.ones(3))


def test_a_knee_needs_five_clocks_and_six_to_leave_one_out():
    with pytest.raises(ValueError, match="needs 5 different clocks, not 4"):
        frequency.fit_power(CLOCKS[:4], CLOCKS[:4])
    assert frequency.fit_power(CLOCKS[:5], CLOCKS[:5]).held_out is None
    assert frequency.fit_power(CLOCKS[:5], CLOCKS[:5]).clocks == 5


def test_errors_where_a_clock_was_left_out_are_relative():
    def twice(rest, out):
        assert not (rest & out).any()
        return np.full(out.sum(), 2.0)

    assert frequency._held_out(CLOCKS[:4], np.array([1.0, 2.0, 4.0, 8.0]), twice) == pytest.approx(
        (1 + 0 + 0.5 + 0.75) / 4
    )
    assert frequency._held_out(CLOCKS[:3], np.ones(3), twice) is None


def test_the_best_clock_takes_the_least_energy():
    clock = np.array([1000.0, 1000.0, 1500.0, 2000.0])
    found = frequency.best_clock(clock, np.array([90.0, 110.0, 150.0, 300.0]), np.array([9.0, 11.0, 8.0, 5.0]))
    assert (found.clock_mhz, found.energy_j) == (1000.0, pytest.approx(1.0))
    assert (found.energy_saved, found.time_lost) == (pytest.approx(1 - 1 / 1.5), pytest.approx(1.0))


def at(settings, clock, *, power=100.0, model="A100", work="w", simulated=False):
    return frequency.AtSetting(work, model, "g", simulated, settings, clock, 10.0, power, 1)


def test_curves_need_three_settings_and_what_each_fit_needs():
    points = [at(str(number), 1000.4 + 100 * number) for number in range(5)]
    [curve] = frequency.clock_curves(points)
    assert (curve.work, curve.points) == ("w on A100", tuple(points))
    assert None not in (curve.power, curve.time, curve.best)
    assert curve.time.top_mhz == 1400.0, "clocks are rounded to MHz"
    assert curve.to_json()["points"][0]["settings"] == "0"
    assert frequency.clock_curves(points[:2]) == []
    [three] = frequency.clock_curves(points[:3])
    assert (three.power, three.time is None, three.best is None) == (None, False, False)
    [dark] = frequency.clock_curves([*points[:4], at("4", 1400.0, power=None)])
    assert (dark.power, dark.best, dark.time is None) == (None, None, False)
    [same] = frequency.clock_curves([at(str(number), 1000.0, model=None) for number in range(3)])
    assert (same.work, same.power, same.time, same.best) == ("w", None, None, None)
    two = frequency.clock_curves([at("0", 1.0), at("1", 2.0), at("2", 3.0), at("0", 1.0, simulated=True)])
    assert [(each.simulated, len(each.points)) for each in two] == [(False, 3)]


# --- words

SLOW = SlowGpu("g1", "c1", "n1", 9, 1.25, 1.0, 1.0, 1.0, "silicon", "why", since_s=86_400.0)


def work(name="w", *, slow=(), noun="GPU", undecided="", spread=None, gpus=4, straggler=None, simulated=False):
    whiskers = Missing("x") if spread is None else Estimate(spread, spread / 2, 2 * spread, 4)
    return Facts(
        work=name, slow=slow, noun=noun, undecided=undecided, simulated=simulated, straggler=straggler or {},
        variation=Facts(whisker_range=whiskers, gpus=gpus), drift=Facts(changes=()), sick_sensors=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "50 % [25, 100]"), (0.1, "10 % [5, 20]"), (0.099, "9.9 % [5.0, 19.8]"), (0.01, "1.0 % [0.5, 2.0]"),
        (0.0099, "0.990 % [0.495, 1.980]"),
    ],
)  # fmt: skip
def test_shares_have_digits_by_their_size(value, text):
    assert wording._percent(Estimate(value, value / 2, 2 * value, 4)) == text
    assert wording._percent(Estimate(value, None, None, 4)) == text.partition(" [")[0]
    assert wording._percent(Missing("x")) == "an unknown share"
    assert (wording._number(Missing("x")), wording._number(Estimate(1.234, None, None, 1), 1)) == ("?", "1.2")


def test_a_slow_gpu_in_a_sentence():
    said = wording.slow_sentence(SLOW, "core")
    assert said.startswith(
        "g1 (cabinet c1, node n1) is 25 % slower than the median core since 1970-01-02: silicon; why."
    )
    bare = SlowGpu("g1", "", "", 9, 1.25, 1.0, 1.0, 1.0, "silicon", "why")
    assert wording.slow_sentence(bare).startswith("g1 is 25 % slower than the median GPU: silicon")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change("g", "step", 0.0, 1.0, 1.1), "g became 10 % slower on 1970-01-01, from one run to the next."),
        (
            Change("", "step", 0.0, 1.0, 0.9),
            "The whole fleet became 10 % faster on 1970-01-01, from one run to the next.",
        ),
        (Change("g", "drift", 0.0, 1.0, 0.9), "g has drifted by 10 % and is now faster than on 1970-01-01."),
    ],
)
def test_changes_in_sentences(change, said):
    assert wording.change_sentence(change) == said


def test_anomalies_of_simulated_devices_say_so():
    found = work(slow=(SLOW,), simulated=True)
    found.sick_sensors = (SickSensor("g2", "power_w", "x"),)
    found.drift = Facts(changes=(Change("g", "step", 0.0, 1.0, 1.1),))
    said = wording.anomalies(found)
    assert [sentence.split()[:2] for sentence in said] == [
        ["Simulated:", "g1"],
        ["Simulated:", "g"],
        ["Simulated:", "The"],
    ]
    found.simulated = False
    assert [sentence.split()[0] for sentence in wording.anomalies(found)] == ["g1", "g", "The"]


def test_reasons_against_a_verdict_are_told_once_each():
    many = [work(f"w{number}", undecided=f"they are alike (p = 0.{number})") for number in range(1, 6)]
    assert wording.undecided_sentences(many) == [
        "No device is called slow under w1; w2; w3 and 2 more: they are alike."
    ]
    assert wording.undecided_sentences(many[:3]) == ["No device is called slow under w1; w2; w3: they are alike."]
    assert wording.undecided_sentences(many[:1]) == ["No GPU is called slow under w1: they are alike (p = 0.1)."]
    assert wording.undecided_sentences([work()]) == []


def test_the_first_sentence_is_of_the_work_that_varies_most():
    works = [
        work("a", spread=0.02),
        work("b", spread=0.05, gpus=1, simulated=True),
        work("c"),
        work("d", spread=0.0099),
    ]
    assert wording._apart(works) == [
        "Simulated: 1 GPU differ most under b: times vary by 5 %; under 2 of 3 kinds of work by 1 % or more."
    ]
    assert wording._apart(works[:1]) == ["4 GPUs differ most under a: times vary by 2 %."]
    assert "under none of 2 kinds" in wording._apart([work(spread=0.001), work(spread=0.002)])[0]
    assert "under 2 of 2 kinds" in wording._apart([work(spread=0.01), work(spread=0.02)])[0]
    assert wording._apart([work()]) == []


def slowly(name, ratio):
    return SlowGpu(name, "", "", 9, ratio, 1.0, 1.0, 1.0, "silicon", "why")


def test_the_second_is_of_the_gpu_that_is_slow_most_often():
    often = [
        work("a", slow=(slowly("g1", 1.1), slowly("g2", 1.9))),
        work("b", slow=(slowly("g1", 1.2), slowly("g3", 1.3))),
    ]
    [said] = wording._slow(often)
    assert said.startswith("Under b g1 is 20 % slower")
    assert said.endswith(" 2 others are slow too.")
    [single] = wording._slow([work("a", slow=(slowly("g1", 1.1), slowly("g2", 1.9)))])
    assert single.startswith("Under a g2 is 90 % slower")
    assert single.endswith(" 1 other is slow too.")
    assert not wording._slow([work("a", slow=(slowly("g1", 1.1),))])[0].endswith("too.")


@pytest.mark.parametrize(
    ("undecided", "said"),
    [
        (("", ""), ["No GPU is slow under any of 2 kinds of work."]),
        (("x", ""), ["No GPU is slow under 1 of 2 kinds of work."]),
        (("x", "x"), []),
        (("",), ["No GPU is slow here."]),
        (("x",), []),
    ],
)
def test_if_none_is_slow_it_says_under_how_many_it_was_tested(undecided, said):
    assert wording._slow([work(undecided=why) for why in undecided]) == said


def test_the_third_is_the_cost_of_the_largest_job():
    small = work("a", straggler={2: Estimate(1.9, None, None, 4), 4: Missing("x")})
    large = work("b", straggler={2: Estimate(1.0, None, None, 4), 8: Estimate(1.3, None, None, 4)})
    larger = work("c", straggler={8: Estimate(1.4, None, None, 4)}, noun="core")
    assert wording._cost([small, large, larger]) == [
        "A job on 8 cores that waits for the slowest takes up to 1.40x the time of the median core (c)."
    ]
    assert wording._cost([work("a", straggler={2: Estimate(1.0099, None, None, 4)})]) == []
    assert len(wording._cost([work("a", straggler={2: Estimate(1.01, None, None, 4)})])) == 1
    assert wording._cost([work("a", straggler={2: Missing("x")})]) == []


@pytest.mark.parametrize(
    ("est", "ends", "said"),
    [
        (0.3, (0.1, 0.5), "Slow GPUs differ in clock (0.30 [0.10, 0.50]); rank correlations with time."),
        (-0.3, (-0.5, -0.1), "Slow GPUs differ in clock (-0.30 [-0.50, -0.10]); rank correlations with time."),
        (0.29, (0.1, 0.5), None),
        (0.5, (0.0, 0.8), "No reading correlates with being slow; not in clock (0.50); rank correlations with time."),
        (0.5, (None, None), None),
    ],
)
def test_companions_of_being_slow(est, ends, said):
    found = Facts(correlations={"clock_mhz": Estimate(est, *ends, 9), "power_w": Missing("x")}, noun="GPU")
    assert wording._companions(found) == ([] if said is None else [said])


def test_sources_of_variance():
    def level(alone, chance, beyond):
        return Facts(alone=alone, by_chance=chance, beyond_chance=beyond)

    def said(*, share=0.4, jobs=None, gpu=None, node=None):
        levels = {"gpu": gpu, "node": node}
        between = Missing("x") if share is None else Estimate(share, None, None, 4)
        return wording._sources(Facts(between_gpus=between, job_component=jobs, level=levels.get), "GPU")

    assert said() == ["40 % of the variance lies between GPUs."]
    assert said(gpu=level(0.4, 0.4, 0.0)) == ["40 % of the variance lies between GPUs."]
    assert "less than chance would give that many groups (50 %)" in said(gpu=level(0.4, 0.5, 0.0))[0]
    assert said(share=None, jobs=0.5) == []
    assert said(share=None, jobs=0.51) == ["Jobs carry 51 % of it: look at what differs from job to job."]
    assert said(share=None, gpu=level(0.5, 0.1, 0.1), node=level(0.3, 0.1, 0.1)) == []
    assert said(share=None, gpu=level(0.5, 0.1, 0.1), node=level(0.3, 0.1, 0.11)) == [
        "Nodes explain 30 % alone (10 % would be chance)."
    ]
    assert said(share=None, gpu=level(0.5, 0.1, 0.5), node=level(0.3, 0.1, 0.4)) == []
    assert len(said(share=None, gpu=level(0.5, 0.1, 0.5), node=level(0.3, 0.1, 0.41))) == 1
    assert said(share=None, node=level(0.3, 0.1, 0.9)) == []


@pytest.mark.parametrize(("clock", "name"), [(990.0, "not the clock"), (989.9, "clock locked")])
def test_a_clock_is_lower_from_one_percent_below_the_usual_on(clock, name):
    found = cause(others=USUAL | {"clock_mhz": 1000.0}, reasons=("", "", "", "", "clock setting"), clock_mhz=clock)
    assert found.cause == name


def test_the_usual_clock_is_the_median_of_those_that_were_read():
    clocks = [900.0, 1000.0, 1100.0, NAN, 1100.0, 992.0]
    same = {"power_w": [300.0] * 6, "temperature_c": [60.0] * 6, "power_limit_w": 300.0}
    [found] = slow.slow_gpus(fleet([10.0] * 5 + [12.0], clock_mhz=clocks, **same))
    assert found.cause == "not the clock", "992 MHz is not a hundredth below 1000 MHz"
    [found] = slow.slow_gpus(fleet([10.0] * 5 + [12.0], clock_mhz=[*clocks[:5], 989.0], **same))
    assert found.cause == "silicon"
