"""Knees, members, stages and clocks: what a run's first sentences are made of, at each limit."""

from types import SimpleNamespace as Facts

import pytest

from cotenant.analyse import findings
from cotenant.analyse.findings import Apart, RateLatency, StageShare
from cotenant.tenancy.interval import Estimate, Missing


def levels(*medians):
    return [RateLatency(10.0 * (place + 1), median) for place, median in enumerate(medians)]


@pytest.mark.parametrize(
    ("medians", "rate"),
    [
        ((1.0, 1.5, 2.0), None),  # exactly doubled isn't more than doubled
        ((1.0, 1.5, 2.01), 20.0),
        ((1.0, 2.5, 1.0, 3.0), 10.0),  # the first time
        ((1.0, 9.0), None),  # two levels show no bend
        ((), None),
    ],
)
def test_the_knee_is_the_last_level_before_the_median_doubles(medians, rate):
    found = findings.knee(levels(*medians)[::-1])
    assert (found and found.rate_rps) == rate


# --- loads


def choice(verdict="share", *, sharing="mps", load="poisson(5)", cell=None, objectives=("p99",), simulated=False):
    best = Facts(cell=cell or Facts(sharing=sharing, load=load, simulated=simulated), objectives=objectives)
    return Facts(verdict=verdict, best=best, options=(best,))


@pytest.mark.parametrize(
    ("verdicts", "rate"),
    [
        ("share share apart share", 2.0), ("apart share", None), ("open share", 2.0), ("open open", None),
        ("share open share", 3.0), ("share open apart", 1.0),
    ],
)  # fmt: skip
def test_kept_up_to_the_last_rate_without_a_missed_one_below(verdicts, rate):
    many = [(float(place), choice(verdict)) for place, verdict in enumerate(verdicts.split(), 1)]
    assert findings._kept_up_to(many) == rate


@pytest.mark.parametrize(("rates", "swept"), [((1, 2, 3), True), ((1, 2, 2), False), ((1, 2), False)])
def test_a_sweep_has_three_rates(monkeypatch, rates, swept):
    monkeypatch.setattr(findings, "mix_name", lambda _: "a + b")
    monkeypatch.setattr(findings, "_about", lambda mix, kinds, _: [f"{mix} {len(kinds)}"])
    choices = [choice(load=f"poisson({rate})") for rate in rates]
    for each in choices:
        each.best.standings = ()
    assert findings.load_findings(Facts(choices=choices), None) == (["a + b 1"] if swept else [])


def tenant(name, cell, median):
    p50 = Missing("few") if median is None else Estimate(median, None, None, 9)
    return Facts(tenant=name, cell=cell, latency_ms={"p50": p50})


