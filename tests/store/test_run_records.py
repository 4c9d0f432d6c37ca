"""What a result is computed from: readings of sensors by device, and jobs at fixed clocks, with figures by hand."""

import json

import numpy as np
import pytest

from cotenant.errors import WatchedRuns
from cotenant.store.folder import RunFolder
from cotenant.store.reading import open_runs
from cotenant.store.run_records import _served_on, clock_readings, readings, run_records
from tests.store.synthetic import WINDOW_START_NS, trial

MS = 1_000_000


def with_samples(number, samples, **facts):
    """A trial with readings: sensor, device, milliseconds since the window began, value."""
    made = trial(number, **facts)
    columns = list(zip(*samples, strict=True))
    made.samples.update(
        {
            "sensor": np.array(columns[0]),
            "device": np.array(columns[1]),
            "t_ns": WINDOW_START_NS + np.array([int(ms * MS) for ms in columns[2]]),
            "value": np.array(columns[3], float),
            "source": np.array(["nvml"] * len(samples)),
        }
    )
    return made


def commit(path, *trials, **manifest):
    folder = RunFolder.create(path, {"run": path.name} | manifest)
    for each in trials:
        folder.commit(each)
    return folder.path


def read(path, *sensors):
    with open_runs([path]) as opened:
        return list(readings(opened, sensors or ("power_w",)))


# --- readings


def test_readings_of_a_trial_come_by_sensor_in_order_of_time(tmp_path):
    samples = [
        ("power_w", "cpu", 200, 90.0), ("power_w", "cpu", -100, 50.0), ("power_w", "cpu", 0, 70.0),
        ("power_w", "cpu", 300, float("nan")), ("temperature_c", "cpu", 0, 60.0), ("clock_mhz", "cpu", 0, 1.0),
    ]  # fmt: skip
    run = commit(tmp_path / "r", with_samples(0, samples, requests=4))
    (found,) = read(run, "power_w", "temp%")
    assert (found.trial, found.device, found.window_s, found.cell.run) == (0, "cpu", 1.0, "r")
    assert found.served == 8, "of both tenants"
    assert sorted(found.series) == ["power_w", "temperature_c"]
    power = found.series["power_w"]
    assert (power.t_s.tolist(), power.values.tolist(), power.source) == ([-0.1, 0.0, 0.2], [50.0, 70.0, 90.0], "nvml")
    assert read(run, "nothing") == []


@pytest.mark.parametrize(
    ("facts", "read_back"),
    [({}, True), ({"verdict": "invalid"}, False), ({"verdict": "unstable"}, True), ({"block": -1}, False),
     ({"window_start_ns": None}, False)],
)  # fmt: skip
def test_only_usable_trials_with_a_window_are_read(tmp_path, facts, read_back):
    run = commit(tmp_path / "r", with_samples(0, [("power_w", "cpu", 0, 1.0)], **facts))
    assert bool(read(run)) is read_back


def test_requests_of_a_group_are_those_of_each_member(tmp_path):
    samples = [("power_w", name, 0, 5.0) for name in ("cpu", "cuda:0", "cuda:1")]
    mixed = with_samples(0, samples, tenants=("a", "b"), requests=3, device="group")
    for tenant, member in zip(mixed.tenants, ("cuda:0", "cuda:1"), strict=True):
        tenant["member"] = member
    mixed.requests["ok"][:1] = False
    mixed.requests["in_window"][-1] = False
    found = read(commit(tmp_path / "r", mixed))
    assert {each.device: each.served for each in found} == {"cuda:0": 2, "cuda:1": 2}, "the first was idle"


def test_a_trial_without_requests_still_has_its_readings(tmp_path):
    idle = with_samples(0, [("power_w", "cpu", 0, 5.0)], requests=2)
    idle.requests["ok"][:] = False
    (found,) = read(commit(tmp_path / "r", idle))
    assert found.served == 0


def test_a_device_serves_no_more_than_the_trials_own():
    assert _served_on("a", {"": 5, "a": 3}) == _served_on("a", {"": 3, "a": 5}) == 3
    assert _served_on("a", {"": 5}) == 5
    assert _served_on("a", {"b": 5}) is None


