"""`cotenant predict` on a simulated GPU with and without runs, and questions it can't answer."""

import json
import re
import shlex
from functools import partial

import pytest
from click.testing import CliRunner

import cotenant
from cotenant.cli.predict import command
from cotenant.cli.run import command as run_verb
from cotenant.errors import CotenantError, SharingUnavailable

STUDY = """
name: trio
device: sim:a100-sxm4-40gb
tenants:
  bert: {workload: bert-base-mini, batch: 4, seq: 64}
  gpt: {workload: gpt2-mini, batch: 1, seq: 64}
  net: {workload: resnet50-mini, batch: 2}
mixes: [solo, pairs, {groups: {all: [bert, gpt, net]}}]
sharing: [processes, mps]
window: 200ms
blocks: 2
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    file = tmp_path_factory.mktemp("predict") / "trio.yaml"
    file.write_text(STUDY, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def some_pairs(study):
    """Solos and one pair."""
    overrides = ['mixes=["solo", {"beside": {"net": ["bert"]}}]']
    return cotenant.run(study, overrides=overrides, out=study.parent / "runs").folder


def test_a_simulated_gpu_needs_no_run(study):
    found = cotenant.predict(study)
    assert len(found.mixes) == 8
    assert {one.basis for mix in found.mixes for one in mix.tenants} == {"closed form, prior only"}
    assert all(one.slowdown.lo <= one.slowdown.est <= one.slowdown.hi for mix in found.mixes for one in mix.tenants)


def test_measurements_of_a_run_are_used(study, some_pairs):
    found = cotenant.predict(study, runs=[some_pairs], next_mixes=2)
    bases = {(mix.mix, mix.sharing): mix.tenants[0].basis for mix in found.mixes}
    assert bases[("bert", "net"), "mps"] == "simulated, 2 blocks"
    assert bases[("bert", "gpt"), "mps"] == "1 mix of this tenant"
    assert len(found.next) == 2
    assert ("bert", "net") not in {one.mix for one in found.next}


def test_what_rests_on_simulated_mixes_is_as_uncertain_as_the_simulation(study, some_pairs):
    (shown,) = (one for one in cotenant.show(some_pairs).tenants if one.cell.sharing == "mps" and one.of == "bert")
    mixes = {(mix.mix, mix.sharing): mix for mix in cotenant.predict(study, runs=[some_pairs]).mixes}
    for mix in (("bert", "net"), ("bert", "gpt")):
        bert = mixes[mix, "mps"].tenants[0]
        low, high = shown.model_error.slowdown
        within = bert.in_simulation.lo
        assert bert.slowdown.lo == pytest.approx(max(within * min(low, 1), min(within, 1)))
        assert bert.slowdown.hi == pytest.approx(bert.in_simulation.hi * max(high, 1))
        assert bert.latency_ms.hi / bert.latency_ms.est >= bert.in_simulation.hi / bert.in_simulation.est
    for mix in cotenant.predict(study).mixes:  # the prior's error is against real GPUs
        assert all(one.in_simulation is None for one in mix.tenants)


def test_pairs_that_a_pairing_would_use_are_suggested(study, some_pairs):
    found = cotenant.predict(study, runs=[some_pairs], next_mixes=3, next_for="pairing")
    assert {one.mix for one in found.next} <= {("bert", "gpt"), ("gpt", "net")}
    assert found.next
    assert all(0 < one.buys <= 1 for one in found.next)


def test_one_mix_is_simulated_event_by_event_too(study):
    (mps, *_) = (one for one in cotenant.predict(study, mix="bert+gpt+net").mixes if one.sharing == "mps")
    assert all(one.basis == "simulated" for one in mps.tenants)


def test_a_gpus_power_is_shared_by_the_requests_of_a_mix(study):
    (mps, *_) = (one for one in cotenant.predict(study, mix="bert+gpt+net").mixes if one.sharing == "mps")
    paid = sum(one.energy_j.est * one.throughput_rps.est for one in mps.tenants)
    assert paid == pytest.approx(mps.power_w.est)
    assert (mps.power_w.lo, mps.power_w.hi) == (None, None)
    shown = CliRunner().invoke(command, [str(study), "--mix", "bert+gpt+net"])
    assert "J/req" in shown.output
    assert "W (simulated)" in shown.output  # once above the tenants, not once per tenant
    assert "Power and energy are simulated" in shown.output


def test_it_prints_json_and_a_table(study, some_pairs):
    printed = CliRunner().invoke(command, [str(study), "--from", str(some_pairs), "--json"])
    assert json.loads(printed.output)["mixes"][0]["tenants"][0]["basis"]
    shown = CliRunner().invoke(command, [str(study), "--from", str(some_pairs), "--next", "1"])
    assert shown.output.startswith("8 mixes on sim:a100-sxm4-40gb, 2 of them simulated")
    assert "Worth measuring next" in shown.output
    assert f"cotenant run {study} --set 'mixes=[solo, {{groups: {{" in shown.output.replace("\n", "")


def test_a_way_to_share_that_ranges_leave_open_has_a_measurement_that_runs(study):
    found = cotenant.predict(study)
    most = found.open[0]
    assert most.ways[0] == min((mix for mix in found.mixes if mix.mix == most.mix), key=lambda mix: mix.worst).sharing
    shown = CliRunner().invoke(command, [str(study)]).output
    assert "leave open which way is gentlest" in shown
    assert f"At most {most.minutes} min of measuring on a real a100-sxm4-40gb would tell" in " ".join(shown.split())
    assert "".join(most.command.split()) in "".join(shown.split())
    words = shlex.split(most.command)
    assert words[:5] == ["cotenant", "run", str(study), "--device", "cuda:0"]
    folder = study.parent / "settled"
    done = CliRunner().invoke(run_verb, [*words[2:4], "sim:a100-sxm4-40gb", *words[5:], "-q", "--out", str(folder)])
    assert done.exit_code in {0, 2}, done.output
    summary = cotenant.show(next(folder.rglob("manifest.json")).parent)
    assert {mix.cell.sharing for mix in summary.mixes if not mix.cell.solo} == set(most.ways)


def test_a_page_shows_measured_mixes_solid_and_predicted_ones_hatched(study, some_pairs, tmp_path):
    page = tmp_path / "page.html"
    done = CliRunner().invoke(command, [str(study), "--from", str(some_pairs), "--page", str(page)])
    assert done.exit_code == 0, done.output
    cells = re.findall(
        r'<span class="cell ([^"]+)".*?title="([^"]+)"><b>[^<]+</b><small>([^<]+)</small>', page.read_text()
    )
    assert len(cells) == 2 * (3 * 2 + 3)  # three pairs and a group, under two ways to share
    assert all(("hatched" in look) == (basis != "simulated, 2 blocks") for look, basis, _ in cells)
    assert sum("hatched" not in look for look, *_ in cells) == 4
    assert all(" to " in interval for *_, interval in cells)
    assert "include the simulation&#39;s error" in page.read_text()


def test_a_page_that_cannot_be_written_is_one_sentence(study, tmp_path):
    with pytest.raises(CotenantError, match="can't be written"):
        cotenant.predict(study).page("/proc/nowhere/page.html")


def test_tenants_to_plan_are_predicted_in_pairs_at_their_rates(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text(
        "sharing: all\ntenants:\n"
        "  embed: {workload: bert-base-mini, rate: 80/s, at_once: 2..16, slo: {p99: 30ms}}\n"
        "  detect: {workload: resnet50-mini, load: 'gamma(30, 1.5)', slo: {p99: 60ms}}\n",
        encoding="utf-8",
    )
    found = cotenant.predict(file, device="sim:a100-sxm4-40gb")
    assert {mix.mix for mix in found.mixes} == {("embed", "detect")}
    assert {"mps", "processes"} <= {mix.sharing for mix in found.mixes}
    together = next(mix for mix in found.mixes if mix.sharing == "mps")
    assert all(tenant.tail.attainment.est > 0.9 for tenant in together.tenants)
    assert {"streams", "green", "mig"} <= {mix.sharing for mix in found.mixes}
    assert all(tenant.tail.p99_ms.hi > 0 for mix in found.mixes for tenant in mix.tenants)
    assert not any(note.startswith("No latency") for note in found.notes)
    assert any(note.startswith("Latencies under open loads") for note in found.notes)
    assert cotenant.predict(file, device="sim:a100-sxm4-40gb", next_mixes=1).next


def test_shares_for_another_number_of_tenants_are_not_predicted_as_none_and_equal_ones_are_caps(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text(
        "sharing: [mps, {mps: equal}, {green: [60, 40]}]\ntenants:\n"
        + "".join(f"  t{number}: {{workload: bert-large, batch: 16}}\n" for number in range(3)),
        encoding="utf-8",
    )
    found = cotenant.predict(file, device="sim:a100-sxm4-40gb", mix="t0+t1+t2", quiet=True)
    plain, capped = found.mixes
    assert (plain.sharing, capped.sharing) == ("mps", "mps[equal]")
    assert capped.tenants[0].slowdown.est != pytest.approx(plain.tenants[0].slowdown.est, rel=0.01)
    assert any("Not predicted: green[60, 40]" in note for note in found.notes)


@pytest.mark.parametrize(
    ("sharing", "share", "why"),
    [("mig", "50%", "has no MIG instance of 50 %"), ("threads", "", "can't be shared by `threads`")],
)
def test_a_way_to_share_that_run_refuses_is_not_predicted_either(tmp_path, sharing, share, why):
    file = tmp_path / "tenants.yaml"
    own = f", share: {share}" if share else ""
    file.write_text(
        f"device: sim:a100-sxm4-40gb\nsharing: [processes, {sharing}]\nmixes: [all]\ntenants:\n"
        f"  bert: {{workload: bert-base{own}}}\n  net: {{workload: resnet50{own}}}\n",
        encoding="utf-8",
    )
    run = partial(cotenant.run, out=tmp_path / "runs")
    for verb in (run, cotenant.predict, partial(cotenant.predict, mix="bert+net")):
        with pytest.raises(SharingUnavailable, match=why):
            verb(file, quiet=True)


@pytest.mark.parametrize("way", ["mps", "green"])
@pytest.mark.parametrize("rate", ["", ", rate: 20/s"])
def test_shares_of_tenants_are_those_of_the_way_to_share(tmp_path, way, rate):
    tenants = "tenants:\n" + "".join(
        f"  {name}: {{workload: {workload}, batch: 8{rate}, share: {share}%}}\n"
        for name, workload, share in (("bert", "bert-base", 70), ("net", "resnet50", 30))
    )
    slowdowns = []
    for sharing in (f"[{way}]", f"[{{{way}: [70, 30]}}]"):
        file = tmp_path / "tenants.yaml"
        file.write_text(f"device: sim:a100-sxm4-40gb\nsharing: {sharing}\n{tenants}", encoding="utf-8")
        for mix in (None, "bert+net"):
            (found,) = cotenant.predict(file, mix=mix, quiet=True).mixes
            slowdowns.append([tenant.slowdown.est for tenant in found.tenants])
    assert slowdowns[:2] == slowdowns[2:]


def test_a_mix_waits_as_it_does_in_a_plan(tmp_path):
    """The same queue: four requests at once, an engine's steps, and the slowdown of both."""
    file = tmp_path / "tenants.yaml"
    file.write_text(
        "device: sim:a100-sxm4-40gb\nsharing: [processes, mps]\ntenants:\n"
        "  embed: {workload: bert-base, rate: 90/s, at_once: 4, slo: {p99: 90ms}, replicas: 1}\n"
        "  chat: {workload: llama-3.2-1b, software: vllm, mode: generate, seq: 64, tokens: 16, rate: 2/s, at_once: 8,"
        " slo: {ttft p95: 200ms, tpot p95: 50ms}, replicas: 1}\n",
        encoding="utf-8",
    )
    mixes = {mix.sharing: mix for mix in cotenant.predict(file, mix="embed+chat", quiet=True).mixes}
    (device,) = cotenant.plan(file, "sim:a100-sxm4-40gb", seconds=5.0, quiet=True).devices
    mix = mixes[device.sharing]
    seats = {seat.name: seat for seat in device.tenants}
    for tenant in mix.tenants:
        seat = seats[tenant.tenant]
        assert tenant.slowdown.est == pytest.approx(seat.slowdown.est, rel=1e-6)
        for kept in seat.kept:
            time = tenant.tail.times_ms[kept.objective]
            assert (time.est, *time.ends) == pytest.approx((kept.time_ms.est, *kept.time_ms.ends), 1e-6)


