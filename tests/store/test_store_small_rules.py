"""Small rules of the store: what is synced and when, whose file may be read, what a manifest promises."""

import os
from pathlib import Path
from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.errors import IntegrityWarning, RunFolderError
from cotenant.store import counting, damage, evidence, integrity, parquet, seals
from cotenant.store.database import additions, index
from cotenant.store.folder import RunFolder
from cotenant.store.imports import dcgmi, nvidia_smi
from cotenant.store.watched import all_watched
from cotenant.tenancy.records import TrialRecords
from tests.store.synthetic import trial


@pytest.fixture
def steps(monkeypatch):
    """What is synced, renamed or replaced, in that order."""
    done = []
    rename, replace = Path.rename, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(("sync", Path(f"/proc/self/fd/{handle}").readlink())))
    monkeypatch.setattr(Path, "rename", lambda path, to: (done.append(("move", Path(to))), rename(path, to))[1])
    monkeypatch.setattr(Path, "replace", lambda path, to: (done.append(("move", Path(to))), replace(path, to))[1])
    return done


def test_a_trial_is_on_disk_before_its_name_is_and_its_name_before_the_commit_returns(tmp_path, steps):
    run = RunFolder.create(tmp_path / "r", {"study_name": "s"})
    steps.clear()
    run.commit(trial(0))
    target = run.path / "trials" / "000000"
    moved = steps.index(("move", target))
    before = {path.name for kind, path in steps[:moved] if kind == "sync"}
    assert before == {"000000", *(file.name for file in target.iterdir())}
    assert steps[moved + 1 :] == [("sync", target.parent), ("sync", run.path)], "the folder of trials is new as well"
    steps.clear()
    run.commit(trial(1))
    assert steps[-1] == ("sync", target.parent), "it is known by now"


def test_an_index_is_on_disk_before_it_replaces_the_old_one(tmp_path, steps):
    index.write(tmp_path, {})
    assert steps == [
        ("sync", tmp_path / ".index.json.new"), ("move", tmp_path / "index.json"), ("sync", tmp_path),
    ]  # fmt: skip


def test_a_link_is_no_part_of_a_run(tmp_path):
    whole, link = tmp_path / "a", tmp_path / "b"
    whole.write_bytes(b"content")
    link.symlink_to(whole)
    digest = seals.digest_of(whole)
    assert seals.matches(whole, digest)
    assert not seals.matches(whole, digest[::-1])
    for refused in (lambda: seals.matches(link, digest), lambda: seals.digest_of(link), lambda: damage.check_end(link)):
        with pytest.raises(Exception, match=r"link|symbolic"):
            refused()


@pytest.mark.parametrize("size", [0, 1, seals._BLOCK - 1, seals._BLOCK, seals._BLOCK + 1, 3 * seals._BLOCK])
def test_a_file_of_any_size_is_hashed_whole(tmp_path, size):
    import hashlib

    content = os.urandom(size)
    (tmp_path / "a").write_bytes(content)
    assert seals.digest_of(tmp_path / "a") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"PAR1....PAR1", None), (b"PAR1...PAR1", "truncated"), (b"PAR1....PAR2", "truncated"), (b"", "truncated")],
)
def test_a_table_ends_as_it_begins(tmp_path, content, why):
    file = tmp_path / "runs" / "r" / "trials" / "000000" / "requests.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    if why is None:
        damage.check_end(file)
    else:
        with pytest.raises(Exception, match=why) as refused:
            damage.check_end(file)
        assert "--resume" in refused.value.hint
        assert str(tmp_path / "runs" / "r") in refused.value.hint


