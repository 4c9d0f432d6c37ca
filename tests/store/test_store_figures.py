"""Figures of tenants and questions to the database, on rows and readings made by hand."""

import math
from pathlib import Path
from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.errors import DatabaseError, DataError
from cotenant.store import observe, reduced
from cotenant.store.counting import Counted
from cotenant.store.database import from_files, questions
from cotenant.store.database.database import SensorUse
from cotenant.store.database.staging import gpu_name, silences
from cotenant.store.imports import Skipped

S = 10**9


def counted(**more):
    row = {
        "run": "r", "trial": 0, "block": 0, "mix": "a", "sharing": "alone", "settings": "{}", "load": "closed(1)",
        "device": "cpu", "simulated": False, "solo": True, "tenant": "a", "of": "a", "verdict": "valid",
        "failed_checks": None, "window_start_ns": 10 * S, "window_s": 2.0, "slo_ms": None, "slo_quantile": None,
        "ttft_slo_ms": None, "ttft_slo_quantile": None, "tpot_slo_ms": None, "tpot_slo_quantile": None, "member": None,
        "closed": True, "n": 6, "due": 8, "latency_ns": 60, "device_ns": 30, "device_n": 5, "slo_met": None,
        "ttft_met": None, "tpot_met": None, "all_met": None, "first_started_ns": 10 * S, "last_done_ns": 13 * S,
        "never_done": 0, "canary_us": None, "foreign_share": None, "model_error": None, "tokens_out": None,
        "rate_rps": None, "ttft_ns": None, "tpot_ns": None, "software": None,
    }  # fmt: skip
    return Counted(**row | more)


@pytest.mark.parametrize(
    ("more", "rate"),
    [
        ({}, 2.0),  # from the first start to the last end
        ({"last_done_ns": 11 * S}, 6.0),
        ({"last_done_ns": 11 * S, "never_done": 1}, 3.0),  # to the end of the window
        ({"last_done_ns": 11 * S, "closed": False}, 3.0),
        ({"first_started_ns": 11 * S, "closed": False}, 2.0),  # from the window's start to the last end
        ({"first_started_ns": 11 * S}, 3.0),
        ({"window_start_ns": None, "closed": False, "never_done": 1}, 2.0),
        ({"n": 0}, 0.0),
        ({"last_done_ns": None}, 0.0),
        ({"first_started_ns": None}, 0.0),
    ],
)
def test_throughput_is_requests_over_the_time_they_took(more, rate):
    assert observe._throughput(counted(**more)) == pytest.approx(rate)


def test_a_time_without_length_has_no_throughput():
    assert math.isnan(observe._throughput(counted(last_done_ns=10 * S)))


def test_an_observation_of_a_row():
    found = observe._observation(counted(), None)
    assert (found.n, found.unfinished, found.failed_checks) == (6, 2, ())
    assert (found.mean_latency_ns, found.mean_device_ns) == (10.0, 6.0)
    assert (found.slo_met, found.all_met, found.token_goals, found.tokens_out) == (None, None, (), None)
    none = observe._observation(counted(latency_ns=None, device_ns=None, failed_checks=["x"], tokens_out=7), None)
    assert math.isnan(none.mean_latency_ns)
    assert (none.mean_device_ns, none.failed_checks, none.tokens_out) == (None, ("x",), 7)
    assert observe._observation(counted(device_n=0), None).mean_device_ns is None


def test_an_objective_that_nobody_met_was_met_by_none():
    assert observe._observation(counted(slo_ms=5.0), None).slo_met == 0
    assert observe._observation(counted(slo_ms=5.0, slo_met=4), None).slo_met == 4
    goals = {"ttft_slo_ms": 3.0, "ttft_slo_quantile": 0.9, "tpot_slo_ms": 2.0, "tpot_slo_quantile": 0.5, "tpot_met": 2}
    found = observe._observation(counted(**goals, all_met=1), None)
    assert [(goal.metric, goal.limit_ms, goal.quantile, goal.met) for goal in found.token_goals] == [
        ("ttft", 3.0, 0.9, 0), ("tpot", 2.0, 0.5, 2),
    ]  # fmt: skip
    assert found.all_met == 1
    assert observe._observation(counted(tpot_slo_ms=2.0), None).all_met == 0
    assert observe._observation(counted(tpot_slo_ms=2.0), None).token_goals == (), "of no quantile"
    assert observe._observation(counted(ttft_slo_ms=2.0), None).token_goals == ()


# --- for drawing


