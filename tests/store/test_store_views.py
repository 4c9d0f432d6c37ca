"""Any number of runs are one database, wherever they are and whatever their names."""

import os

import pytest

from cotenant.errors import DamagedTrials, IntegrityWarning, RunFolderError
from cotenant.store import parquet, seals
from cotenant.store.folder import RunFolder
from cotenant.store.reading import open_runs
from cotenant.store.views import view_columns
from cotenant.tenancy.records import TABLES
from tests.store.synthetic import connect, trial, unsealed

STRANGE = ["plain", "with space", "it's", 'say "hi"', "ünï-日本", "a*b?c", "[a]", "a", "{a,b}", "back\\slash", "%41"]


def observed(run):
    from cotenant.store.observe import observations

    with open_runs([run.path]) as runs:
        return list(observations(runs, raw=False))


def make(path, trials=2, **manifest):
    run = RunFolder.create(path, manifest)
    for number in range(trials):
        run.commit(trial(number, mix=f"{path.name} {number}"))
    return run


def test_runs_are_one_database_and_every_row_says_which_run(tmp_path):
    first, second = make(tmp_path / "a", run="A"), make(tmp_path / "b", trials=3, run="B")
    with connect([first.path, second.path]) as con:
        for table, rows in {"trials": 1, "tenants": 2, "requests": 8}.items():
            counted = con.execute(f"SELECT run, count(*) FROM {table} GROUP BY run ORDER BY run").fetchall()
            assert counted == [("A", 2 * rows), ("B", 3 * rows)]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("trials", [0, 1])
def test_a_view_has_all_its_columns_with_and_without_rows(tmp_path, table, trials):
    run = make(tmp_path / "run", trials=trials)
    with connect([run.path]) as con:
        described = con.execute(f"DESCRIBE {table}").fetchall()
    assert [row[:2] for row in described] == [(column.name, column.type) for column in view_columns(table)]
    assert described[0][0] == "run"


def test_no_runs_are_an_empty_database():
    with connect([]) as con:
        assert con.execute("SELECT count(*) FROM requests").fetchall() == [(0,)]


def test_folders_may_have_any_name(tmp_path):
    runs = [make(tmp_path / name, trials=1) for name in STRANGE]
    with connect([run.path for run in runs]) as con:
        mixes = con.execute("SELECT run, mix FROM trials").fetchall()
    assert sorted(mixes) == sorted((run.run, f"{run.path.name} 0") for run in runs)


def test_an_identity_may_be_any_text(tmp_path):
    run = make(tmp_path / "run", run="'; DROP VIEW trials; --")
    with connect([run.path]) as con:
        assert con.execute("SELECT DISTINCT run FROM requests").fetchall() == [(run.run,)]


