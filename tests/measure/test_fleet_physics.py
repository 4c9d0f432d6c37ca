"""Simulated fleets through the complete pipeline: conclusions that agree with physics, labelled and reproducible."""

import json
from pathlib import Path

import numpy as np
import pytest

from cotenant.api.records import sql
from cotenant.api.run import run
from cotenant.api.show import show
from cotenant.study.files import study_from_text

MEMBERS = 48
STUDY = """
name: fleet
tenants:
  sgemm: {workload: sgemm, params: {size: 16384}}
mixes: [solo]
settings: [{}, {clock_mhz: 1200}, {power_w: 60%}]
spread: together
window: 9s
lead: 1s
blocks: 2
"""
FREE, LOCKED, CAPPED = "{}", '{"clock_mhz": 1200}', '{"power_w": 180.0}'
BY_MEMBER = """
with took as (
    select settings, member, avg(done_ns - started_ns) / 1e6 as ms
    from requests join tenants using (run, trial, tenant) join trials using (run, trial) where in_window group by all
), seen as (
    select settings, samples.device as member,
        median(value) filter (sensor = 'power_w') as w,
        median(value) filter (sensor = 'sm_clock_mhz') as mhz,
        median(value) filter (sensor = 'temperature_c') as c
    from samples join trials using (run, trial) group by all
)
select settings, member, ms, w, mhz, c from took join seen using (settings, member) order by all
"""


def asked(question: str, runs: list[Path]) -> list[tuple]:
    return [tuple(row) for row in sql(question, runs).rows]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    return run(study_from_text(STUDY, source="s"), devices=f"sim:v100-sxm2-16gb*{MEMBERS}", out=out).folder


@pytest.fixture(scope="module")
def by_setting(fleet: Path) -> dict[str, dict[str, np.ndarray]]:
    rows = asked(BY_MEMBER, [fleet])
    return {
        setting: {
            name: np.array([row[2 + index] for row in rows if row[0] == setting], float)
            for index, name in enumerate(("ms", "w", "mhz", "c"))
        }
        for setting in (FREE, LOCKED, CAPPED)
    }


def cv(values: np.ndarray) -> float:
    return float(values.std() / values.mean())


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def test_every_member_is_in_the_records_by_its_lasting_name(fleet):
    named = {row[0] for row in asked("select distinct member from tenants", [fleet])}
    assert named == {f"sim:v100-sxm2-16gb#{index}" for index in range(MEMBERS)}
    assert {row[0] for row in asked("select distinct device from samples", [fleet])} == named
    assert asked("select distinct simulated, verdict from trials", [fleet]) == [(True, "valid")]


def test_with_boost_dies_draw_the_same_power_and_differ_in_time(by_setting):
    free = by_setting[FREE]
    assert np.median(free["w"]) == pytest.approx(297, abs=2)
    assert 0.010 < cv(free["ms"]) < 0.035
    assert rank_correlation(free["ms"], free["mhz"]) < -0.9


def test_a_locked_clock_turns_variation_of_time_into_variation_of_power(by_setting):
    free, locked = by_setting[FREE], by_setting[LOCKED]
    assert cv(locked["ms"]) < cv(free["ms"]) / 4
    assert cv(locked["w"]) > 2 * cv(free["w"])
    assert set(locked["mhz"]) == {1200.0}


def test_a_power_cap_makes_dies_differ_more_in_time_and_less_in_power(by_setting):
    free, capped = by_setting[FREE], by_setting[CAPPED]
    assert cv(capped["ms"]) > cv(free["ms"])
    assert cv(capped["w"]) < 0.005
    assert np.all(capped["w"] < 181)
    assert np.median(capped["c"]) < np.median(free["c"]) - 10


def test_a_die_repeats_itself_far_better_than_dies_agree(fleet):
    rows = asked(
        "select member, stddev(ms) / avg(ms) from (select trial, member, avg(done_ns - started_ns) / 1e6 as ms from "
        "requests join tenants using (run, trial, tenant) join trials using (run, trial) where in_window and "
        f"settings = '{FREE}' group by all) group by member",
        [fleet],
    )
    within = np.median([row[1] for row in rows])
    assert 0 < within < 0.003


def test_show_has_one_row_for_all_members_labelled_as_simulated(fleet):
    summary = show([fleet])
    assert [(row.tenant, row.cell.settings) for row in summary.tenants] == [
        ("sgemm", LOCKED),
        ("sgemm", CAPPED),
        ("sgemm", FREE),
    ]
    assert all(row.cell.simulated for row in summary.tenants)
    assert {use.device for use in show([fleet]).device_use} == {f"mean of {MEMBERS} members"}


def test_the_manifest_distinguishes_members_without_repeating_the_gpu(fleet):
    manifest = json.loads((fleet / "manifest.json").read_text())
    assert len(manifest["device_description"]["members"]) == MEMBERS
    names = {sensor["name"].rpartition(".")[2] for sensor in manifest["sensors"]}
    assert {"power_w", "sm_clock_mhz", "temperature_c"} <= names


SHARED = """
name: shared
tenants:
  sgemm: {workload: sgemm, params: {size: 4096}}
  bert: {workload: bert-base, batch: 8, seq: 64}
mixes: [solo, {beside: {sgemm: [bert]}}, {copies: {sgemm: [2]}}]
sharing: [processes]
spread: combinations
before: {cool_to: idle+1C}
pause: 10min
window: 400ms
lead: 50ms
blocks: 2
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    return run(study_from_text(SHARED, source="s"), devices="sim:v100-sxm2-16gb*2", out=out).folder


def test_jobs_beside_the_base_are_compared_with_themselves_on_the_same_member(shared):
    summary = show([shared])
    slow = {(row.cell.mix, row.tenant): row.slowdown for row in summary.tenants if not row.cell.solo}
    assert slow["sgemm x2", "sgemm#1"].est == pytest.approx(2.1, abs=0.25)
    assert slow["bert+sgemm", "bert"].est > 1.1
    assert slow["bert+sgemm on 2 of 2", "bert"].est == pytest.approx(slow["bert+sgemm", "bert"].est, rel=0.02)


def test_simulated_members_share_nothing_so_their_number_has_no_cost(shared):
    summary = show([shared])
    apart = {row.cell.mix: row.slowdown.est for row in summary.tenants if row.cell.sharing == "apart"}
    assert set(apart) == {"sgemm on 2 of 2", "bert on 2 of 2"}
    assert all(slowdown == pytest.approx(1, abs=0.01) for slowdown in apart.values())


def test_trials_begin_cool_and_record_how_long_that_took(shared):
    starts = asked(
        "select max(value) filter (sensor = 'start_temperature_c'), max(value) filter (sensor = 'waited_s') "
        "from samples where source = 'precondition'",
        [shared],
    )[0]
    assert starts[0] < 45
    assert starts[1] > 1
    assert asked("select count(*) from trials where 'start_temperature' in failed_checks", [shared]) == [(0,)]


def test_the_same_run_leaves_the_same_records(tmp_path):
    study = study_from_text(SHARED.replace("blocks: 2", "blocks: 1").replace("combinations", "each"), source="s")
    folders = [run(study, devices="sim:v100-sxm2-16gb*2", out=tmp_path).folder for _ in range(2)]
    question = "select trial, tenant, sum(done_ns), max(device_ns) from requests group by all order by all"
    first, second = (asked(question, [folder]) for folder in folders)
    assert first == second
