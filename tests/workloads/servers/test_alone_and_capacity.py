"""Sentences about servers alone (three ways), and the rate up to which objectives are met."""

from types import SimpleNamespace

from cotenant.analyse.sharing.capacity import CapacityCurve, RateAttainment, capacity_sentences
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.closing import alone_sentences, three_ways
from cotenant.measure.dispatch import bracket_trials
from cotenant.reporting.main_table import knees_of
from cotenant.study.files import study_from
from cotenant.study.windows import Windows
from cotenant.tenancy.records import STOPPED_BLOCK, WHOLE_BLOCK
from cotenant.text import NOTHING

SERVER = {"start": "serve {port}", "memory": "--small", "whole_memory": "--all"}


def seen(block, trial, ms, of="chat", verdict="valid"):
    return SimpleNamespace(
        run="r", of=of, solo=True, n=10, block=block, trial=trial, mean_latency_ns=ms * 1e6, verdict=verdict
    )


def test_idle_and_stopped_neighbours_are_distinguished():
    found = three_ways([seen(0, 1, 11.0), seen(1, 2, 13.0), seen(STOPPED_BLOCK, 9, 10.2), seen(STOPPED_BLOCK, 8, 9.8)])
    assert alone_sentences(found) == [
        (
            "chat alone takes 12 ms beside idle neighbours; with them stopped 9.8 ms before the run and 10.2 ms after "
            "it: 20 % more beside idle neighbours."
        )
    ]


def test_a_machine_that_changed_by_more_decides_nothing():
    stopped = [seen(STOPPED_BLOCK, 8, 9.0), seen(STOPPED_BLOCK, 9, 12.0, verdict="unstable")]
    [sentence] = alone_sentences(three_ways([seen(0, 1, 12.0), *stopped]))
    assert sentence.endswith("idle neighbours cost it nothing measurable (not all of these trials were valid).")


def test_the_cost_of_a_smaller_cache_is_reported_separately():
    found = three_ways([seen(0, 1, 10.0), seen(STOPPED_BLOCK, 2, 10.0), seen(WHOLE_BLOCK, 3, 8.0)])
    assert alone_sentences(found)[1] == (
        "chat alone with all of the device's memory takes 8 ms instead of 10: its share costs 25 %."
    )


def test_servers_are_bracketed_and_each_has_the_whole_device_once():
    tenants = {
        "chat": {"workload": "openai:", "server": SERVER, "load": "poisson(5)"},
        "other": {"workload": "openai:", "server": {"start": "serve {port}"}},
        "null": {"workload": "null"},
    }
    study = study_from({"tenants": tenants, "mixes": ["pairs"]})
    before = list(bracket_trials(study, "before", Windows(1.0, 0.1)))
    assert [(one.mix, one.block) for one in before] == [
        ("chat", STOPPED_BLOCK),
        ("chat", WHOLE_BLOCK),
        ("other", STOPPED_BLOCK),
    ]
    assert [one.tenants[0].workload.server.arguments(1)[-1] for one in before[:2]] == ["--small", "--all"]
    after = list(bracket_trials(study, "after", Windows(1.0, 0.1)))
    assert [one.mix for one in after] == ["chat", "other"]
    assert len({one.number for one in [*before, *after]}) == 5
    alone = study_from({"tenants": {"chat": tenants["other"]}, "mixes": ["solo"]})
    assert not list(bracket_trials(alone, "before", Windows(1.0, 0.1)))


def curve(*, shared, kept, arrivals=""):
    cell = Cell("r", "cpu", False, "{}", arrivals, shared, "chat+infer" if shared else "chat", "pinned")
    levels = tuple(RateAttainment(rate, share, 0.95, None) for rate, share in kept)
    return CapacityCurve(cell, "chat", "chat", levels)


def test_the_knee_is_the_last_rate_before_the_first_miss():
    alone = curve(shared=False, kept=[(5, 1.0), (10, 0.99), (20, 0.96), (40, 0.5)])
    beside = curve(shared=True, kept=[(5, 1.0), (10, 0.97), (20, 0.8), (40, 0.96)])
    never = curve(shared=True, kept=[(5, 0.2), (10, 0.1), (20, 0.1)])
    assert capacity_sentences([alone, beside, never]) == [
        "chat alone keeps its objectives up to 20 requests/s, and no longer at 40 (50 % in time).",
        (
            "chat in chat+infer (pinned) keeps its objectives up to 10 requests/s, and no longer at 20 (80 % in "
            "time): 50 % of what it keeps alone."
        ),
        "chat in chat+infer (pinned) misses its objectives already at 5 requests/s (20 % in time).",
    ]


def test_rates_of_other_arrivals_make_another_curve():
    even = [
        curve(shared=shared, kept=[(5, 1.0), (10, 0.99), (20, 0.5)], arrivals="poisson") for shared in (False, True)
    ]
    bursty = curve(shared=True, kept=[(5, 1.0), (10, 0.5), (20, 0.1)], arrivals="trace")
    assert capacity_sentences([*even, bursty])[1:] == [
        (
            "chat in chat+infer (pinned) under poisson keeps its objectives up to 10 requests/s, and no longer at 20 "
            "(50 % in time): 100 % of what it keeps alone."
        ),
        (
            "chat in chat+infer (pinned) under trace keeps its objectives up to 5 requests/s, and no longer at 10 "
            "(50 % in time)."
        ),
    ]


def test_on_one_screen_each_knee_is_a_line():
    alone = curve(shared=False, kept=[(5, 1.0), (20, 0.96), (40, 0.5)])
    beside = curve(shared=True, kept=[(5, 1.0), (10, 0.97), (20, 0.8)])
    assert knees_of([alone, beside]).rows == (
        ("chat", "alone", "20.0/s", "40.0/s (50 % in time)", NOTHING),
        ("chat", "chat+infer", "10.0/s", "20.0/s (80 % in time)", "50 %"),
    )