@pytest.mark.parametrize(
    ("sensor", "unit", "shown"),
    [
        ("memory_used_bytes", "B", ("memory_used", "GiB")), ("cpu_s", "s", ("cpu", "s per s")),
        ("energy_j", "J", ("energy_j", "W")), ("requests", "count", ("requests", "per s")),
        ("power_w", "W", ("power_w", "W")),
    ],
)  # fmt: skip
def test_counters_are_shown_as_rates(sensor, unit, shown):
    assert reduced._shown(sensor, unit) == shown


@pytest.mark.parametrize(("count", "places"), [(1, [0]), (6, [0, 1, 2, 3, 4, 5]), (11, [0, 2, 4, 6, 8, 10])])
def test_trials_to_draw_are_spread_over_a_run(count, places):
    trials = [Facts(cell="a", number=number) for number in range(count)] + [Facts(cell="b", number=99)]
    assert [trial.number for trial in reduced._spread(trials)] == [*places, 99]


# --- files


def test_names_of_gpus_and_silent_sensors():
    assert gpu_name(Path("x/log.csv"), "GPU-1") == "GPU-1"
    assert gpu_name(Path("x/log.csv"), "MIG-1") == "MIG-1"
    assert gpu_name(Path("x/log.csv"), "0") == "log.csv: 0"
    assert silences({"a": (0, 9), "b": (1200, 3400)}) == ["b had no value in 1,200 of 3,400 readings"]


def test_a_key_is_the_content(tmp_path):
    one, two, three = (tmp_path / name for name in "abc")
    one.write_bytes(b"x" * from_files._CHUNK + b"y")
    two.write_bytes(one.read_bytes())
    three.write_bytes(b"x" * from_files._CHUNK + b"z")
    assert from_files.key_of(one) == from_files.key_of(two) != from_files.key_of(three)
    assert len(from_files.key_of(one)) == 24
    with pytest.raises(DataError, match="can't be read"):
        from_files.key_of(tmp_path)


def test_bad_lines_of_parts_are_counted_together_and_named_by_their_place():
    bad = from_files.Bad({})
    bad.refuse(Path("f"))
    bad.add((Skipped("x is not a number", 2, (3, 4)),), 0)
    bad.add((Skipped("x is not a number", 5, (1, 2, 3)), Skipped("other", 1, (7,))), 100)
    assert bad.found["x is not a number"] == Skipped("x is not a number", 7, (3, 4, 101))
    assert bad.found["other"] == Skipped("other", 1, (107,))
    with pytest.raises(
        DataError, match="f has 8 lines that can't be used, so nothing was imported: x is not a number "
    ):
        bad.refuse(Path("f"))
    single = from_files.Bad({})
    single.add((Skipped("other", 1, (7,)),), 0)
    with pytest.raises(DataError, match="f has 1 line that"):
        single.refuse(Path("f"))


def test_a_large_file_is_cut_between_lines_each_part_with_the_header(tmp_path, monkeypatch):
    monkeypatch.setattr(from_files, "LARGE_BYTES", 4)
    file = tmp_path / "log.csv"
    file.write_bytes(b"head\naa\nbbbbbb\nc\n")
    found = []
    for piece, before, last in from_files._pieces(file, tmp_path / "room"):
        found.append((piece.name, piece.read_bytes(), before, last))
    assert found == [
        ("log.csv", b"head\naa\nbbbbbb\n", 0, False), ("log.csv", b"head\nc\n", 2, True),
    ]  # fmt: skip


# --- questions


class Readings:
    """A database of sensors alone."""

    def __init__(self, *sensors):
        self._series = {use: (np.asarray(at, float), np.asarray(values, float)) for use, at, values in sensors}
        self.sources = {use.source: Facts(name=f"{use.source}.csv") for use in self._series}

    def sensors(self, gpu=None):
        return [use for use in self._series if gpu in (None, use.gpu)]

    def series(self, use):
        return self._series[use]


T = np.arange(0.0, 200.0, 0.5)
WAVE = 200 + 100 * (np.floor(T / 20) % 2)


def sensor(name="power_w", *, gpu="g", source="s", origin="smi", at=T, values=WAVE, readings=None):
    return SensorUse(gpu, source, name, "W", origin, len(at) if readings is None else readings), at, values


