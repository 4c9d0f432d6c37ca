"""The result on a page: complete, literal, and within 80 columns."""

import io

import numpy as np
import pytest
from rich.console import Console

from cotenant.analyse.sharing.summarise import summarise
from cotenant.analyse.sharing.summary import Summary
from cotenant.devices.protocol import Finding
from cotenant.reporting.elements.terminal import sentence_list, to_terminal
from cotenant.reporting.results.measured import failed_checks, run_facts, summary_elements
from cotenant.reporting.terminal.checkup import checkup_lines
from cotenant.reporting.terminal.grouped import listing
from cotenant.reporting.terminal.lists import QueryAnswer
from cotenant.tenancy.records import TenantObservation

HOSTILE = "[red]<b>\x1b[31m'; drop--"
SHOWN = "[red]<b>\\x1b[31m'; drop--"


def observed(block: int, tenant: str, *, others: tuple[str, ...] = (), n: int = 400, **changes) -> TenantObservation:
    mix = "+".join([tenant, *others]) if others else tenant
    time_ms = (2.0 if others else 1.0) * (1 + 0.001 * block)
    facts = {
        "run": "r1", "trial": hash((block, mix)) % 10**6, "block": block, "mix": mix, "settings": "{}",
        "sharing": "processes" if others else "alone", "load": "closed(1)", "device": "cpu", "simulated": False,
        "solo": not others, "tenant": tenant, "of": tenant, "verdict": "valid", "failed_checks": (), "n": n,
        "unfinished": 0, "throughput_rps": 1000 / time_ms, "mean_latency_ns": time_ms * 1e6, "window_s": 1.0,
        "latency_ns": np.random.default_rng(block).normal(time_ms * 1e6, 1e4, n).astype(np.int64),
    }  # fmt: skip
    return TenantObservation(**{**facts, **changes})


def study(*names: str, blocks: int = 4, **changes) -> Summary:
    """Each tenant alone, and all of them together."""
    solo = [observed(block, name, **changes) for name in names for block in range(blocks)]
    mix = "+".join(names)
    shared = [
        observed(block, name, others=("x",), **{"mix": mix, "trial": 10_000 + block, **changes})
        for name in names
        for block in range(blocks)
    ]
    return summarise([*solo, *shared])


def page(*parts, width: int = 80) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None, markup=False, highlight=False)
    for part in parts:
        console.print(part)
    return file.getvalue()


def summary_tables(summary, reasons=None):
    checks = failed_checks(summary.mixes, reasons or {})
    return to_terminal([*summary_elements(summary), *([checks] if checks else [])])


def heading(manifests, summary):
    (part,) = to_terminal([run_facts(manifest, summary) for manifest in manifests])
    return part


def test_a_slowdown_is_listed_with_its_interval_under_mix_and_sharing():
    lines = page(*summary_tables(study("bert", "gpt"))).splitlines()
    at = lines.index(next(line for line in lines if line.strip() == "bert+gpt, processes"))
    assert lines[at + 1].split()[0] == "bert"
    assert lines[at + 1].rstrip().endswith("2.00 [2.00, 2.00]")


def test_mixes_have_their_metrics_and_verdict():
    row = next(line for line in page(*summary_tables(study("bert", "gpt"))).splitlines() if line.endswith("valid"))
    assert row.split()[:2] == ["processes", "1.00"]


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_page(width):
    names = ("bert-base-mini", "gpt2-medium-mini", "resnet50-mini")
    shown = page(*summary_tables(study(*names)), width=width)
    assert max(len(line) for line in shown.splitlines()) <= width
    for name in names:
        assert f"  {name} " in shown, "a name of usual length is not folded"


def test_a_wide_page_has_all_intervals():
    wide, narrow = (page(*summary_tables(study("bert", "gpt")), width=width) for width in (120, 80))
    assert wide.count("[") > narrow.count("[")


def test_a_page_of_80_columns_has_the_intervals_of_median_and_slowdown():
    names = ("bert-base-mini", "gpt2-medium-mini", "resnet50-mini")
    lines = page(*summary_tables(study(*names))).splitlines()
    [alone, shared] = [line for line in lines if line.split()[:1] == ["bert-base-mini"]]
    assert (alone.count("["), shared.count("[")) == (1, 2)


