"""Figures and sentences of watched servers, and what devices were used for, at each limit."""

import math
from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.analyse import device_use
from cotenant.analyse.device_use import SensorSeries, TrialReadings
from cotenant.analyse.neighbours import watching
from cotenant.analyse.neighbours.influence import Influence, TenantSeries, own_load
from cotenant.analyse.neighbours.totals import Totals
from cotenant.analyse.neighbours.watching import Grant, TenantTotals, watched_of
from cotenant.analyse.sharing import cells
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.evidence import cores_of, peaks_of
from cotenant.tenancy.interval import Estimate, Missing

SECONDS = np.arange(0.0, 121.0, 1.0)


def totals(name="chat", since_s=0.0, **roles):
    """Counters that grow by so much a second, read every second for two minutes."""
    read = {role: Totals(since_s + SECONDS, rate * SECONDS) for role, rate in roles.items()}
    return TenantTotals(name, "vllm", read)


def test_the_figures_of_a_tenant_are_rates_and_means_of_what_was_added():
    given = totals(
        requests=2.0, latency_s=0.4, latency_count=2.0, token_s=0.6, token_count=30.0, first_s=0.1, first_count=2.0,
        tokens_in=200.0, tokens_out=60.0, device_s=0.2, cpu_s=1.5, gpu_s=0.25,
    )  # fmt: skip
    found = watched_of([given], device="d", notes=["n"], unseen=["u"], cores=8)
    [tenant] = found.tenants
    assert (tenant.requests, tenant.rate_rps) == (240, 2.0)
    assert (tenant.mean_ms, tenant.token_ms, tenant.first_ms, tenant.device_ms) == pytest.approx((200, 20, 50, 100))
    assert (tenant.tokens_in, tenant.tokens_out, tenant.cores, tenant.gpu_share) == pytest.approx((100, 30, 1.5, 0.25))
    assert (tenant.restarts, tenant.unknown_s, tenant.cv) == (0, 0.0, 0.0)
    assert (found.since_s, found.minutes, found.device, found.cores) == (0.0, 2.0, "d", 8)
    assert (found.notes, found.unseen, found.influences) == (("n",), ("u",), ())
    [series] = found.series
    assert (series.step_s, series.requests.tolist()) == (3.0, [6.0] * 40)
    assert (series.measure, series.activity_unit) == ("time per token", " tokens/s")
    assert series.activity == pytest.approx([260.0] * 40)
    assert (series.cores[0], series.gpu[0]) == pytest.approx((1.5, 0.25))
    assert series.lengths == (), "a time per token doesn't depend on the lengths of requests"


def test_the_time_of_day_changes_no_figure():
    roles = {"requests": 2.0, "latency_s": 0.4, "latency_count": 2.0, "cpu_s": 1.5}
    early, late = (watched_of([totals(since_s=since, **roles)], device="d") for since in (0.0, 86_400.0))
    assert (late.since_s, late.minutes, late.tenants) == (86_400.0, early.minutes, early.tenants)
    assert late.tenants[0].rate_rps == 2.0


@pytest.mark.parametrize(
    ("roles", "unit", "level"),
    [
        ({"requests": 2.0, "tokens_in": 5.0, "tokens_out": 7.0}, " tokens/s", 12.0),
        ({"requests": 2.0, "tokens_out": 7.0}, " tokens/s", 7.0),
        ({"requests": 2.0, "tokens_in": 5.0}, "/s", 2.0),
        ({"gpu_s": 0.5, "cpu_s": 0.25}, " % of the GPU's time", 50.0),
        ({"cpu_s": 0.25}, " % of a core", 25.0),
    ],
)
def test_activity_is_the_best_measure_that_is_published(roles, unit, level):
    [series] = watched_of([totals(**roles)], device="d").series
    assert series.activity_unit == unit
    assert series.activity[:3] == pytest.approx([level] * 3)
    assert series.measure == "latency"
    assert series.units.size == series.time_s.size == 0, "no times are published"
    assert [each[0] for each in series.lengths] == pytest.approx(
        [roles[role] / 2 for role in ("tokens_in", "tokens_out") if role in roles]
    )


