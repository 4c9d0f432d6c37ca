"""Runs, tables and watched servers that a prediction learns from, with figures by hand."""

from contextlib import contextmanager
from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.errors import DataError, PredictionError, RunFolderError
from cotenant.prediction.interference.gathered import Gathered
from cotenant.prediction.interference.setting import LARGEST
from cotenant.store import learnt as module
from cotenant.store.database import index
from cotenant.store.folder import RunFolder
from cotenant.store.learnt import learnt, same_kind, table_at, watched_services, watched_table
from cotenant.tenancy.interval import Estimate
from tests.store.synthetic import trial

TABLE = "tenant,neighbours,sharing,alone_ms,shared_ms,device\na,b,mps,10,12,{}\nb,a,mps,20,30,{}\n"


def place(name="sim:x", kind="X", *, simulated=True):
    return Facts(name=name, kind=kind, simulated=simulated)


def a_run(path, model="X", *, simulated=True, **manifest):
    facts = {"run": path.name, "device_description": {"model": model}, "simulated": simulated}
    folder = RunFolder.create(path, facts | manifest)
    folder.commit(trial(0))
    return folder


def a_table(path, device="sim:x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TABLE.format(device, device))
    return path


# --- what is read


@pytest.mark.parametrize(
    ("model", "simulated", "same"), [("X", True, True), ("Y", True, False), ("X", False, False), ("Y", False, False)]
)
def test_a_run_is_of_this_kind_if_device_and_simulation_are(tmp_path, model, simulated, same):
    folder = a_run(tmp_path / "r", model, simulated=simulated)
    assert same_kind(folder, place()) is same
    if same:
        assert learnt([folder.path], place()).tables == ()
        return
    with pytest.raises(PredictionError) as refused:
        learnt([folder.path], place())
    assert f"measured on {model}" in refused.value.message
    assert ("(simulated)" in refused.value.message) is simulated
    assert "--device sim:x" in refused.value.hint


def test_a_table_is_read_from_a_csv_and_nothing_else(tmp_path):
    (table,) = learnt([a_table(tmp_path / "t.CSV")], place()).tables
    assert (table.device, len(table.found.solos), len(table.found.mixes)) == ("sim:x", 2, 1)
    (tmp_path / "t.txt").write_text("tenant,neighbours\n")
    with pytest.raises(RunFolderError):
        learnt([tmp_path / "t.txt"], place())


@pytest.mark.parametrize(
    ("content", "words"), [(b"\xff\xfe", "not UTF-8"), (None, "can't be read"), (b"tenant\na\n", "no column")]
)
def test_a_table_that_can_not_be_read_is_refused(tmp_path, content, words):
    if content is not None:
        (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=words):
        table_at(tmp_path / "t.csv")


def test_the_database_gives_its_runs_and_tables_of_this_device(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "runs" / "db"
    home.mkdir(parents=True)
    a_run(tmp_path / "runs" / "here")
    a_run(tmp_path / "runs" / "other", "Y")
    a_run(tmp_path / "runs" / "not added")
    for name, device in (("by name", "sim:x"), ("by kind", "X"), ("another", "sim:y")):
        a_table(home / module.TABLES / f"{name}.csv", device)

    def source(name, kind="run"):
        return index.Source(name, "1", name, kind, "2026-01-01", measurements=1, readings=0, gpus=1)

    index.write(home, {name: source(name) for name in ("here", "gone", "other")} | {"f": source("f", "nvidia-smi")})
    found = learnt(["db"], place(), db=home)
    assert sorted(table.device for table in found.tables) == ["X", "sim:x"]
    assert found.notes == ("1 of the database's 3 runs were ignored: their folders are gone.",)
    folders, _ = module._of_database(place(), home, needed=True)
    assert [folder.run for folder in folders] == ["here"]


def test_a_database_needs_a_run_or_a_table_of_this_device(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "runs" / "db"
    home.mkdir(parents=True)
    a_run(tmp_path / "runs" / "other", "Y")
    source = index.Source("k", "1", "other", "run", "2026-01-01", measurements=1, readings=0, gpus=1)
    index.write(home, {"k": source})
    with pytest.raises(PredictionError, match="has no run on X"):
        learnt(["db"], place(), db=home)
    a_table(home / module.TABLES / "t.csv")
    found = learnt(["db"], place(), db=home)
    assert (len(found.tables), found.notes, found.bytes_per_s) == (1, (), None)


def test_a_folder_called_db_is_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a_run(tmp_path / "db")
    assert learnt(["db"], place()).tables == ()


def test_the_highest_peak_counts_and_open_loads_are_told(tmp_path):
    for name, peak in (("a", 5e9), ("b", 9e9), ("c", None)):
        roofline = (
            {"flops_per_s": {"float32": 1e12}, "bytes_per_s": peak, "cores": 1, "measured_utc": ""} if peak else None
        )
        folder = RunFolder.create(
            tmp_path / name,
            {"run": name, "device_description": {"model": "X"}, "simulated": True, "roofline": roofline},
        )
        folder.commit(trial(0, tenants=("m",), load="poisson(5)"))
    found = learnt([tmp_path / name for name in "abc"], place())
    assert found.bytes_per_s == 9e9
    assert [note for note in found.notes if note.startswith("3 observations under open loads were ignored")]


def test_mixes_of_more_tenants_than_are_predicted_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "cotenant.prediction.interference.gathered.gather_evidence", lambda _: Gathered((), (), 0, {}, too_large=2)
    )
    assert learnt([a_run(tmp_path / "r").path], place()).notes == (
        f"2 measured mixes were ignored: predictions are of up to {LARGEST} tenants.",
    )


# --- watched servers


def tenant(name="chat", **more):
    facts = {
        "tenant": name, "mean_ms": 20.0, "requests": 40, "first_ms": None, "token_ms": None, "tokens_out": None,
        "gpu_share": 0.5, "cores": 3.0, "rate_rps": 10.0,
    }  # fmt: skip
    return Facts(**facts | more)


@pytest.fixture
def watched(monkeypatch):
    """Stands in for a watched run: its tenants take 1.25 times as long as alone."""

    def set_up(tenants, means=(), buckets=None, influences=(), device="A100"):
        series = [Facts(mean_s=np.array(means, float)) for _ in tenants]
        run = Facts(sharing="mps", watched=Facts(tenants=tenants, series=series, influences=influences, device=device))

        @contextmanager
        def open_runs(paths):
            yield paths

        totals = [Facts(tenant=each.tenant, buckets={"latency": buckets or {}}) for each in tenants]
        monkeypatch.setattr("cotenant.store.reading.open_runs", open_runs)
        monkeypatch.setattr("cotenant.store.watched.watched_runs", lambda _: [run])
        monkeypatch.setattr("cotenant.store.watched.watched_totals", lambda _: totals)
        monkeypatch.setattr("cotenant.store.baselines.resolve", lambda named: named)
        monkeypatch.setattr("cotenant.analyse.neighbours.watched_evidence.alone_factor", lambda _, __: 1.25)
        monkeypatch.setattr(
            "cotenant.analyse.neighbours.watched_evidence.mean_factor", lambda _, influence: influence.factor
        )

    return set_up


def test_times_of_a_watched_tenant_are_those_without_neighbours(watched):
    means = [0.01, np.nan, *[0.01] * 5, *[0.03] * 6]
    watched([tenant(first_ms=5.0, token_ms=2.0, tokens_out=7.6), tenant("idle", requests=0)], means)
    found = watched_services(["r"])
    assert list(found) == ["chat"], "without requests there are no times"
    times = found["chat"]
    assert times.means_s == pytest.approx((0.008, 0.024)), "16 ms in all; the first half took a third of the second"
    assert times.drawn_s.mean() == pytest.approx(0.016)
    assert times.requests == (20, 20)
    assert (times.first_s, times.step_s, times.outputs) == (0.005, 0.002, 8)


def test_what_a_server_does_not_publish_is_unknown(watched):
    watched([tenant("untimed", mean_ms=None), tenant(requests=1)], [0.01] * 12)
    found = watched_services(["r"])
    assert list(found) == ["chat"]
    assert (found["chat"].first_s, found["chat"].step_s, found["chat"].outputs) == (None, None, 1)
    assert found["chat"].requests == (1, 1), "at least a request each"


def test_times_spread_as_the_buckets_do(watched):
    watched([tenant()], [0.01] * 6, {0.01: 50.0, 0.03: 100.0})
    (times,) = watched_services(["r"]).values()
    (block,) = times.drawn_s
    assert block.mean() == pytest.approx(0.016)
    half = block.size // 2
    assert block[:half].max() <= block[half:].min()
    assert block[:half].mean() / block[half:].mean() == pytest.approx(5 / 20), "0 to 10 ms, and 10 to 30 ms"


def test_many_readings_make_at_most_eight_blocks_of_six_or_more(watched):
    watched([tenant(requests=800)], [0.01] * 100)
    assert watched_services(["r"])["chat"].requests == (100,) * 8
    watched([tenant(requests=800)], [0.01] * 47)
    assert len(watched_services(["r"])["chat"].requests) == 7
    watched([tenant(requests=800)], [0.01] * 5)
    assert watched_services(["r"])["chat"].requests == (800,)


def influence(neighbour, name, busy, factor=1.0):
    return Facts(neighbour=neighbour, tenant=name, busy=busy, factor=factor)


def test_watched_servers_become_a_table(watched):
    slower = Estimate(1.5, 1.2, 1.8, 4, "watched")
    watched(
        [tenant("c", mean_ms=None), tenant("a"), tenant("b", rate_rps=None)],
        influences=[influence("b", "a", slower), influence("a", "b", "too few"), influence("c", "b", slower, None)],
    )
    table, notes = watched_table(Facts(path="runs/r"))
    solos = {solo.name: solo for solo in table.found.solos}
    assert sorted(solos) == ["a", "b"], "without times there is no tenant"
    assert solos["a"].service_ns == pytest.approx(16e6), "20 ms over 1.25"
    assert solos["a"].device_ns == pytest.approx(0.05e9), "half of the GPU at 10/s"
    assert solos["b"].device_ns is None
    assert (solos["a"].unstable, solos["b"].unstable) == (False, True)
    assert len(notes) == 2
    assert "b was never seen without neighbours" in notes[1]
    (mix,) = table.found.mixes
    assert (mix.sharing, [estimate.est for _, estimate in mix.slowdowns]) == ("mps", [1.5])


def test_on_a_cpu_the_cores_are_what_a_tenant_keeps_busy(watched):
    watched([tenant("a"), tenant("b", cores=None)], device="cpu")
    table, notes = watched_table(Facts(path="r"))
    assert [solo.device_ns for solo in table.found.solos] == [pytest.approx(0.3e9), None]
    assert len(notes) == 1, "both were seen alone"


def test_a_watched_run_is_learnt_as_a_table(tmp_path, monkeypatch):
    folder = a_run(tmp_path / "w", study_name="watched")
    monkeypatch.setattr(module, "watched_table", lambda given: (given.run, ["as watched"]))
    found = learnt([folder.path], place())
    assert (found.tables, found.notes) == (("w",), ("as watched",))
