"""Drawn samples of a run: the same whether trials are read one by one or all at once, in bounded memory."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cotenant.store import reduced, views
from cotenant.store.folder import RunFolder
from cotenant.store.portions import portions
from cotenant.store.reading import open_runs
from cotenant.tenancy.records import TrialRecords

SECOND = 1_000_000_000


def trial(number: int) -> TrialRecords:
    """Four seconds of two devices whose energy counters are far apart and grow by 100 and by 300 W."""
    t_ns = np.arange(0, 4 * SECOND, SECOND // 4)
    columns = [
        ("gpu:0", "energy_j", "J", 1e6 + 100 * t_ns / SECOND),
        ("gpu:1", "energy_j", "J", 5e3 + 300 * t_ns / SECOND),
        ("gpu:0", "temperature_c", "C", np.full(t_ns.size, 40.0 + number)),
    ]
    return TrialRecords(
        trial={
            "trial": number,
            "block": number,
            "order": 0,
            "mix": "a",
            "solo": True,
            "device": "gpu",
            "simulated": True,
            "sharing": "alone",
            "settings": "{}",
            "load": "closed(1)",
            "started_utc": f"2026-01-01T00:00:{10 * number:02}Z",
            "start_ns": 0,
            "window_start_ns": 0,
            "window_s": 4.0,
            "verdict": "valid",
        },
        tenants=({"tenant": "a", "of": "a", "load": "closed(1)"},),
        requests={},
        samples={
            "device": np.repeat([device for device, _, _, _ in columns], t_ns.size),
            "sensor": np.repeat([sensor for _, sensor, _, _ in columns], t_ns.size),
            "unit": np.repeat([unit for _, _, unit, _ in columns], t_ns.size),
            "value": np.concatenate([values for _, _, _, values in columns]),
            "t_ns": np.tile(t_ns + 1000, len(columns)),
        },
    )


@pytest.mark.parametrize("rows", [1, 10**6])
def test_sensors_are_drawn_alike_in_any_portions_without_mixing_devices(tmp_path, monkeypatch, rows):
    run = RunFolder.create(tmp_path / "run", {})
    for number in range(4):
        run.commit(trial(number))
    monkeypatch.setattr(reduced, "portions", partial(portions, most=rows))
    monkeypatch.setattr(reduced, "SAMPLE_BINS", 2)
    with open_runs([run.path]) as runs:
        points = reduced.Reduced(runs).samples()
    found = [(one.sensor, one.unit, round(one.t_s, 3), pytest.approx(one.value)) for one in points]
    assert found == [
        ("energy_j", "W", 7.0, 200.0),
        ("energy_j", "W", 27.0, 200.0),
        ("temperature_c", "C", 6.875, 40.5),
        ("temperature_c", "C", 26.875, 42.5),
    ]


def served(number: int, requests: int) -> TrialRecords:
    """The trial with requests of one millisecond, more in later trials, in two stages of a quarter and the rest."""
    seq = np.arange(requests)
    started, took = seq * 2_000_000, np.full(requests, 1_000_000 * (number + 1))
    tenant = np.zeros(requests, np.int64)
    return replace(
        trial(number),
        samples={},
        requests={
            "tenant": tenant,
            "seq": seq,
            "intended_ns": started,
            "started_ns": started,
            "done_ns": started + took,
            "in_window": np.ones(requests, bool),
            "ok": np.ones(requests, bool),
        },
        stages={
            "tenant": np.tile(tenant, 2),
            "seq": np.tile(seq, 2),
            "stage": np.repeat(["work", "load"], requests),
            "start_ns": np.concatenate([started + took // 4, started]),
            "duration_ns": np.concatenate([took - took // 4, took // 4]),
        },
    )


@pytest.mark.parametrize("rows", [1, 10**6])
def test_stages_and_timelines_are_drawn_alike_in_any_portions(tmp_path, monkeypatch, rows):
    run = RunFolder.create(tmp_path / "run", {})
    for number in range(3):
        run.commit(served(number, 40))
    monkeypatch.setattr(reduced, "portions", partial(portions, most=rows))
    with open_runs([run.path]) as runs:
        found = reduced.Reduced(runs)
        stages, points = found.stages(), found.timelines()
    assert [(one.stage, one.mean_ms, one.n) for one in stages] == [("load", 0.5, 120), ("work", 1.5, 120)]
    assert [(one.block, one.median_ms, one.slowest_ms) for one in points] == [(0, 1, 1), (1, 2, 2), (2, 3, 3)]


def test_a_stage_counts_with_all_its_repetitions_in_a_request(tmp_path):
    records, columns = served(0, 40), ("tenant", "seq", "stage", "start_ns", "duration_ns")
    tokens = {name: np.concatenate([records.stages[name], records.stages[name][:40]]) for name in columns}
    run = RunFolder.create(tmp_path / "run", {})
    run.commit(replace(records, stages=tokens))
    with open_runs([run.path]) as runs:
        stages = reduced.Reduced(runs).stages()
    assert [(one.stage, one.mean_ms, one.n) for one in stages] == [("load", 0.25, 40), ("work", 1.5, 40)]


def test_the_memory_for_stages_does_not_grow_with_the_run(tmp_path, monkeypatch):
    import duckdb

    run = RunFolder.create(tmp_path / "run", {})
    for number in range(6):
        run.commit(served(number, 40_000))
    monkeypatch.setattr(views, "MEMORY_LIMIT", "32MiB")
    with open_runs([run.path]) as runs:
        found = reduced.Reduced(runs)
        monkeypatch.setattr(reduced, "portions", partial(portions, most=10**9))
        with pytest.raises(duckdb.OutOfMemoryException):
            found.stages()
        monkeypatch.setattr(reduced, "portions", partial(portions, most=120_000))
        assert [one.n for one in found.stages()] == [240_000, 240_000]
