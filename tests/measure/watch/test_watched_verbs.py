"""`compare`, `explain`, `predict` and `plan` on watched runs: what scripted servers published is their evidence."""

import numpy as np
import pytest
from click.testing import CliRunner

import cotenant
from cotenant.cli.main import cli, main
from cotenant.devices import find_device
from cotenant.errors import CotenantError, RunFolderError
from cotenant.measure.watch.recorder import WatchRecorder, records_of
from cotenant.measure.watch.track import Track
from cotenant.store.folder import RunFolder

MINUTES = 50


def recorded(root, *, factor=1.5, base_ms=20.0, rate=20.0, always=False, device="cpu", seed=1, start_s=1.7e9):
    """Servers `chat` and `train`: the second works every other two minutes and slows the first by a factor."""
    random = np.random.default_rng(seed)
    seconds = np.arange(0, 60 * MINUTES, 2.0)
    busy = np.full(seconds.size, True) if always else (seconds // 120) % 2 == 1
    chat = random.poisson(2 * rate, seconds.size)
    train = np.where(busy, random.poisson(60, seconds.size), 0)
    mean_s = base_ms / 1e3 * np.where(busy, factor, 1.0) * random.lognormal(0, 0.08, seconds.size)
    tracks = [Track("chat", "histogram"), Track("train", "histogram")]
    totals = [
        {"requests": chat, "latency_count": chat, "latency_s": chat * mean_s, "cpu_s": 2 * np.where(busy, 0.5, 0.4)},
        {"requests": train, "latency_count": train, "latency_s": train * 0.01, "cpu_s": 2 * np.where(busy, 1.5, 0.0)},
    ]
    totals = [{role: np.cumsum(values) for role, values in added.items()} for added in totals]
    described = {**find_device("cpu").describe(), "host_cores": 2}
    recorder = WatchRecorder(root, device, ["chat", "train"], described)
    total = np.cumsum(chat)
    tracks[0].add_buckets({"latency": dict.fromkeys((0.01, 0.05, np.inf), 0.0)})
    folder = RunFolder.open(recorder.path)
    for trial, part in enumerate(np.array_split(np.arange(seconds.size), 25)):
        for track, added in zip(tracks, totals, strict=True):
            for role, values in added.items():
                for at in part:
                    track.add(float(start_s + seconds[at]), {role: float(values[at])}, "test")
        count = float(total[part[-1]])
        tracks[0].add_buckets({"latency": {0.01: 0.0, 0.05: 0.995 * count, np.inf: count}})
        folder.commit(records_of([recorder.portion(tracks, "processes")], trial))
    recorder.close()
    recorder.describe(tracks, [], [], last=True)
    return recorder.path


def test_two_watched_runs_are_compared_at_equal_own_load(tmp_path, capsys):
    before, same = recorded(tmp_path / "a"), recorded(tmp_path / "b", seed=2, rate=23.0)
    slower = recorded(tmp_path / "c", base_ms=26.0, seed=3)
    change = cotenant.compare([before, slower])
    assert change.regression
    [chat] = [row for row in change.details.rows if row.row.tenant == "chat"]
    assert chat.outcome.total.lo < 1.3 < chat.outcome.total.hi
    assert chat.outcome.total.hi - chat.outcome.total.lo < 0.2
    alike = cotenant.compare([before, same])
    assert not alike.regression
    assert any("chat served 20" in text and "23" in text for text in alike.sentences())
    assert main(["compare", str(before), str(slower)]) == 3
    assert "Slower: chat" in capsys.readouterr().out


def test_a_history_of_watched_runs_finds_the_step(tmp_path):
    runs = [recorded(tmp_path / str(n), seed=n, base_ms=20.0 if n < 3 else 30.0, start_s=1.7e9 + 1e5 * n)
            for n in range(5)]  # fmt: skip
    found = cotenant.compare(runs)
    assert found.kind == "history"
    assert found.regression


def test_a_watched_run_and_a_measured_run_are_not_compared(tmp_path):
    watched = recorded(tmp_path / "a")
    measured = cotenant.run("quick", device="sim:t4", out=tmp_path, quiet=True, overrides=["blocks=1"]).folder
    with pytest.raises(RunFolderError, match="some were watched, others measured"):
        cotenant.compare([watched, measured])


def test_explain_names_own_load_neighbours_and_what_was_short(tmp_path):
    run = recorded(tmp_path)
    found = cotenant.explain(run)
    [chat, train] = found.tenants
    [(neighbour, factor)] = chat.neighbours
    assert neighbour == "train"
    assert factor == pytest.approx(1.25, abs=0.03)  # half of the time
    text = " ".join(chat.sentences)
    assert "train slows chat 1." in text
    assert "Over the watched time it cost chat 2" in text
    assert "Cores were short: together they used 1.97 of 2 meanwhile." in text
    assert "train hardly slows" not in " ".join(train.sentences)
    for options in ((), ("--markdown",), ("--json",)):
        said = CliRunner().invoke(cli, ["explain", str(run), *options])
        assert said.exit_code == 0
        assert "Cores were short" in said.output


def test_predict_takes_slowdowns_and_times_alone_from_what_was_watched(tmp_path):
    run = recorded(tmp_path)
    found = cotenant.predict(None, device="cpu", runs=[run])
    [chat] = [row for row in found.rows() if row["tenant"] == "chat"]
    assert chat["mix"] == "chat + train"
    assert chat["basis"] == "watched"
    assert chat["slowdown"] == pytest.approx(1.5, rel=0.05)
    assert chat["slowdown_lo"] < 1.45  # other traffic may come
    assert chat["slowdown_hi"] > 1.55
    assert any("at the traffic that came" in note for note in found.notes)
    said = CliRunner().invoke(cli, ["predict", "--from", str(run), "--device", "cpu"])
    assert said.exit_code == 0
    assert "watched" in said.output


def test_predict_says_if_a_tenant_was_never_seen_without_its_neighbour(tmp_path):
    found = cotenant.predict(None, device="cpu", runs=[recorded(tmp_path, always=True)])
    assert any("never seen without neighbours" in note for note in found.notes)
    assert "watched" not in {row["basis"] for row in found.rows()}


def test_predict_refuses_what_was_watched_on_another_device(tmp_path):
    with pytest.raises(CotenantError, match="was measured on"):
        cotenant.predict(None, device="sim:t4", runs=[recorded(tmp_path)])


def test_a_plan_on_this_machine_needs_no_other_run(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text("tenants:\n  chat: {workload: bert-base, rate: 5/s, slo: 300ms}\n")
    told = []
    plan = cotenant.plan(file, "cpu", runs=[recorded(tmp_path)], say=told.append, seconds=2)
    assert plan.keeps_all
    assert any("times of watched servers include waiting" in line for line in told)


@pytest.mark.parametrize(("limit", "verdict"), [("50ms", "kept"), ("10ms", "missed"), ("30ms", "can't tell")])
def test_promises_of_a_plan_are_judged_by_the_buckets_of_watched_servers(tmp_path, limit, verdict):
    file = tmp_path / "tenants.yaml"
    file.write_text("tenants:\n  chat: {workload: bert-base, rate: 5/s, slo: 300ms}\n")
    run = recorded(tmp_path)
    plan = cotenant.plan(file, "cpu", runs=[run], quiet=True, seconds=1).write(tmp_path / "plan.yaml")
    plan.write_text(plan.read_text().replace("300", limit.removesuffix("ms")))
    [row] = cotenant.compare([plan, run]).details.rows
    assert row.verdict == verdict
    assert (row.reason is not None) == (verdict == "can't tell")


def test_plan_takes_rates_and_tails_and_says_to_leave_what_is_kept(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text("tenants:\n  chat: {workload: bert-base, rate: 5/s, slo: 100ms}\n")
    told = []
    plan = cotenant.plan(file, "sim:a100-sxm4-40gb", runs=[recorded(tmp_path)], say=told.append, seconds=2)
    assert plan.keeps_all
    [said] = [line for line in told if line.startswith("rates as served")]
    assert "chat 20" in said
    assert "instead of 5.00/s" in said
    assert "leave it" in said
