"""Comparison of two sensors of one quantity, and thermal models, from the database."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from cotenant.cli.main import main
from cotenant.store.database import questions

HEADER = "timestamp, uuid, power.draw [W], power.draw.instant [W], temperature.gpu"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A one-minute log: power.draw is 0.95 of the mean over the last second, and every watt warms by 0.1 C."""
    random = np.random.default_rng(0)
    at = np.arange(0, 60, 0.05)
    power = np.where(np.floor(at / 3) % 2 == 0, 100.0, 250.0) + random.normal(0, 2, at.size)
    average = np.array([power[max(0, n - 19) : n + 1].mean() for n in range(at.size)])
    heat = np.empty(at.size)
    heat[0] = 30 + 0.1 * power[0]
    for n in range(1, at.size):
        heat[n] = heat[n - 1] + (30 + 0.1 * power[n] - heat[n - 1]) * 0.05 / 6
    rows = [
        f"2024/01/01 10:00:{second:06.3f}, GPU-a, {0.95 * mean:.2f}, {watts:.2f}, {warm:.0f}"
        for second, mean, watts, warm in zip(at, average, power, heat, strict=True)
    ]
    (tmp_path / "smi.csv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    monkeypatch.setenv("COTENANT_DB", str(tmp_path / "db"))
    assert main(["db", "add", str(tmp_path / "smi.csv")]) == 0
    return tmp_path / "db"


def test_all_about_a_gpu_includes_its_sensors_and_its_warming(home, capsys):
    capsys.readouterr()
    assert main(["db", "gpu", "GPU-a", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [pair] = found["sensor_pairs"]
    assert (pair["reference"]["sensor"], pair["other"]["sensor"]) == ("power_instant_w", "power_w")
    assert pair["gain"] == pytest.approx(0.95, abs=0.02)
    assert pair["window_s"] == 1.0
    assert pair["held_out_rmse"] < 0.2 * pair["uncorrected_rmse"]
    [heat] = found["heat"]
    assert heat["fit"]["fast_c_per_w"] + heat["fit"]["slow_c_per_w"] == pytest.approx(0.1, rel=0.15)
    assert heat["fit"]["held_out_rmse_c"] < 1
    assert main(["db", "gpu", "GPU-a"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "averaged over 1 s" in text
    assert "A watt more warms it by" in text


def test_two_sensors_are_named_by_words_of_their_lines(home, capsys):
    assert main(["db", "sensors"]) == 0
    assert "power_instant_w" in capsys.readouterr().out
    assert main(["db", "sensors", "GPU-a power_instant_w", "GPU-a power_w", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gain"] == pytest.approx(0.95, abs=0.02)
    assert main(["db", "sensors", "instant", "average"]) == 1
    assert "No sensor matches all of 'average'" in capsys.readouterr().err
    assert main(["db", "sensors", "gpu-a", "instant"]) == 1
    assert "'gpu-a' matches 3 sensors" in capsys.readouterr().err
    assert main(["db", "sensors", "instant"]) == 1


def test_sensors_that_never_overlap_are_reported(home, tmp_path, capsys):
    rows = [f"2025/01/01 10:00:{second:02d}.000, GPU-b, {second}, {second}, 40" for second in range(60)]
    (tmp_path / "later.csv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    assert main(["db", "add", str(tmp_path / "later.csv")]) == 0
    assert main(["db", "sensors", "GPU-a instant", "GPU-b instant"]) == 1
    assert "can't be compared: two sensors need 20 readings in common" in capsys.readouterr().err


def test_the_report_states_it_beside_the_timeline(home, tmp_path):
    assert main(["db", "report", "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "averaged over 1 s" in page
    assert "A watt more warms it by" in page


@pytest.mark.parametrize("empty", ["reference", "other"])
def test_a_sensor_without_readings_is_compared_with_nothing(empty):
    readings = {name: (np.arange(60.0), np.resize([100.0, 250.0], 60)) for name in ("reference", "other")}
    database = SimpleNamespace(series=(readings | {empty: (np.empty(0), np.empty(0))}).__getitem__)
    with pytest.raises(ValueError, match="one of them has no readings"):
        questions._compared(database, "reference", "other")