def test_what_is_not_published_is_unknown():
    [tenant] = watched_of([TenantTotals("a", "", {"cpu_s": Totals(SECONDS, SECONDS)})], device="d").tenants
    unknown = (tenant.requests, tenant.rate_rps, tenant.cv, tenant.mean_ms, tenant.token_ms, tenant.gpu_share)
    assert unknown == (None,) * 6
    nothing = watched_of([], device="d")
    assert (nothing.since_s, nothing.minutes, nothing.tenants) == (0.0, 0.0, ())
    single = TenantTotals("a", "", {"requests": Totals(np.array([5.0]), np.array([3.0]))})
    assert watched_of([single], device="d").minutes == 0.0, "a single reading spans no time"
    assert watched_of([totals(requests=1.0), single], device="d").since_s == 0.0


def test_gaps_and_restarts_are_left_out():
    at = np.array([*range(11), *range(30, 41)], float)
    value = np.array([*range(0, 22, 2), *range(0, 22, 2)], float)
    [tenant] = watched_of([TenantTotals("a", "", {"requests": Totals(at, value)})], device="d").tenants
    assert (tenant.restarts, tenant.unknown_s, tenant.requests) == (1, 20.0, 40)
    assert tenant.rate_rps == pytest.approx(2.0)
    found = watched_of([TenantTotals("a", "", {"requests": Totals(at, value)})], device="d", notes=["n"])
    assert watching.note_sentences(found) == [
        "a restarted 1 time; what it did around that isn't counted.", "Nothing was read of a for 20 s.", "n",
    ]  # fmt: skip
    assert watching.note_sentences(watched_of([totals(requests=1.0)], device="d")) == []


@pytest.mark.parametrize(("minutes", "influences"), [(40, 2), (0.1, 0)])
def test_pairs_are_compared_if_there_are_several_intervals(minutes, influences):
    at = np.arange(0.0, 60 * minutes + 1, 1.0)
    pair = [
        TenantTotals(name, "", {role: Totals(at, at * 2) for role in ("requests", "latency_s", "latency_count")})
        for name in "ab"
    ]
    assert len(watched_of(pair, device="d").influences) == influences


# --- sentences


def influence(verdict="slows", busy=None, *, reference="idle", experiment=None, unit="/s", more=None, neighbour="n"):
    return Influence(
        neighbour=neighbour, tenant="t", verdict=verdict, measure="latency",
        busy=Estimate(1.5, 1.2, 1.8, 9) if busy is None else busy, light=Missing("x"), raw=Missing("x"),
        busy_from=2.0, unit=unit,
        reference=reference, minutes=5.0, more_minutes=more, experiment=experiment,
    )  # fmt: skip


SLOWS = "n slows t 1.50x [1.20, 1.80] when it serves more than 2.0/s"
OPEN, UNKNOWN = {"verdict": "can't tell"}, {"busy": Missing("why")}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, f"{SLOWS} (latency)."),
        ({"reference": "light"}, f"{SLOWS}, against its lightest load: it was never idle (latency)."),
        ({"unit": " tokens/s"}, "n slows t 1.50x [1.20, 1.80] when it handles more than 2.0 tokens/s (latency)."),
        ({"unit": " % of a core"}, "n slows t 1.50x [1.20, 1.80] when it uses more than 2.0 % of a core (latency)."),
        (OPEN, "Whether n slows t isn't decided: 1.50x [1.20, 1.80] when it serves more than 2.0/s."),
        (OPEN | UNKNOWN, "Whether n slows t can't be told: why."),
        (
            OPEN | UNKNOWN | {"experiment": (3, 60.0)},
            (
                "Whether n slows t can't be told: why. Pausing n 3 times for 1 min, as long apart, while this watches "
                "would tell."
            ),
        ),
    ],
)  # fmt: skip
def test_a_pair_in_a_sentence(more, said):
    assert watching.sentence(influence(**more)) == said


def answers(*influences):
    found = watched_of([totals(requests=1.0)], device="d")
    object.__setattr__(found, "influences", influences)
    return watching.answer_sentences(found)