def test_every_number_of_the_answer_has_an_interval(study):
    of_all, of_one = (
        " ".join(CliRunner().invoke(command, [str(study), *options]).output.split())
        for options in ((), ("--mix", "bert+gpt"))
    )
    best = r"all by the closed form: least slowed is \w+ \+ \w+ under mps \(the slowest tenant takes 1\.00 \["
    assert re.search(best, of_all)
    assert "No mix was measured under processes and mps: intervals are the prior's validated error." in of_all
    assert re.search(r"the slowest takes \d\.\d+ \[[\d., ]+\] times as long as alone under mps", of_one)
    assert re.search(r"bert \d\.\d+ \[[\d., ]+\] \d+ \[[\d., ]+\] \d\.\d+ \[[\d., ]+\]", of_one)


@pytest.mark.parametrize(
    ("options", "says", "hints"),
    [
        ({"mix": "bert+gtp"}, "no tenant 'gtp'", "gpt"),
        ({"mix": "bert"}, "mixes of 2 to 8", "--mix"),
        ({"mix": "bert+"}, "'bert+' has a name missing", "--mix a+b"),
        ({"device": "cpu"}, "not been measured alone", "--device cpu --set 'mixes=[solo]'"),
    ],
)
def test_an_unanswerable_question_gets_one_sentence_and_a_command(study, options, says, hints):
    with pytest.raises(CotenantError) as caught:
        cotenant.predict(study, **options)
    assert says in caught.value.message
    assert hints in caught.value.hint


def test_runs_of_another_device_are_refused(study, some_pairs):
    with pytest.raises(CotenantError, match="was measured on") as caught:
        cotenant.predict(study, runs=[some_pairs], device="sim:h100-sxm5-80gb")
    assert "cotenant run" in caught.value.hint


def test_the_database_serves_as_evidence(study, some_pairs):
    home = study.parent / "runs" / ".database"
    cotenant.db.add([some_pairs], db=home)
    found = cotenant.predict(study, runs=["db"], db=home)
    assert sum(mix.tenants[0].basis == "simulated, 2 blocks" for mix in found.mixes) == 2
    with pytest.raises(CotenantError, match="has no run on"):
        cotenant.predict(study, runs=["db"], db=home, device="sim:h100-sxm5-80gb")
