"""Input of comparisons and explanations, for tables of any size."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.store import portions
from cotenant.store.evidence import evidence
from cotenant.store.folder import RunFolder
from cotenant.store.reading import open_runs
from tests.store.synthetic import WINDOW_START_NS, trial

S = 1_000_000_000
CORES = 2


def sampled(*, device="cpu", **sensors):
    """Add readings of (seconds since the window opened, value) for each sensor."""
    rows = [(name, *reading) for name, readings in sensors.items() for reading in readings]
    return {
        "device": np.full(len(rows), device),
        "t_ns": np.array([WINDOW_START_NS + int(t_s * S) for _, t_s, _ in rows]),
        "sensor": np.array([name for name, _, _ in rows]),
        "value": np.array([value for _, _, value in rows], np.float64),
        "unit": np.full(len(rows), "s"),
        "source": np.full(len(rows), "/proc"),
    }


def staged(records, **durations_ns):
    """Add stages of these lengths to every request."""
    size = records.requests["seq"].size
    return {
        "tenant": np.tile(records.requests["tenant"], len(durations_ns)),
        "seq": np.tile(records.requests["seq"], len(durations_ns)),
        "stage": np.repeat(list(durations_ns), size),
        "start_ns": np.concatenate(
            [records.requests["started_ns"] + place for place, _ in enumerate(durations_ns.values())]
        ),
        "duration_ns": np.repeat(list(durations_ns.values()), size),
    }


@pytest.fixture
def found(tmp_path):
    def store(*trials):
        run = RunFolder.create(tmp_path / "run", {"run": "r1", "device_description": {"cores": CORES}})
        for records in trials:
            run.commit(records)
        with open_runs([run.path]) as runs:
            return evidence(runs)

    return store


def test_counters_are_interpolated_at_both_ends_of_the_window(found):
    plain = trial(tenants=("a",))
    busy = [(-0.5, 10.0), (0.5, 11.0), (1.5, 13.0)]
    own = [(0.25, 5.0), (1.25, 6.0)]  # its first reading is after the window opened
    [seen] = found(replace(plain, samples=sampled(cpu_busy_s=busy, own_cpu_s=own, frequency_mhz=[(0.5, 2000)])))
    grown = np.interp([0, 1], *zip(*busy, strict=True)) @ [-1, 1] - np.interp([0, 1], *zip(*own, strict=True)) @ [-1, 1]
    assert seen.foreign_share == pytest.approx(grown / CORES)
    assert seen.steal_share is None
    assert seen.clock_mhz == 2000


def test_a_counter_last_read_within_the_window_gives_no_value(found):
    plain = trial(tenants=("a",))
    [seen] = found(replace(plain, samples=sampled(cpu_steal_s=[(-1, 0.0), (0.9, 1.0)])))
    assert seen.steal_share is None


def test_stages_come_in_their_order_per_request(found):
    plain = trial(tenants=("a",))
    [seen] = found(replace(plain, stages=staged(plain, prepare=200, compute=700)))
    assert list(seen.stages_ns.items()) == [("prepare", 200), ("compute", 700)]
    assert seen.service_ns == 1_000_000


def test_stages_of_tenants_beside_others_are_not_read(found):
    plain = trial()
    seen = found(replace(plain, stages=staged(plain, compute=700)))
    assert [item.stages_ns for item in seen] == [{}, {}]
    assert [item.service_ns for item in seen] == [1_000_000] * 2


def test_trials_are_read_a_portion_at_a_time_with_the_same_result(found, monkeypatch):
    trials = []
    for number in range(3):
        plain = trial(number, tenants=("bert-mini",))
        samples = sampled(cpu_steal_s=[(0, 0.0), (1, 0.1 * number)])
        trials.append(replace(plain, stages=staged(plain, compute=100 + number), samples=samples))
    monkeypatch.setattr(portions.portions, "__defaults__", (1,))
    seen = found(*trials)
    assert [(item.seen.trial, item.stages_ns) for item in seen if item.seen.tenant == "bert-mini"] == [
        (number, {"compute": 100 + number}) for number in range(3)
    ]
    assert [item.steal_share for item in seen[:3]] == pytest.approx([0, 0.05, 0.1])


def test_a_trial_that_never_served_has_empty_circumstances(found):
    [seen] = found(replace(trial(tenants=("a",)), requests={}))
    assert (seen.service_ns, seen.stages_ns, seen.clock_mhz) == (None, {}, None)