def test_what_slows_comes_first_and_what_is_open_last():
    first = [influence("can't tell", neighbour="o", more=2.0), influence("hardly", neighbour="h"), influence("slows")]
    said = answers(*first)
    assert [sentence.split()[0] for sentence in said] == ["n", "h", "Whether", "About"]
    assert said[-1] == "About 2 min more of such traffic would decide the rest."
    assert answers(first[0])[-1] == "About 2 min more of such traffic would decide it."
    assert answers(influence("can't tell", more=None))[-1].startswith("Whether")
    week = 7 * 24 * 60.0
    assert answers(influence("can't tell", more=week))[-1].startswith("About 168 h more")
    assert answers(influence("can't tell", more=week + 1))[-1].startswith("Watching alone would take more than a week")
    two = answers(influence("can't tell", more=2.0), influence("can't tell", more=3.0, neighbour="m"))
    assert two[-1] == "About 3 min more of such traffic would decide it."


def test_why_there_is_no_answer():
    def said(*tenants):
        return watching.answer_sentences(watched_of(tenants, device="d"))[0]

    assert said() == "Nothing was watched."
    assert said(totals("a", requests=1.0)).startswith("Only a was watched")
    assert said(totals("a", requests=1.0), totals("b", requests=1.0)).startswith("None of a and b publishes times")
    short = [
        TenantTotals(name, "", {
            role: Totals(np.arange(3.0), np.arange(3.0)) for role in ("requests", "latency_s", "latency_count")
        }) for name in "ab"
    ]  # fmt: skip
    assert said(*short) == (
        "2 s are too short to tell who slows whom: it takes at least 2 min 30 s of traffic that comes and goes."
    )


@pytest.mark.parametrize(
    ("grant", "said"),
    [
        (Grant("cores", "cgroup", 2.0, 2.1, "cores"), "a got 2.10 cores, within the 2.00 cores granted (cgroup)."),
        (Grant("cores", "cgroup", 2.0, 2.11, "cores"), "a got 2.11 cores, more than the 2.00 cores granted (cgroup)."),
        (Grant("memory", "MIG", 2**30, 2**29, "B"), "a got 512 MiB, within the 1.00 GiB granted (MIG)."),
        (Grant("SMs", "MPS", 50.0, None, "%"), "a is granted 50.0 % (MPS); what it gets can't be seen here."),
        (Grant("SMs", "MPS", 50.0, None, "%", "DCGM"),
         "a is granted 50.0 % (MPS); what it gets can't be seen here: DCGM would show it."),
    ],
)  # fmt: skip
def test_grants(grant, said):
    assert watching.grant_sentence(Facts(tenant="a"), grant) == said


# --- devices

CELL = Cell("r", "g", False, "{}", "closed(1)", True, "a+b", "mps")
MANIFEST = {"run": "r", "sensors": [{"name": "power_w", "period_s": 0.1}, {"name": "energy_j", "period_s": 0.2}]}


def series(t_s, values, source="nvml"):
    return SensorSeries(np.array(t_s, float), np.array(values, float), source)


def trial(device="g", *, window_s=10.0, served=5, cell=CELL, **sensors):
    return TrialReadings(cell, 0, device, window_s, served, sensors)


def test_a_gauge_is_read_within_the_window_ends_included():
    power = series([-1, 0, 5, 10, 11], [900, 100, 200, 300, 900])
    [found] = device_use.device_use([trial(power_w=power)], [MANIFEST])
    assert (found.power_w.value, found.power_w.trials, found.power_w.source) == (200.0, 1, "nvml")
    early = trial(window_s=1.0, power_w=series([-2, -1], [100, 50]))
    assert device_use._gauge(early, "power_w").value == 50.0, "the last before a short window"
    assert device_use._gauge(trial(power_w=series([], [])), "power_w") is None
    assert device_use._gauge(trial(), "power_w") is None
    assert device_use.device_use([trial(temperature_c=power)], [MANIFEST]) == (), "a CPU has no table"


