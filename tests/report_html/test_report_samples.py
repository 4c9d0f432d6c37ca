"""What sensors read over a run: the same whether trials are read one by one or all at once, and device by device."""

from functools import partial

import numpy as np
import pytest

from cotenant.records import TrialRecords
from cotenant.report.figures import reduced
from cotenant.store import views
from cotenant.store.folder import RunFolder
from cotenant.store.portions import portions

SECOND = 1_000_000_000


def trial(number: int) -> TrialRecords:
    """Four seconds of two devices, whose energy counters stand far apart and grow by 100 and by 300 W."""
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
def test_sensors_are_drawn_alike_in_any_portions_and_no_rate_is_between_two_devices(tmp_path, monkeypatch, rows):
    run = RunFolder.create(tmp_path / "run", {})
    for number in range(4):
        run.commit(trial(number))
    monkeypatch.setattr(reduced, "portions", partial(portions, most=rows))
    monkeypatch.setattr(reduced, "SAMPLE_BINS", 2)
    files = views.find_files([run.path])
    with views.open_views(files) as con:
        points = reduced.Reduced(con, files).samples()
    found = [(one.sensor, one.unit, round(one.t_s, 3), pytest.approx(one.value)) for one in points]
    assert found == [
        ("energy_j", "W", 7.0, 200.0),
        ("energy_j", "W", 27.0, 200.0),
        ("temperature_c", "C", 6.875, 40.5),
        ("temperature_c", "C", 26.875, 42.5),
    ]
