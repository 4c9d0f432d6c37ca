"""Studies on simulated GPUs, end to end: the same tables, verdicts and reports as on a real device."""

import json
from pathlib import Path

import pytest

from cotenant.api.records import sql
from cotenant.api.run import dry_run, run
from cotenant.api.show import show
from cotenant.errors import CotenantError, DoesNotFit
from cotenant.study.files import study_from_text

STUDY = """
name: small
about: Two small models
tenants:
  bert: {workload: bert-base-mini, batch: 4, seq: 64}
  gpt2: {workload: gpt2-mini, batch: 1, seq: 64}
mixes: [solo, pairs]
sharing: all
shares: given
window: 300ms
lead: 20ms
blocks: 2
"""


def carried_out(tmp_path: Path, text: str = STUDY, device: str = "sim:a100-sxm4-40gb") -> Path:
    return run(study_from_text(text, source="test"), device=device, out=tmp_path).folder


def asked(folder: Path, question: str) -> list[tuple]:
    return [tuple(row) for row in sql(question, [folder]).rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return carried_out(tmp_path_factory.mktemp("runs"))


def test_every_trial_is_valid_and_labelled_as_simulated(folder):
    assert asked(folder, "select distinct verdict, simulated from trials") == [("valid", True)]
    assert {row[0] for row in asked(folder, "select distinct sharing from trials")} == {
        "alone",
        "processes",
        "mps",
        "streams",
        "green",
        "mig",
    }


def test_a_run_ends_where_its_seed_says_and_with_enough_requests_for_its_objectives(tmp_path):
    text = """
tenants:
  bert: {workload: bert-base-mini, load: poisson(50), slo: {p99: 50ms}}
  gpt2: {workload: gpt2-mini, load: poisson(50), slo: {p99: 50ms}}
mixes: [solo, pairs]
window: 1s
"""
    first, second = (carried_out(tmp_path / name, text, "sim:t4") for name in "ab")
    joined = "requests join trials using (trial) where block >= 0"
    counts = f"select mix, tenant, count(*) from {joined} group by all order by all"
    assert asked(first, counts) == asked(second, counts)
    assert min(row[2] for row in asked(first, counts)) >= 800, "a p99 with two late requests needs 838"
    manifest = json.loads((first / "manifest.json").read_text())
    assert manifest["reached"]["seconds"] < 200, "and it doesn't use up its budget of ten minutes"


def test_every_table_is_filled(folder):
    assert asked(folder, "select count(*) from requests where done_ns < started_ns or device_ns <= 0") == [(0,)]
    assert {row[0] for row in asked(folder, "select distinct stage from stages")} == {
        "to_device",
        "compute",
        "to_host",
    }
    assert asked(folder, "select count(*) from stages where duration_ns < 0") == [(0,)]
    sensors = {row[0] for row in asked(folder, "select distinct sensor from samples")}
    assert {"sm_active", "tensor_active", "dram_active", "power_w", "sm_clock_mhz", "temperature_c"} <= sensors
    shares = asked(folder, "select min(value), max(value) from samples where unit = 'share'")
    assert shares[0][0] >= 0
    assert shares[0][1] <= 1
    assert asked(folder, "select count(*) from tenants where params is null or peak_memory_bytes is null") == [(0,)]


def test_stages_add_up_to_the_request(folder):
    gap = asked(
        folder,
        """
        select max(abs(r.done_ns - r.started_ns - s.total)) from requests r
        join (select trial, tenant, seq, sum(duration_ns) total from stages group by all) s using (trial, tenant, seq)
        """,
    )
    assert gap[0][0] <= 3  # nanoseconds are rounded


def test_the_manifest_states_the_validated_error(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["simulated"] is True
    assert manifest["simulation"]["source"] == "docs/validation.md"
    assert manifest["simulation"]["error_by_class"]


def test_slowdowns_come_out_as_on_a_real_device(folder):
    found = {row.tenant: row.slowdown.est for row in show([folder]).tenants if row.cell.sharing == "mps"}
    assert set(found) == {"bert", "gpt2"}
    assert all(value >= 0.99 for value in found.values())


def test_the_same_seed_gives_the_same_records(folder, tmp_path):
    question = "select tenant, seq, intended_ns, started_ns, done_ns, device_ns from requests order by all"
    assert asked(carried_out(tmp_path), question) == asked(folder, question)


def test_open_loads_have_the_same_arrivals_alone_and_shared(tmp_path):
    text = STUDY.replace("sharing: all", "sharing: [mps]") + "loads: [poisson(40%)]\n"
    path = carried_out(tmp_path, text)
    rows = asked(
        path,
        """
        select count(distinct due), count(*) from
        (select trial, string_agg(intended_ns::varchar, ',' order by seq) as due
        from requests join trials t using (trial) where tenant = 'bert' and t.block = 0 and in_window group by trial)
        """,
    )
    assert rows == [(1, 2)]


def test_a_lower_clock_takes_longer(tmp_path):
    text = STUDY.replace("sharing: all", "sharing: [mps]")
    text = text.replace("bert-base-mini, batch: 4", "bert-base, batch: 64")
    path = carried_out(tmp_path, text + "settings: [{}, {clock_mhz: 705}]\n")
    times = dict(
        asked(
            path,
            """select settings, avg(done_ns - started_ns) from requests join trials using (trial)
            where solo and tenant = 'bert' group by 1""",
        )
    )
    slow, fast = times['{"clock_mhz": 705}'], times["{}"]
    assert slow > 1.3 * fast


def test_a_mix_that_does_not_fit_is_recorded_with_the_tenant_and_its_need(tmp_path):
    text = """
name: tight
tenants:
  one: {workload: mistral-7b, batch: 1, seq: 16}
  two: {workload: distilbert, batch: 1, seq: 16}
mixes: [solo, {copies: {one: [2]}}]
sharing: [mps]
window: 200ms
lead: 0ms
blocks: 1
"""
    path = carried_out(tmp_path, text, device="sim:rtx-3090")
    [(verdict, reasons)] = asked(path, "select verdict, reasons from trials where mix = 'one x2'")
    assert verdict == "invalid"
    assert any("one#2 ran out of memory: it needs 1" in reason and "GiB" in reason for reason in reasons)


def test_a_tenant_that_does_not_fit_alone_is_refused_up_front(tmp_path):
    text = STUDY.replace("gpt2-mini, batch: 1, seq: 64", "mistral-7b, batch: 1, seq: 16")
    with pytest.raises(DoesNotFit, match="gpt2"):
        carried_out(tmp_path, text, device="sim:rtx-2080")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "device"),
    [
        (("sharing: all", "sharing: [mig]"), "sim:v100-sxm2-16gb"),
        (("sharing: all", "sharing: [pinned]"), "sim:a100-sxm4-40gb"),
        (("bert-base-mini, batch: 4, seq: 64", "'command:true'"), "sim:a100-sxm4-40gb"),
        (("blocks: 2", "blocks: 2\nsettings: [{clock_mhz: 99999}]"), "sim:a100-sxm4-40gb"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_sentence(tmp_path, change, device):
    with pytest.raises(CotenantError) as error:
        carried_out(tmp_path, STUDY.replace(*change), device=device)
    assert "\n" not in error.value.message


def test_a_dry_run_names_tenants_that_cannot_keep_up(tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text(
        "tenants:\n"
        "  busy: {workload: bert-base, batch: 8, seq: 128, load: poisson(5000), slo: 50ms}\n"
        "  slow: {workload: bert-base, batch: 8, seq: 128, load: poisson(5), slo: 1ms}\n"
        "  fine: {workload: bert-base, batch: 8, seq: 128, load: poisson(5), slo: 50ms}\n"
    )
    problems = dry_run(study, device="sim:a100-sxm4-40gb", out=tmp_path).problems
    assert len(problems) == 2
    assert problems[0].startswith("busy can't keep up with poisson(5000) even alone")
    assert problems[1].startswith("slow can't meet its objective even alone: the limit is 1 ms")


def test_a_dry_run_counts_trials_and_memory_of_the_gpu():
    forecast = dry_run(study_from_text(STUDY, source="test"), device="sim:a100-sxm4-40gb")
    assert forecast.trials_per_block == 2 + 5
    assert forecast.memory_bytes == pytest.approx(39.4 * 2**30, rel=0.01)


def test_with_all_ways_to_share_caps_and_cuts_are_tried_too():
    searched = STUDY.replace("shares: given\n", "")
    forecast = dry_run(study_from_text(searched, source="test"), device="sim:a100-sxm4-40gb")
    assert forecast.trials_per_block == 2 + 5 + 3 + 2, "three caps of mps, and two cuts that no other can better"