def test_trials_of_a_device_are_averaged_and_members_of_a_large_group_are_one_row():
    readings = [trial(sm_active=series([1], [value], source)) for value, source in ((0.2, "a"), (0.4, "b"), (0.6, "a"))]
    [found] = device_use.device_use(readings, [MANIFEST])
    assert (found.sm_active.value, found.sm_active.trials, found.sm_active.source) == (pytest.approx(0.4), 3, "a, b")

    def group(count):
        return [trial(f"g#{number}", sm_active=series([1], [0.5])) for number in range(count)]

    assert len(device_use.device_use(group(8), [MANIFEST])) == 8
    [pooled] = device_use.device_use(group(9), [MANIFEST])
    assert (pooled.device, pooled.sm_active.trials) == ("mean of 9 members", 9)
    other = Cell("r", "g", False, "{}", "closed(1)", True, "a+c", "mps")
    apart = [*group(8), trial("x", cell=other, sm_active=series([1], [0.5]))]
    assert len(device_use.device_use(apart, [MANIFEST])) == 9, "members are counted by cell"


def test_throttling_is_the_longest_counter_or_the_share_of_samples_with_a_reason_that_slows():
    grown = trial(throttled_a=series([0, 10], [5, 7]), throttled_b=series([0, 10], [0, 4]))
    assert device_use._throttled(grown).value == pytest.approx(0.4)
    assert device_use._throttled(trial(throttled_a=series([0, 10], [0, 40]))).value == 1.0
    assert device_use._throttled(trial(throttled_a=series([0, 10], [4, 0]))).value == 0.0
    lone = trial(throttled_a=series([0], [4]), event_reasons=series([1, 2, 3, 4], [0x1, 0x4, 0x80, 0x10]))
    found = device_use._throttled(lone)
    assert (found.value, found.source) == (0.5, "nvml, sampled")
    assert device_use._throttled(trial()) is None


def test_energy_per_request_or_why_there_is_none():
    t = np.arange(-1.0, 12.0, 0.1)
    found, why = device_use._energy(trial(energy_j=series(t, 100 * t)), device_use._power_sensor(MANIFEST))
    assert (found.value, found.trials, why) == (pytest.approx(200.0, rel=0.05), 1, None)
    by_power, _ = device_use._energy(trial(power_w=series(t, 0 * t + 100)), device_use._power_sensor(MANIFEST))
    assert (by_power.value, by_power.source) == (pytest.approx(200.0, rel=0.05), "nvml, summed up")
    sensor = device_use._power_sensor(MANIFEST)
    assert (sensor.update_s, sensor.window_s, sensor.known) == (0.2, 0.2, False)
    assert device_use._energy(trial(served=0), sensor)[1] == "no request was served"
    assert device_use._energy(trial(), sensor)[1] == "neither energy nor power was read"
    assert device_use._energy(trial(), None)[1] == "the power sensor's properties are unknown"
    for manifest in ({}, {"sensors": [{"name": "power_w"}]}, {"sensors": [{"name": "power_w", "period_s": "x"}]}):
        assert device_use._power_sensor(manifest) is None
    kept = {"kind": "instant", "update_s": 1.0, "window_s": 2.0, "known": True}
    stated = device_use._power_sensor({"device_description": {"power_sensor": kept}})
    assert stated is None or (stated.update_s, stated.window_s) == (1.0, 2.0)


def test_a_reason_for_missing_energy_is_that_of_a_trial_without():
    t = np.arange(-1.0, 12.0, 0.1)
    with_energy, without = (
        trial(energy_j=series(t, 100 * t), power_w=series(t, t)),
        trial(power_w=series([1], [1]), served=0),
    )
    [both] = device_use.device_use([with_energy, without], [MANIFEST])
    assert both.no_energy == "no request was served"
    [fine] = device_use.device_use([with_energy], [MANIFEST])
    assert fine.no_energy is None
    assert not math.isnan(fine.energy_per_request_j.value)


# --- own loads, ways and conditions


