"""Long runs are read in portions: the same results, few queries, bounded memory."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.store import observe, run_records, views
from cotenant.store.folder import RunFolder
from cotenant.store.portions import portions
from cotenant.store.reading import open_runs
from cotenant.tenancy.records import TABLES
from tests.store.synthetic import WINDOW_START_NS, trial


@given(st.lists(st.integers(0, 20)), st.integers(1, 30))
def test_portions_cover_everything_in_order_and_are_as_large_as_allowed(sizes, most):
    cut = list(portions(sizes, sizes, most))
    assert [size for portion in cut for size in portion] == sizes
    assert all(cut), "none is empty"
    assert all(sum(portion) <= most or len(portion) == 1 for portion in cut)
    assert all(sum(one) + other[0] > most for one, other in pairwise(cut))


def read_in_portions_of(rows, monkeypatch):
    monkeypatch.setattr(observe, "portions", partial(portions, most=rows))
    monkeypatch.setattr(run_records, "portions", partial(portions, most=rows))


def with_samples(number, count, *, members=("",), sensors=("power_w", "sm_clock_mhz", "other"), **facts):
    """A trial with `count` samples of each sensor of each member, the last one first."""
    each = np.arange(count)[::-1]
    pairs = [(member, sensor) for member in members for sensor in sensors]
    return replace(
        trial(number, **facts),
        samples={
            "device": np.repeat([member or "gpu" for member, _ in pairs], count),
            "t_ns": np.tile(WINDOW_START_NS + each * 1_000_000, len(pairs)),
            "sensor": np.repeat([sensor for _, sensor in pairs], count),
            "value": np.tile(each + 1000.0 * number, len(pairs)),
            "unit": np.repeat("W", count * len(pairs)),
            "source": np.repeat([f"reads {sensor}" for _, sensor in pairs], count),
        },
    )


def read(run, sensors=("power_w", "sm_%")):
    with open_runs([run.path]) as runs:
        return list(run_records.readings(runs, sensors))


@pytest.mark.parametrize("rows", [1, 20, 10**6])
def test_readings_are_the_same_in_any_portions(tmp_path, monkeypatch, rows):
    run = RunFolder.create(tmp_path / "it's [a] run", {})
    for number in range(6):
        run.commit(with_samples(number, 5, mix="xy"[number % 2], verdict="invalid" if number == 4 else "valid"))
    read_in_portions_of(rows, monkeypatch)
    found = read(run)
    assert [(one.cell.mix, one.trial) for one in found] == [("x", 0), ("x", 2), ("y", 1), ("y", 3), ("y", 5)]
    for one in found:
        assert (one.device, one.window_s, one.served) == ("gpu", 1.0, 8)
        assert list(one.series) == ["power_w", "sm_clock_mhz"]
        assert one.series["power_w"].t_s.tolist() == [0, 0.001, 0.002, 0.003, 0.004]
        assert one.series["power_w"].values.tolist() == [1000 * one.trial + step for step in range(5)]
        assert one.series["power_w"].source == "reads power_w"


def test_a_member_is_read_with_its_own_requests_and_one_left_idle_is_not(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    grouped = with_samples(0, 5, members=("gpu:0", "gpu:1", "gpu:2"), tenants=("a@0", "b@0", "a@1"), requests=3)
    on = ("gpu:0", "gpu:0", "gpu:1")
    tenants = tuple({**tenant, "member": member} for tenant, member in zip(grouped.tenants, on, strict=True))
    run.commit(replace(grouped, tenants=tenants))
    assert [(one.device, one.served) for one in read(run)] == [("gpu:0", 6), ("gpu:1", 3)]


def test_a_trial_that_served_nothing_is_still_read(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.commit(with_samples(0, 5, requests=0))
    assert [one.served for one in read(run)] == [0]


def test_the_memory_for_readings_does_not_grow_with_the_run(tmp_path, monkeypatch):
    import duckdb

    run = RunFolder.create(tmp_path / "run", {})
    for number in range(10):
        run.commit(with_samples(number, 25_000, sensors=("power_w", "energy_j")))
    monkeypatch.setattr(views, "MEMORY_LIMIT", "24MiB")
    read_in_portions_of(10**9, monkeypatch)
    with pytest.raises(duckdb.OutOfMemoryException):
        read(run, ("power_w", "energy_j"))
    read_in_portions_of(50_000, monkeypatch)
    assert sum(one.series["power_w"].t_s.size for one in read(run, ("power_w", "energy_j"))) == 250_000


class Counting:
    """A connection that counts queries."""

    def __init__(self, con):
        self.con, self.asked = con, 0

    def execute(self, *question):
        self.asked += 1
        return self.con.execute(*question)

    def close(self):
        self.con.close()


@pytest.mark.parametrize("rows", [1, 6, 10**6])
def test_latencies_of_many_trials_take_few_queries_and_are_the_same_in_any_portions(tmp_path, monkeypatch, rows):
    run = RunFolder.create(tmp_path / "run", {})
    trials = [trial(number, tenants=("a", "b"), requests=number % 4) for number in range(12)]
    for one in trials:
        one.requests["done_ns"] += np.random.default_rng(len(trials)).integers(0, 999, one.requests["done_ns"].size)
        run.commit(one)
    connections = []
    opened = views.open_views
    monkeypatch.setattr(
        views, "open_views", lambda files: connections.append(Counting(opened(files))) or connections[0]
    )
    read_in_portions_of(rows, monkeypatch)
    with open_runs([run.path]) as runs:
        seen = list(observe.observations(runs, raw=True))
    from_disk = {(one.trial, one.tenant): one.latency_ns.tolist() for one in seen}
    in_memory = {
        (one.trial, one.tenant): one.latency_ns.tolist()
        for records in trials
        for one in observe.observe_trial(records, run.run, raw=True)
    }
    assert from_disk == in_memory
    if rows > len(TABLES) * 12:
        assert connections[0].asked == 2, "one for the counts, one for all latencies"