def test_a_study_without_mixes_has_no_column_of_slowdowns():
    lines = page(*summary_tables(summarise([observed(block, "bert") for block in range(4)]))).splitlines()
    assert "slowdown" not in lines[1]


def test_names_longer_than_the_page_are_folded_and_not_cut():
    name = "a" * 100
    shown = page(*summary_tables(study(name, "b")))
    assert shown.count("a") >= 200
    assert "…" not in shown


def test_a_refused_quantile_states_the_missing_requests():
    shown = page(*summary_tables(study("bert", "gpt", n=30)))
    assert "– (needs 179 more)" in shown  # noqa: RUF001 - the dash that the table shows


def test_hostile_names_come_out_literally():
    parts = summary_tables(study(HOSTILE, "b", device=HOSTILE, load=HOSTILE, settings=HOSTILE))
    shown = page(*parts, width=200)
    assert "\x1b" not in shown
    assert shown.count(SHOWN) >= 4
    manifest = {"run": "r1", "study_name": HOSTILE, "device": HOSTILE, "why": HOSTILE, "seed": 1}
    assert page(heading([manifest], study("a", "b")), width=200).count(SHOWN) == 3
    assert SHOWN in page(sentence_list([HOSTILE]))
    assert SHOWN in page(listing([HOSTILE], [[1]]))
    assert page(*checkup_lines([Finding(HOSTILE, "ok", HOSTILE, fix=HOSTILE)]), width=200).count(SHOWN) == 3


def test_an_answer_with_too_many_columns_is_printed_row_by_row():
    names = [f"column_{number}" for number in range(9)]
    rows = [list(range(9)), [HOSTILE, *range(10, 18)]]
    assert page(QueryAnswer(names, rows), width=200).splitlines()[0].split() == names
    lines = [line.strip().split(maxsplit=1) for line in page(QueryAnswer(names, rows), width=60).splitlines()]
    assert lines[:3] == [["row", "1"], ["column_0", "0"], ["column_1", "1"]]
    assert lines[10:13] == [["row", "2"], ["column_0", SHOWN], ["column_1", "10"]]


def test_failed_checks_are_named_with_a_hint():
    shown = page(*summary_tables(study("a", "b", verdict="unstable", failed_checks=("quiet_machine",))))
    assert "quiet_machine failed in 12 trials of a (alone), b (alone), a+b (processes)" in shown.replace("\n", " ")
    assert "hint: stop other work on this machine" in shown
    assert "the latest" not in shown


def test_a_failed_check_quotes_the_reason_of_the_latest_trial():
    failed = study("a", "b", verdict="unstable", failed_checks=("quiet_machine",))
    shown = page(*summary_tables(failed, {"quiet_machine": f"{HOSTILE} took 40% of the device", "steady": "no"}))
    assert f"the latest: {SHOWN} took 40% of the device" in shown
    assert "no\n" not in shown


def test_an_unknown_check_of_another_version_is_shown_too():
    assert "moon_phase failed" in page(
        *summary_tables(study("a", "b", verdict="invalid", failed_checks=("moon_phase",)))
    )


def test_every_load_has_its_tables():
    loads = [seen for load in ("closed(1)", "poisson(70%)") for seen in (study("a", "b", load=load),)]
    both = Summary(
        tuple(t for s in loads for t in s.tenants), tuple(m for s in loads for m in s.mixes), loads[0].block_seconds
    )
    shown = page(*summary_tables(both))
    assert shown.index("load closed(1) on cpu") < shown.index("load poisson(70%) on cpu")


def test_the_settings_come_first_and_simulation_is_loud():
    manifest = {"run": "r1", "study_name": "quick", "seed": 1, "device": "sim:a100", "simulated": True, "why": "done"}
    shown = page(heading([manifest], study("a", "b")))
    assert shown.splitlines()[0].startswith("SIMULATED")
    assert "12: 12 valid" in shown


def test_a_run_without_measurements_is_shown():
    assert page(*summary_tables(summarise([]))) == ""
    assert "none" in page(heading([{"run": "r1", "state": "interrupted"}], summarise([])))