def load_of(requests, units):
    count = len(units)
    return TenantSeries(
        "a", 5.0, np.asarray(requests, float), np.asarray(units, float), np.ones(count), "latency", np.ones(count), "/s"
    )


def test_the_own_load_is_that_of_requests_or_else_of_what_is_timed():
    units = [10.0, 20.0, 40.0]
    nobody = np.zeros(3, bool)
    by_units = np.log(np.array(units) / 20)
    for requests in ([math.nan] * 3, [0.0] * 3):
        assert own_load(load_of(requests, units), nobody, nobody)[0][:, 0] == pytest.approx(by_units)
    found, narrow = own_load(load_of([8.0, 4.0, 0.1], units), nobody, nobody)
    assert found[:, 0] == pytest.approx(np.log(np.array([8.0, 4.0, 0.5]) / 4.0)), "half a request at least"
    assert narrow.all(), "without two levels nothing is left out"


def test_only_loads_that_both_levels_met_are_compared():
    rate = np.array([10.0, 20.0, 40.0, 20.0, 40.0, 80.0])
    low, high = np.array([1, 1, 1, 0, 0, 0], bool), np.array([0, 0, 0, 1, 1, 1], bool)
    for below, above in ((low, high), (high, low)):
        narrow = own_load(load_of(rate, rate), below, above)[1]
        assert narrow.tolist() == [False, True, True, True, True, False]


@pytest.mark.parametrize(
    ("sharing", "shares", "said"),
    [
        ("processes", "", "processes"), ("mps[60, 40]", "60+40", "mps 60+40"),
        ("mig[4g.20gb, 3g.20gb]", "4g+3g", "mig 4g+3g"), ("mps[10, 10, 10]", "10 each", "mps 10 each"),
        ("mps[50, 50]", "50+50", "mps 50+50"), ("mps[10, 10, 20]", "10+10+20", "mps 10+10+20"),
    ],
)  # fmt: skip
def test_ways_in_few_words(sharing, shares, said):
    assert (cells.shares_said(sharing), cells.sharing_said(sharing)) == (shares, said)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "as found"), ("{}", "as found"), ("[1]", "as found"), ("not JSON", "not JSON"),
        ('{"clock_mhz": 1410, "boost": false}', "1,410 MHz, boost off"), ('{"power_w": 250.4}', "250 W"),
        ('{"boost": true, "x": "y"}', 'boost on, x "y"'), ('{"clock_mhz": "max"}', 'clock_mhz "max"'),
    ],
)  # fmt: skip
def test_settings_in_words(settings, said):
    assert cells.settings_said(settings) == said


@pytest.mark.parametrize(
    ("cores", "count"), [([0, 1, 2], 3), ([], 1), (6, 6), (0, 1), (-2, 1), ("many", 1), (None, 1), (2.5, 1)]
)
def test_cores_of_a_manifest(cores, count):
    assert cores_of({"device_description": {"cores": cores}}) == count
    assert cores_of({}) == cores_of({"device_description": 3}) == 1


def test_peaks_of_a_manifest():
    roofline = {
        "flops_per_s": {"float32": 9}, "bytes_per_s": 8, "undisturbed": False, "cores": 2, "measured_utc": "then",
    }  # fmt: skip
    device = {"cores": 4, "memory_bytes": 100, "caches_bytes": {"L2": 5, "L3": 7}}
    found = peaks_of({"roofline": roofline, "device_description": device, "sensors": [{"name": "cache_misses"}, 3]})
    assert (found.flops_per_s, found.bytes_per_s, found.undisturbed) == ({"float32": 9.0}, 8.0, False)
    assert (found.rates_of, found.rates_known, found.counters) == (2, "then", True)
    assert (found.cores, found.memory_bytes, found.cache_bytes) == (4, 100, 7)
    bare = peaks_of({"roofline": {"flops_per_s": {}}, "device_description": {"memory_bytes": "x", "caches_bytes": {}}})
    assert (bare.bytes_per_s, bare.undisturbed, bare.cores, bare.memory_bytes, bare.cache_bytes) == (
        None, True, None, None, None,
    )  # fmt: skip
    assert not bare.counters