def test_a_run_named_twice_counts_once(tmp_path, monkeypatch):
    run = make(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    with connect([run.path, run.path.relative_to(tmp_path), tmp_path / "run" / ".." / "run"]) as con:
        assert con.execute("SELECT count(*) FROM trials").fetchall() == [(2,)]


def test_two_copies_of_one_run_are_refused(tmp_path):
    make(tmp_path / "a", run="same")
    make(tmp_path / "b", run="same")
    with pytest.raises(RunFolderError) as caught:
        connect([tmp_path / "a", tmp_path / "b"])
    assert caught.value.message == f"{tmp_path / 'a'} and {tmp_path / 'b'} are the same run (same)."


def test_trials_in_progress_are_not_seen(tmp_path):
    run = make(tmp_path / "run")
    (run.path / "trials/000001").rename(run.path / "partial/000001")
    with connect([run.path]) as con:
        assert con.execute("SELECT trial FROM trials").fetchall() == [(0,)]


@pytest.mark.filterwarnings("ignore::cotenant.errors.IntegrityWarning")
class TestDamageWithoutSeals:
    def damaged(self, run, call) -> str:
        file = run.path / "trials/000001/requests.parquet"
        with pytest.raises(RunFolderError) as caught:
            call()
        assert caught.value.message.startswith(f"{file} is damaged: ")
        assert caught.value.hint == (
            f"Remove {file.parent} and measure that trial again: cotenant run --resume {run.path}"
        )
        return caught.value.message.removeprefix(f"{file} is damaged: ")

    @pytest.mark.parametrize("kept", [0, 3, 11, 100, -1])
    def test_a_truncated_file(self, tmp_path, kept):
        run = unsealed(make(tmp_path / "run"))
        file = run.path / "trials/000001/requests.parquet"
        file.write_bytes(file.read_bytes()[:kept])
        assert self.damaged(run, lambda: connect([run.path])) == "it is truncated or not Parquet."

    def test_a_file_of_something_else(self, tmp_path):
        run = unsealed(make(tmp_path / "run"))
        (run.path / "trials/000001/requests.parquet").write_text("seq,done_ns\n1,2\n3,4\n")
        assert self.damaged(run, lambda: connect([run.path])) == "it is truncated or not Parquet."

    def test_a_folder_in_place_of_a_file(self, tmp_path):
        run = unsealed(make(tmp_path / "run"))
        (run.path / "trials/000001/requests.parquet").unlink()
        (run.path / "trials/000001/requests.parquet").mkdir()
        assert self.damaged(run, lambda: connect([run.path])) == "it is a folder, not a file."

    def test_a_file_in_place_of_a_trial(self, tmp_path):
        run = unsealed(make(tmp_path / "run"))
        (run.path / "trials/000007").write_text("")
        with pytest.warns(DamagedTrials, match=r"left out: 000007 \(\.: not a directory\)\.$"):
            connect([run.path]).close()

    def test_a_trial_without_its_row(self, tmp_path):
        run = unsealed(make(tmp_path / "run"))
        (run.path / "trials/000001/trials.parquet").unlink()
        with pytest.raises(RunFolderError, match=r"000001/trials\.parquet is damaged: it is missing\."):
            connect([run.path])

    def test_bytes_overwritten_in_the_middle_are_found_when_they_are_read(self, tmp_path):
        from cotenant.store.query import sql

        run = unsealed(make(tmp_path / "run"))
        file = run.path / "trials/000001/requests.parquet"
        content = bytearray(file.read_bytes())
        content[8:400] = b"\xa5" * 392
        file.write_bytes(content)
        self.damaged(run, lambda: observed(run))
        self.damaged(run, lambda: sql("SELECT sum(done_ns), max(tenant) FROM requests", [run.path]))
        self.damaged(run, lambda: run.export("requests", tmp_path / "out.csv"))
        assert not (tmp_path / "out.csv").exists()


def test_other_things_among_the_trials_are_ignored(tmp_path):
    run = make(tmp_path / "run")
    for name in ("7", ".DS_Store", "000001 (copy)", "٣٣٣٣٣٣"):
        (run.path / "trials" / name).mkdir()
    assert run.committed() == {0, 1}
    with connect([run.path]) as con:
        assert con.execute("SELECT count(*) FROM trials").fetchall() == [(2,)]


def test_hundreds_of_trials_are_read_as_one_table(tmp_path):
    run = make(tmp_path / "run", trials=1)
    first = run.trial_path(0)
    for number in range(1, 300):
        run.trial_path(number).mkdir()
        for file in first.glob("*.parquet"):
            os.link(file, run.trial_path(number) / file.name)
        seals.write(run.trial_path(number), run=run.run, name=run.trial_path(number).name, rows={})
    with connect([run.path]) as con:
        assert con.execute("SELECT count(*) FROM requests").fetchall() == [(300 * 8,)]


def test_a_run_from_before_a_column_was_added_has_null_there(tmp_path):
    run = make(tmp_path / "old", trials=1, run="A")
    unsealed(run)
    [file] = run.path.glob("trials/*/requests.parquet")
    later = [column.name for column in TABLES["requests"] if column.later]
    assert later
    con = parquet.memory()
    con.execute(f"CREATE TABLE kept AS SELECT * EXCLUDE ({', '.join(later)}) FROM read_parquet('{file}')")
    con.execute(f"COPY kept TO '{file}' (FORMAT parquet)")
    with pytest.warns(IntegrityWarning), connect([run.path]) as con:
        assert con.execute(f"SELECT count(*), count({later[0]}) FROM requests").fetchall() == [(8, 0)]