def test_the_first_unreadable_table_is_named_by_the_first_line_of_the_reason(tmp_path):
    run = RunFolder.create(tmp_path / "r", {"study_name": "s"})
    run.commit(trial(0))
    tables = sorted((run.path / "trials" / "000000").glob("*.parquet"))
    assert damage.find(tables) is None
    broken = tmp_path / "samples.parquet"
    broken.write_bytes(tables[0].read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1")
    found = damage.find([*tables, broken])
    assert str(found).startswith(f"{broken} is damaged: ")
    assert len(str(found).splitlines()[0]) > len(f"{broken} is damaged: .") + 10, "a reason follows"
    foreign = tmp_path / "requests.parquet"
    parquet.memory().execute(f"COPY (SELECT 1 AS other) TO '{foreign}' (FORMAT parquet)")
    assert "its columns are not those of requests" in str(damage.find([foreign]))


def test_a_database_in_memory_has_two_threads_and_knows_nothing_of_python():
    con = parquet.memory()
    secret = [1]
    assert con.execute("SELECT current_setting('threads')").fetchone() == (2,)
    assert parquet.memory(threads=1).execute("SELECT current_setting('threads')").fetchone() == (1,)
    with pytest.raises(Exception, match="secret"):
        con.execute("SELECT * FROM secret")
    assert secret


@pytest.mark.parametrize(("name", "sql"), [("a", '"a"'), ('a"b', '"a""b"')])
def test_names_and_texts_in_sql(name, sql):
    assert parquet.quoted(name) == sql
    assert parquet.text(name.replace('"', "'")) == sql.replace('"', "'")


# --- what a manifest promises


@pytest.mark.parametrize(
    ("manifest", "there", "missing"),
    [
        ({"state": "complete", "trials": 5}, 3, 2),
        ({"state": "complete", "trials": 5}, 5, 0),
        ({"state": "complete", "trials": 5}, 6, 0),
        ({"state": "stopped", "trials": 5}, 3, 0),
        ({"state": "complete", "trials": "5"}, 3, 0),
        ({"state": "complete"}, 3, 0),
        ({"trials": 5}, 3, 0),
    ],
)
def test_only_a_complete_run_can_miss_trials(tmp_path, manifest, there, missing):
    assert integrity._missing(RunFolder(tmp_path, manifest), there) == missing


def test_gaps_join_only_if_nothing_lies_between_them():
    first = integrity.Gap(2, "10:00", "10:05", "disk full")
    assert first.joined(integrity.Gap(3, "10:05", "10:07", "disk full")) == integrity.Gap(
        5, "10:00", "10:07", "disk full"
    )
    assert first.joined(integrity.Gap(3, "10:06", "10:07", "disk full")) is None
    assert first.joined(integrity.Gap(3, "10:05", "10:07", "quota")) is None
    assert integrity.with_gap((), first) == (first,)
    assert integrity.with_gap((first,), integrity.Gap(3, "11:00", "11:07", "quota"))[0] is first
    assert [gap.requests for gap in integrity.with_gap((first,), integrity.Gap(1, "10:05", "10:06", "disk full"))] == [
        3
    ]


def test_gaps_are_read_as_they_were_written_and_nothing_else_is():
    gaps = (integrity.Gap(2, "a", "b", "c"), integrity.Gap(1, "d", "e", "f"))
    assert integrity.gaps_of({"gaps": integrity.as_entry(gaps)}) == gaps
    assert integrity.gaps_of({"gaps": [{"requests": 0}, {"requests": True}, {"requests": "2"}, 7, "x"]}) == ()
    assert integrity.gaps_of({"gaps": None}) == integrity.gaps_of({}) == ()
    assert integrity.gap_sentence(gaps, 7) == "3 of 10 requests are missing: c from a to b; f from d to e"


def test_damaged_trials_are_named_up_to_three(tmp_path):
    run = RunFolder.create(tmp_path / "r", {"study_name": "s"})
    for number in range(5):
        run.commit(trial(number))
    for number in range(4):
        (run.trial_path(number) / "requests.parquet").unlink()
    found = integrity.standing(run)
    [sentence] = integrity.sentences(run, found)
    assert sentence.startswith(f"4 of 5 trials of {run.path} are damaged and left out: 000000 (")
    assert "000002" in sentence
    assert "000003" not in sentence
    assert sentence.endswith(" and 1 more.")
    (run.trial_path(3) / "requests.parquet").write_bytes(b"")
    run.set_aside(run.trial_path(3))
    assert not integrity.sentences(run, integrity.standing(run))[0].endswith("more.")
    assert [path.name for path in integrity.set_damaged_aside(run)] == ["000000", "000001", "000002"]
    assert run.committed() == {4}


def test_trials_without_seals_are_counted_and_warned_of(tmp_path):
    run = RunFolder.create(tmp_path / "r", {"study_name": "s"})
    run.commit(trial(0, requests=4))
    run.commit(trial(1, requests=3))
    assert integrity.standing(run).requests == 14
    run.update_manifest(sealed=False)
    (run.trial_path(0) / seals.NAME).unlink()
    found = integrity.standing(run)
    assert (found.unsealed, found.requests) == (1, 6)
    assert "1 trials can be read" in integrity.unsealed_sentence(run, found)
    with pytest.warns(IntegrityWarning, match="1 trials can be read"):
        integrity.usable(run)
    (run.trial_path(1) / seals.NAME).unlink()
    assert "It can be read" in integrity.unsealed_sentence(run, integrity.standing(run))


# --- readings around a window


@pytest.mark.parametrize(
    ("around", "at", "value"),
    [
        ((0, 10.0, 100, 20.0), 25, 12.5),
        ((0, 10.0, 100, 20.0), 0, 10.0),
        ((0, 10.0, 100, 20.0), 100, 20.0),
        ((40, 10.0, 140, 30.0), 90, 20.0),
        ((None, None, 100, 20.0), 7, 20.0),
        ((0, None, 100, 20.0), 7, 20.0),
        ((0, 10.0, None, None), 7, 10.0),
        ((0, 10.0, 100, None), 7, 10.0),
        ((50, 10.0, 50, 20.0), 50, 10.0),
    ],
)
def test_a_reading_between_two_is_interpolated_and_beyond_them_constant(around, at, value):
    assert evidence._Around(*around).value_at(at) == pytest.approx(value)


# --- counts


def test_the_canary_of_a_tenant_is_the_mean_of_its_own_readings():
    samples = {
        "sensor": np.array([counting.CANARY, counting.CANARY, counting.CANARY, "power_w"]),
        "source": np.array(["a", "a", "b", "a"]),
        "value": np.array([1.0, 2.0, 9.0, 300.0]),
    }
    records = TrialRecords(trial={"trial": 0}, tenants=(), requests={}, samples=samples)
    assert [counting._canary(records, tenant) for tenant in ("a", "b", "c")] == [1.5, 9.0, None]
    assert counting._canary(TrialRecords(trial={"trial": 0}, tenants=(), requests={}), "a") is None


def test_facts_of_a_row_may_be_missing():
    row = {"a": 3, "b": None}
    assert [counting._number(row, key) for key in "abc"] == [3.0, None, None]
    assert [counting._whole(row, key) for key in "abc"] == [3, None, None]
    assert [counting._extreme(np.array(values, np.int64), min) for values in ([3, 1, 2], [])] == [1, None]
    assert [counting._mean(np.array(values, np.int64)) for values in ([3, 1, 2], [])] == [2.0, None]
    assert counting._within(np.array([1_000_000, 1_000_001]), 1).tolist() == [True, False]
    assert counting._within(np.array([2, 3]), 0, or_else=np.array([True, False])).tolist() == [True, False]
    assert counting._true({}, "ok", 2).tolist() == [False, False]
    assert counting._true({"ok": [1.0, np.nan, 0.0]}, "ok", 3).tolist() == [True, False, False]
    assert [counting._software(facts) for facts in ({"software": "x"}, {"params": 0}, {})] == ["x", "eager", None]


# --- foreign files


@pytest.mark.parametrize(
    ("header", "known"),
    [
        (["timestamp", "power.draw [W]"], True),
        (["power.draw"], True),
        (["Power.Draw [W]", "index"], True),
        (["timestamp", "index"], False),
        (["pci.bus_id", "name"], False),
        ([], False),
    ],
)
def test_fields_of_nvidia_smi_are_recognised(header, known):
    assert nvidia_smi.is_header(header) is known


def test_what_is_known_is_passed_over_and_what_follows_is_added(tmp_path):
    runs = []
    for name in "ab":
        run = RunFolder.create(tmp_path / name, {"study_name": "s", "device": "cpu"})
        run.commit(trial(0))
        runs.append(run.path)
    home = tmp_path / "db"
    assert [added.how for added in additions.add([runs[0]], home)] == ["added"]
    assert [added.how for added in additions.add([runs[0], runs[1], runs[1]], home)] == ["known", "added"]
    assert len(index.read(home)) == 2
    assert not (home / "partial").exists()
    RunFolder.open(runs[0]).commit(trial(1))
    before = {file.name for file in home.glob("*/*.parquet")}
    assert [added.how for added in additions.add(runs, home)] == ["updated", "known"]
    after = {file.name for file in home.glob("*/*.parquet")}
    assert len(before) == len(after), "the older version's files are gone"
    assert before != after


DCGM = {
    "GRACT": 1, "SMACT": 1, "SMOCC": 1, "TENSO": 1, "DRAMA": 1, "FP64A": 1, "FP32A": 1, "FP16A": 1, "PCITX": 1,
    "PCIRX": 1, "NVLTX": 1, "NVLRX": 1, "POWER": 1, "TOTEC": 1000, "SMCLK": 1, "MMCLK": 1, "TMPTR": 1, "MMTMP": 1,
    "GPUTL": 100, "MCUTL": 100, "FBUSD": 1 / 2**20, "OTHER": 1,
}  # fmt: skip
"""Its units per unit of ours: mJ, percent, MiB."""


def test_every_field_of_dcgmi_comes_in_our_units(tmp_path):
    file = tmp_path / "dmon.txt"
    row = " ".join(["12"] * len(DCGM))
    file.write_text(f"#Entity {' '.join(DCGM)}\nGPU 0 {row}\nGPU 1 {row}\nGPU 0 {row}\n")
    found = dcgmi.read(file, skip_bad=False, interval_s=0.1)
    mine = [series for series in found.series if series.device == "GPU 0"]
    assert [series.value.tolist() for series in mine] == [[12 / per] * 2 for per in DCGM.values()]
    assert [series.t_ns.tolist() for series in mine] == [[0, 100_000_000]] * len(DCGM)
    assert {len(series.value) for series in found.series if series.device == "GPU 1"} == {1}
    assert mine[-1].sensor == "other"


@pytest.mark.parametrize(
    ("studies", "watched"), [(["watched"] * 2, True), (["x", "y"], False), (["watched", "x"], None)]
)
def test_watched_runs_are_read_by_themselves(studies, watched):
    runs = Facts(manifests=[{"study_name": name} for name in studies], paths=[Path("a"), Path("b")])
    if watched is None:
        with pytest.raises(RunFolderError, match="a and b can't be read together"):
            all_watched(runs)
    else:
        assert all_watched(runs) is watched


def test_a_value_that_can_not_be_read_damages_a_table(tmp_path):
    run = RunFolder.create(tmp_path / "r", {"study_name": "s"})
    run.commit(trial(0, requests=4000))
    file = run.path / "trials" / "000000" / "requests.parquet"
    content = bytearray(file.read_bytes())
    content[4:200] = bytes(196)  # the first page of a column; the description at the end stays whole
    file.write_bytes(content)
    assert "is damaged" in str(damage.find([file]))


def test_a_manifest_is_on_disk_before_it_replaces_the_old_one(tmp_path, steps):
    run = RunFolder.create(tmp_path / "r", {"study_name": "s"})
    steps.clear()
    run.update_manifest(state="complete")
    kinds = [kind for kind, _ in steps]
    assert kinds[0] == "sync"
    assert kinds.index("sync") < kinds.index("move")
    assert steps[-1] == ("sync", run.path)
