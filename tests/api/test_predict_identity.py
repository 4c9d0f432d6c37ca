"""Measured tenants are evidence only for tenants that are the same in everything that changes their time."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import cotenant
from cotenant.errors import CotenantError
from cotenant.prediction.interference.gathered import SoloTenant
from cotenant.store.identities import Identities
from cotenant.study.prediction_inputs import solo_of
from cotenant.tenancy.identity import TenantIdentity, not_used
from cotenant.tenancy.tenant_entry import TenantEntry

TWO_MODES = """
device: sim:a100-sxm4-40gb
blocks: 2
window: 1s
sharing: [processes]
tenants:
  prompts: {workload: gpt2, mode: prefill, seq: 512}
  chat: {workload: gpt2, mode: generate, seq: 32, tokens: 16}
  embed: {workload: bert-base, batch: 4}
mixes: [solo, {groups: {a: [prompts, embed], b: [chat, embed]}}]
"""


def identity(**changes: object) -> TenantIdentity:
    return TenantIdentity.of(TenantEntry.model_validate({"workload": "gpt2", **changes}))


@pytest.fixture(scope="module")
def two_modes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("identity")
    file = folder / "two.yaml"
    file.write_text(TWO_MODES)
    return file, cotenant.run(file, out=folder / "runs").folder


def test_a_prefill_and_a_chat_tenant_of_one_model_are_not_averaged(two_modes: tuple[Path, Path]) -> None:
    file, run = two_modes
    measured = {(row.cell.mix, row.of): row.slowdown.est for row in cotenant.show(run).tenants if not row.cell.solo}
    for mix in ("prompts+embed", "chat+embed"):
        found = cotenant.predict(file, runs=[run], mix=mix).mixes[0]
        group = next(key[0] for key in measured if key[1] == mix.partition("+")[0])
        for tenant in found.tenants:
            shown = tenant.in_simulation or tenant.slowdown
            assert shown.est == pytest.approx(measured[group, tenant.tenant], rel=0.01)


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 8},
        {"seq": 64},
        {"mode": "prefill"},
        {"mode": "generate", "tokens": 32},
        {"software": "compile"},
        {"dtype": "float16"},
        {"quantised": "int4"},
        {"layers": "last 50%"},
        {"params": {"size": 3}},
        {"weights": "/models/other"},
        {"parallel": 2},
        {"prefix_hits": 0.5},
        {"threads": 3},
        {"train": True},
    ],
)
def test_whatever_changes_the_time_makes_another_tenant(change: dict[str, object]) -> None:
    usual = {"seq": 128, "dtype": "float32"}
    assert identity(**{**usual, **change}).differences(identity(**usual))


def test_names_priorities_and_objectives_do_not() -> None:
    assert not identity(priority=2, slo={"p99": "50ms"}).differences(identity())


def test_the_usual_mode_may_be_spelt_out() -> None:
    assert not identity(mode="forward").differences(identity())


def test_unknown_figures_of_an_imported_run_are_not_held_against_it() -> None:
    assert not identity(batch=4).differences(TenantIdentity("gpt2", 4))


def test_a_near_match_is_named() -> None:
    said = not_used("chat", identity(batch=8), [identity(batch=4), identity(batch=2, mode="prefill")])
    assert said == "chat: measured at batch 4; you asked for batch 8: not used"


def test_another_workload_is_not_near() -> None:
    assert not not_used("chat", identity(), [TenantIdentity("bert-base")])


def test_a_prediction_says_which_measurement_it_left_aside(two_modes: tuple[Path, Path], tmp_path: Path) -> None:
    _, run = two_modes
    other = tmp_path / "other.yaml"
    other.write_text(TWO_MODES.replace("batch: 4", "batch: 8"))
    notes = cotenant.predict(other, runs=[run]).notes
    assert any("embed: measured at batch 4; you asked for batch 8: not used" in note for note in notes)


def test_a_function_without_a_number_format_is_evidence_for_itself() -> None:
    study = "tenants: {a: {workload: 'mine:small'}}\nmixes: [solo]\n"
    runs = SimpleNamespace(folders={"r": SimpleNamespace(manifest={"study": study})})
    columns = {"workload": "mine:small", "batch": 1, "seq": None, "dtype": "unknown", "threads": 1}
    measured = Identities(runs).of("r", "a", load="closed(1)", settings=None, **columns)
    assert not identity(workload="mine:small", dtype="bfloat16").differences(measured)


def test_one_function_with_two_options_has_two_times() -> None:
    short, long = (identity(workload="my.module:work", params={"n": n}) for n in (1, 1000))
    solos = [SoloTenant(key, "work", ns, None, None, None, None) for key, ns in ((short, 77e3), (long, 29.5e6))]
    assert [solo.service_ns for key in (short, long) if (solo := solo_of("work", key, solos))] == [77e3, 29.5e6]
    assert solo_of("work", identity(workload="my.module:work", params={"n": 5}), solos) is None


def test_a_plan_says_why_a_run_under_arrivals_is_no_evidence(tmp_path: Path) -> None:
    file = tmp_path / "rates.yaml"
    file.write_text(
        "device: sim:t4\nblocks: 1\nwindow: 1s\nsharing: [mps]\nmixes: [solo]\n"
        "tenants: {a: {workload: bert-base, rate: 20/s, slo: {p99: 200ms}}}\n"
    )
    run = cotenant.run(file, out=tmp_path / "runs").folder
    with pytest.raises(CotenantError, match="a had arrivals there; a plan takes times from tenants that are always"):
        cotenant.plan(file, "sim:t4", runs=[run], seconds=2.0)