class Hashable(Facts):
    """A cell: itself and nobody else."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def about(medians, verdicts="share share share", *, objectives=("p99",), load="poisson(5)", **more):
    """Sentences of a mix of one tenant at 10, 20, 30, ... per second under each kind of arrivals."""
    swept, tenants = {}, []
    for kind, values in medians.items():
        cells = [Hashable(sharing="mps", load=load, simulated=more.get("simulated", False)) for _ in values]
        swept[kind] = [
            (10.0 * (place + 1), choice(verdict, cell=cell, objectives=objectives))
            for place, (cell, verdict) in enumerate(zip(cells, verdicts.split(), strict=True))
        ]
        tenants += [tenant("a", cell, value) for cell, value in zip(cells, values, strict=True)]
    return list(findings._about("a + b", swept, Facts(tenants=tenants)))


KNEE = "knee, beyond which a median latency more than doubles"


def test_sentences_about_a_sweep():
    assert about({"poisson": (1, 1.5, 3)}) == [
        "a + b together keep every objective up to 30 requests/s each.",
        f"The {KNEE}: 20 requests/s each.",
    ]
    assert about({"poisson": (1, 1.5, 3)}, objectives=(), simulated=True) == [
        f"Simulated: the {KNEE}: 20 requests/s each."
    ]
    assert about({"poisson": (1, 1, 1)}, "apart share share") == [
        "a + b together don't keep every objective at any load tried.",
        "No median latency doubles up to 30 requests/s each, the heaviest load tried.",
    ]
    assert about({"poisson": (1, 1, 1)}, "open apart share") == [
        "No median latency doubles up to 30 requests/s each, the heaviest load tried.",
        "Whether a + b together keep every objective is unclear at every load tried.",
    ]


def test_kinds_of_arrivals_with_and_without_a_knee():
    both = about({"poisson": (1, 1.5, 3), "gamma": (1, 1.5, 3)})
    assert both[0] == "a + b together keep every objective up to 30 requests/s each, however requests arrive."
    assert both[1] == f"The {KNEE}: 20 requests/s each, however requests arrive."
    apart = about({"poisson": (1, 1.5, 3), "gamma": (1, 1, 1)})
    assert apart[1] == f"The {KNEE}: 20 (poisson), above 30 (gamma) requests/s each."


def test_loads_stated_as_shares():
    said = about({"poisson": (1, 1.5, 3)}, load="poisson(50%)")
    assert said[0] == "a + b together keep every objective up to 3000 % of what each can do alone."


def test_the_knee_is_that_of_the_tenant_that_reaches_it_first_under_the_best_way():
    cells = [Hashable(sharing="mps", place=place) for place in range(4)]
    other = Hashable(sharing="streams", place=0)
    swept = [(10.0 * (place + 1), choice(cell=each)) for place, each in enumerate(cells)]
    swept[0][1].options = (swept[0][1].best, Facts(cell=other))
    tenants = [tenant("a", each, value) for each, value in zip(cells, (1, 1, 1, 3), strict=True)]
    tenants += [tenant("b", each, value) for each, value in zip(cells, (1, 1, 3, 3), strict=True)]
    tenants += [tenant("c", each, value) for each, value in zip(cells, (None, 1, 9, 9), strict=True)]
    tenants += [tenant("d", each, 1.0) for each in cells] + [tenant("d", other, 0.1)]
    assert findings._knee_of(swept, Facts(tenants=tenants)) == 20.0
    assert findings._knee_of(swept, Facts(tenants=tenants[:4])) == 30.0
    assert findings._knee_of(swept, Facts(tenants=tenants[-5:])) is None


# --- members


def seen(member, ms, *, block=0, solo=True, of="w", settings="{}", verdict="valid", run="r"):
    return Facts(
        member=member, solo=solo, of=of, settings=settings, load="closed(1)", simulated=False, mean_latency_ns=ms * 1e6,
        run=run, block=block, verdict=verdict, failed_checks=(),
    )  # fmt: skip


def apart(*observations):
    times = findings.MemberTimes()
    assert list(times.watch(iter(observations))) == list(observations)
    return times.apart()


def test_members_are_compared_by_their_own_solo_times():
    many = [seen("a", 10.0, block=block) for block in range(3)] + [seen("b", 12.0, block=block) for block in range(3)]
    beside = [seen("a", 90.0, solo=False), seen(None, 90.0), seen("b", 0.0), seen("a", 90.0, verdict="invalid")]
    [found] = apart(*many, *beside)
    assert (found.times_ms, found.surely, found.settings) == ({"a": 10.0, "b": 12.0}, True, "")
    assert (found.spread, found.slowest) == (pytest.approx(0.2), "b")
    assert apart(*many[:3]) == ()
    assert apart(seen("a", 1.0, block=0), seen("b", 2.0, block=1)) == (), "they divided the blocks"


def test_default_settings_come_first_then_the_largest_spread():
    def work(name, second, settings="{}"):
        return [seen("a", 10.0, of=name, settings=settings), seen("b", second, of=name, settings=settings)]

    found = apart(*work("x", 20.0, '{"c": 1}'), *work("y", 11.0), *work("z", 12.0), seen("a", 1.0, of="alone"))
    assert [(each.work, each.settings) for each in found] == [("z", ""), ("y", ""), ("x", '{"c": 1}')]


@pytest.mark.parametrize(
    ("slow", "quick", "surely"),
    [
        ([2.0] * 3, [1.0] * 3, True), ([2.0] * 2, [1.0] * 3, False), ([2.0] * 3, [1.0, 1.0, 2.0], False),
        ([2.0, 2.0, 1.01], [1.0] * 3, True),
    ],
)  # fmt: skip
def test_slower_for_sure_is_slower_in_every_block_of_at_least_three(slow, quick, surely):
    assert findings._surely({"a": quick, "b": slow}) is surely


def member(work, *times, settings="", simulated=False, surely=True):
    return Apart(work, settings, simulated, {f"g#{place}": time for place, time in enumerate(times)}, surely)


def test_sentences_about_members():
    assert findings.member_findings([member("w", 1.0, 1.0049)])[0].startswith("2 devices are alike")
    assert not findings.member_findings([member("w", 1.0, 1.005001)])[0].startswith("2 devices are alike")
    works = [member("x", 1.0, 2.0, simulated=True), member("y", 1.0, 1.5), member("z", 1.3, 1.0)]
    said = findings.member_findings(works)
    assert said[0] == ("Simulated: 2 supposedly identical devices differ by 100 % under x and by 30 % under z.")
    assert said[1].startswith("#1 is slowest under 2 of 3 kinds of work; under x #1 takes 2.00 ms a request, 33 %")
    only_set = [member("x", 1.0, 2.0, settings="{1}")]
    assert "100 % under x" in findings.member_findings(only_set)[0]
    mixed = [member("y", 1.0, 1.1), member("x", 1.0, 2.0, settings="{1}")]
    assert findings.member_findings(mixed)[0] == "2 supposedly identical devices differ by 10 % under y."
    assert findings.member_findings([]) == []
    assert [findings.short(name) for name in ("a#b#3", "cuda:3")] == ["#3", "cuda:3"]


# --- stages


def stages(**models):
    return [StageShare(of, stage, took) for of, shares in models.items() for stage, took in shares.items()]


@pytest.mark.parametrize(
    ("of", "model"), [("resnet.small", "resnet"), ("llama-3.2-3b", "llama-3.2-3b"), ("bert", "bert"), ("a.", "a")]
)
def test_a_version_is_not_a_variant(of, model):
    assert StageShare(of, "s", 1.0).model == model


def test_stages_by_model_longest_first():
    short, long = findings.by_model(stages(b={"x": 1.0}, a={"x": 2.0, "y": 6.0}, none={"x": 0.0}))[::-1]
    assert (long.model, long.time_ms.est, long.shares) == ("a", 8.0, (("y", 0.75), ("x", 0.25)))
    assert (short.model, short.time_ms.est) == ("b", 1.0)


def test_the_largest_stage_its_range_and_the_next_three():
    times = stages(a={"x": 60, "y": 5, "z": 10, "u": 9, "v": 6, "w": 4}, b={"y": 80, "x": 20})
    assert findings.stage_findings(times) == [
        "Most of the time goes to y: 44 %, from 5.3 % in a to 80 % in b; then x 41 %, z 5.2 %.",
        "Another stage takes most in a (x, 64 %).",
    ]
    assert findings.stage_findings(stages(a={"x": 1.0})) == [], "a single stage is no finding"
    [single] = findings.stage_findings(stages(a={"x": 95, "y": 5}))
    assert single == "Most of the time goes to x: 95 %; then y 5 %."
    [hidden] = findings.stage_findings(stages(a={"x": 95.1, "y": 4.9}))
    assert hidden == "Most of the time goes to x: 95 %."
    four = {name: {"y": 2, "x": 1} for name in "bcde"}
    said = findings.stage_findings(stages(a={"x": 100, "y": 1}, **four))
    assert said[1] == "Another stage takes most in b (y, 67 %), c (y, 67 %), d (y, 67 %) and others."
    many = findings.stage_findings(stages(a={"x": 40, "y": 16, "z": 15, "u": 15, "v": 14}))
    assert many == ["Most of the time goes to x: 40 %; then y 16 %, z 15 %, u 15 %."]


# --- clocks


def sweep(saved, lost, *, control="clock_mhz", job="w", value=1000.0):
    return Facts(control=control, job=job, energy_saved=saved, time_lost=lost, best=Facts(value=value))


def test_a_lower_clock_is_worth_a_twentieth_of_the_energy():
    assert findings.clock_findings([]) == []
    assert findings.clock_findings([sweep(0.05, 0.1)]) == [
        "Lower the clock: a request needs 5 % less energy for 10 % more time."
    ]
    assert findings.clock_findings([sweep(0.049, 0.1)]) == [
        "Leave the clock as it is: no other saves more than 4.9 % of the energy."
    ]
    said = findings.clock_findings([sweep(0.2, -0.1), sweep(0.3, 0.25, job="v"), sweep(0.1, 0.02, control="power_w")])
    assert said[0].startswith(
        "Lower the clock: a request needs 20 to 30 % less energy for 0 to 25 % more time at the best "
    )
    assert said[0].endswith("clock of each of 2 jobs; w gains most: 20 % for 0 % at 1,000 MHz.")
    assert said[1:] == ["Limit the power: a request needs 10 % less energy for 2 % more time."]
    watts = [sweep(0.2, 0.1, control="power_w", value=250.4), sweep(0.3, 0.1, control="power_w", value=None)]
    assert findings.clock_findings(watts)[0].endswith("of 2 jobs; w gains most: 30 % for 10 %.")
    assert findings.clock_findings([watts[0], watts[0]])[0].endswith("w gains most: 20 % for 10 % at 250 W.")


def test_the_first_finding_there_is_opens():
    answer, summary = Facts(choices=()), Facts(tenants=())
    clock, devices = [sweep(0.05, 0.1)], [member("w", 1.0, 2.0)]
    open_with = {"sweeps": clock, "members": devices, "stages": stages(a={"x": 9, "y": 1})}
    assert "supposedly identical" in _first(answer, summary, **open_with)
    assert "Lower the clock" in _first(answer, summary, **open_with | {"members": ()})
    assert "Most of the time" in _first(answer, summary, stages=open_with["stages"])


def _first(answer, summary, **more):
    with pytest.MonkeyPatch.context() as around:
        around.setattr(findings, "missed_alone", lambda _: [])
        return findings.opening(answer, summary, **more)[0]