# --- jobs at fixed clocks


def sweep(settings, **facts):
    return [
        with_samples(
            number,
            [("power_w", "cpu", -1, 999.0), ("power_w", "cpu", 0, 80.0), ("power_w", "cpu", 1000, 100.0),
             ("power_w", "cpu", 1001, 999.0), (clock, "cpu", 500, 1200.0)],
            tenants=("m",), settings=each if isinstance(each, str) else json.dumps(each), **facts,
        )
        for number, (each, clock) in enumerate(settings)
    ]  # fmt: skip


def jobs(path, *trials):
    with open_runs([commit(path, *trials)]) as opened:
        return clock_readings(opened)


SETTINGS = [
    ({"clock_mhz": 900, "sm_clock_mhz": 5}, "sm_clock_mhz"),
    ({"sm_clock_mhz": 1000, "power_w": 70}, "frequency_mhz"),
    ({"power_limit_w": 60, "clock_mhz": "max"}, "sm_clock_mhz"),
]


def test_a_sweep_gives_a_reading_per_job_and_trial(tmp_path):
    found = sorted(jobs(tmp_path / "r", *sweep(SETTINGS)), key=lambda job: job.clock_set_mhz or 0)
    assert [(job.clock_set_mhz, job.limit_set_w) for job in found] == [(None, 60.0), (900.0, None), (1000.0, 70.0)]
    for job in found:
        assert (job.run, job.job, job.device) == ("r", "m", "cpu")
        assert (job.power_w, job.clock_mhz, job.time_ms) == (90.0, 1200.0, 1.0), "inside the window"


def test_fewer_than_three_settings_are_no_sweep(tmp_path):
    assert jobs(tmp_path / "r", *sweep(SETTINGS[:2])) == ()


def test_settings_that_can_not_be_read_set_nothing(tmp_path):
    found = jobs(tmp_path / "r", *sweep([("{", "sm_clock_mhz"), ("[1]", "sm_clock_mhz"), ("", "sm_clock_mhz")]))
    assert [(job.clock_set_mhz, job.limit_set_w) for job in found] == [(None, None)] * 3


@pytest.mark.parametrize("facts", [{"verdict": "invalid"}, {"solo": False}])
def test_only_usable_trials_of_a_job_alone_count(tmp_path, facts):
    assert jobs(tmp_path / "r", *sweep(SETTINGS, **facts)) == ()


# --- the records of a result


def test_what_a_result_is_told_of_its_runs(tmp_path):
    first = commit(tmp_path / "first", trial(0), trial(1, block=-1, tenants=("w",)))
    second = commit(tmp_path / "it's second", trial(0), profile_pass={})
    with open_runs([first, second]) as opened:
        records = run_records(opened)
        assert records.folders == (first, second)
        assert [manifest["run"] for manifest in records.manifests] == ["first", "it's second"]
        assert {(seen.run, seen.tenant) for seen in records.observations} == {
            (run, tenant) for run in ("first", "it's second") for tenant in ("bert-mini", "gpt2-mini")
        }, "warming up is left out"
        assert records.around == ()
    assert [note.partition(" is a profile pass")[0] for note in records.notes] == [str(second)]


def test_solo_trials_with_the_other_servers_stopped_are_looked_at_too(tmp_path):
    from cotenant.tenancy.records import STOPPED_BLOCK

    run = commit(tmp_path / "r", trial(0), trial(1, block=STOPPED_BLOCK, tenants=("w",)))
    with open_runs([run]) as opened:
        records = run_records(opened)
        assert "w" in {seen.tenant for seen in records.around}
        assert "w" not in {seen.tenant for seen in records.observations}


def test_a_watched_run_has_no_result(tmp_path):
    watched = commit(tmp_path / "w", trial(0), study_name="watched")
    with open_runs([watched]) as opened, pytest.raises(WatchedRuns, match="which a result needs"):
        run_records(opened)