def test_power_sensors_are_compared_with_the_one_that_averages_least():
    database = Readings(
        sensor("power_average_w"), sensor("power_w"), sensor("power_instant_w"), sensor("power_limit_w"),
        sensor("power_w", gpu="h"),
    )  # fmt: skip
    found = questions.sensor_pairs(database, "g")
    assert [(pair.reference.sensor, pair.other.sensor) for pair in found] == [
        ("power_instant_w", "power_w"), ("power_instant_w", "power_average_w"),
    ]  # fmt: skip
    assert found[0].comparison.gain == pytest.approx(1.0, abs=0.01)
    assert questions.sensor_pairs(database, "h") == []
    few = Readings(sensor("power_w", readings=29), sensor("power_instant_w"))
    assert questions.sensor_pairs(few, "g") == []
    enough = Readings(sensor("power_w", readings=30), sensor("power_instant_w"))
    assert len(questions.sensor_pairs(enough, "g")) == 1
    apart = Readings(sensor("power_w", at=T + 1e6), sensor("power_instant_w"), sensor("power_average_w"))
    assert [pair.other.sensor for pair in questions.sensor_pairs(apart, "g")] == ["power_average_w"]


def test_sensors_are_named_by_words_of_their_lines():
    database = Readings(
        sensor("power_w"), sensor("power_instant_w"), sensor("power_w", gpu="h", source="other", origin="dcgm"),
        sensor("power", gpu="h"),
    )  # fmt: skip
    assert questions._find(database, "INSTANT g").sensor == "power_instant_w"
    assert questions._find(database, "h dcgm").source == "other"
    assert questions._find(database, "power").sensor == "power", "exactly its name"
    with pytest.raises(DatabaseError, match="No sensor matches all of 'x y'"):
        questions._find(database, "x y")
    with pytest.raises(DatabaseError, match="'power_w' matches 2 sensors") as refused:
        questions._find(database, "power_w")
    assert refused.value.hint == "add words unique to one: g power_w smi s.csv; h power_w dcgm other.csv"
    with pytest.raises(DatabaseError, match="can't be compared"):
        questions.compare_named(Readings(sensor("a"), sensor("b", at=T + 1e6)), "a", "b")
    assert questions.compare_named(database, "instant", "dcgm").reference.sensor == "power_instant_w"
    assert [name for _, name in questions.sensor_lines(database)] == ["s.csv", "s.csv", "other.csv", "s.csv"]


def test_warming_needs_power_and_temperature_of_a_source():
    warm = sensor("temperature_c", values=40 + 0 * T)
    assert questions.heat_fits(Readings(sensor("power_w")), "g") == []
    assert questions.heat_fits(Readings(warm), "g") == []
    [found] = questions.heat_fits(Readings(sensor("power_w"), warm), "g")
    assert (found.fit, bool(found.why_not), found.source) == (None, True, "s.csv")


def test_power_that_stands_still_while_the_gpu_warms_is_stuck():
    still, warm = sensor(values=0 * T + 150.0), sensor("temperature_c", values=40 + 30 * T / 200)
    [found] = questions.stuck_sensors(Readings(still, warm))
    assert (found.gpu, found.source, found.stuck.value) == ("g", "s", 150.0)
    assert found.to_json()["gpu"] == "g"
    assert questions.stuck_sensors(Readings(sensor(), warm)) == []
    for other in (
        sensor("power_limit_w", values=0 * T + 150.0),
        sensor(values=0 * T + 150.0, origin="simulated by cotenant"),
        sensor("memory_w", values=0 * T + 150.0),
    ):
        assert questions.stuck_sensors(Readings(other, warm)) == []
    elsewhere = sensor("temperature_c", source="other", values=40 + 30 * T / 200)
    assert questions.stuck_sensors(Readings(still, elsewhere)) == [], "sources have clocks of their own"


def test_a_gpu_has_a_place_among_those_measured_with_the_same_work(monkeypatch):
    def profile(name, ms):
        return Facts(gpu=name, time_ms=ms)

    slow, change = Facts(gpu="b"), Facts(gpu="b")
    seen = Facts(
        profiles=[profile("a", 1.0), profile("b", 3.0), profile("c", 3.0), profile("d", 2.0)], slow=[slow], noun="core",
        drift=Facts(changes=[change, Facts(gpu="a")]),
    )  # fmt: skip
    other = Facts(profiles=[profile("z", 1.0)], slow=[], noun="GPU", drift=Facts(changes=[]))
    monkeypatch.setattr(questions, "variabilities", lambda _: [(Facts(name="w"), seen), (Facts(name="v"), other)])
    [found] = questions._under_works(None, "b")
    assert (found.work, found.place, found.of, found.slow, found.changes) == ("w", 3, 4, slow, (change,))
    assert found.noun == "core"
    [fast] = questions._under_works(None, "a")
    assert (fast.place, fast.slow) == (1, None)
