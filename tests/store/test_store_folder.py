"""A run folder: reads back what was written, and reports every defect in its own sentence."""

import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from cotenant.errors import RunFolderError
from cotenant.store.folder import RunFolder
from tests.store.synthetic import trial


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "run", {"study": {"name": "quick"}, "seed": 7})


def refused(call) -> tuple[str, str]:
    with pytest.raises(RunFolderError) as caught:
        call()
    return caught.value.message, caught.value.hint


class TestLifeOfARun:
    def test_a_new_run_has_a_manifest_and_no_trials(self, run):
        assert run.manifest["schema_version"] == 1
        assert run.manifest["seed"] == 7
        assert run.committed() == frozenset()
        assert RunFolder.open(run.path).manifest == run.manifest

    def test_its_identity_is_unique_unless_given(self, tmp_path):
        first, second = (RunFolder.create(tmp_path / name, {}) for name in "ab")
        assert first.run != second.run
        assert RunFolder.create(tmp_path / "c", {"run": "mine"}).run == "mine"

    def test_only_the_store_sets_the_schema_version(self, tmp_path):
        assert RunFolder.create(tmp_path / "run", {"schema_version": 99}).manifest["schema_version"] == 1

    def test_committed_trials_are_visible_to_the_next_reader(self, run):
        for number in (0, 3, 1_000_000):
            run.commit(trial(number))
        assert RunFolder.open(run.path).committed() == {0, 3, 1_000_000}

    def test_tables_without_rows_are_not_written(self, run):
        run.commit(trial(12))
        assert {file.name for file in (run.path / "trials" / "000012").iterdir()} == {
            "trials.parquet",
            "tenants.parquet",
            "requests.parquet",
            "seal.json",
        }

    def test_nothing_unfinished_is_left_after_a_commit(self, run):
        run.commit(trial())
        assert list((run.path / "partial").iterdir()) == []

    def test_a_trial_can_be_committed_only_once(self, run):
        run.commit(trial(4))
        before = (run.path / "trials/000004/requests.parquet").read_bytes()
        message, hint = refused(lambda: run.commit(trial(4, requests=9)))
        assert message == f"Trial 4 is already in {run.path}."
        assert hint == f"Continue after it: cotenant run --resume {run.path}"
        assert (run.path / "trials/000004/requests.parquet").read_bytes() == before

    def test_resuming_removes_what_a_killed_session_left(self, run):
        run.commit(trial(0))
        (run.path / "partial/000001").mkdir(parents=True)
        (run.path / "partial/000001/trials.parquet").write_bytes(b"PAR1")
        (run.path / "manifest.json.new").write_text('{"schema')
        reopened = RunFolder.open(run.path)
        reopened.resume()
        assert {entry.name for entry in run.path.iterdir()} == {"manifest.json", "trials"}
        reopened.commit(trial(1))
        assert reopened.committed() == {0, 1}

    def test_the_manifest_is_changed_by_entry(self, run):
        run.update_manifest(sessions=({"started": "now"},), seed=8)
        assert run.manifest["sessions"] == [{"started": "now"}]
        assert RunFolder.open(run.path).manifest == run.manifest
        assert run.manifest["study"] == {"name": "quick"}

    def test_a_trial_with_a_bug_in_it_leaves_no_trace(self, run):
        with pytest.raises(ValueError, match="trials has no column 'moood'"):
            run.commit(trial(moood="x"))
        assert run.committed() == frozenset()
        assert list((run.path / "partial").iterdir()) == []


class TestCreating:
    def test_an_empty_folder_is_fine(self, tmp_path):
        assert RunFolder.create(tmp_path, {}).path == tmp_path

    def test_a_folder_whose_first_session_was_killed_at_once_is_fine(self, tmp_path):
        (tmp_path / "manifest.json.new").write_text("{")
        assert RunFolder.create(tmp_path, {}).committed() == frozenset()

    def test_a_folder_with_something_else_is_refused(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        message, hint = refused(lambda: RunFolder.create(tmp_path, {}))
        assert message == f"{tmp_path} is not empty."
        assert hint == "Choose another folder."
        assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]

    def test_a_folder_with_a_run_is_refused(self, run):
        message, hint = refused(lambda: RunFolder.create(run.path, {}))
        assert message == f"{run.path} already contains a run."
        assert hint == f"Choose another folder, or resume that run: cotenant run --resume {run.path}"

    def test_a_file_in_the_way_is_refused(self, tmp_path):
        (tmp_path / "run").write_text("")
        message, _ = refused(lambda: RunFolder.create(tmp_path / "run", {}))
        assert (
            message
            == f"The run folder {tmp_path / 'run'} can't be created: {tmp_path / 'run'} is a file, not a folder."
        )


class TestFoldersThatCanNotBeRead:
    def test_absent(self, tmp_path):
        message, _ = refused(lambda: RunFolder.open(tmp_path / "gone"))
        assert message == f"There is no run folder at {tmp_path / 'gone'}."

    def test_a_file(self, tmp_path):
        (tmp_path / "run.txt").write_text("")
        message, _ = refused(lambda: RunFolder.open(tmp_path / "run.txt"))
        assert message == f"{tmp_path / 'run.txt'} is a file, not a run folder."

    def test_foreign_without_a_manifest(self, tmp_path):
        message, hint = refused(lambda: RunFolder.open(tmp_path))
        assert message == f"{tmp_path} is not a run folder: it has no manifest.json."
        assert hint == "Use the folder printed by `run`."

    @pytest.mark.parametrize("text", ["{}", "[]", "3", '"x"', '{"schema_version": "one"}', '{"name": "web app"}'])
    def test_foreign_with_a_manifest(self, tmp_path, text):
        (tmp_path / "manifest.json").write_text(text)
        message, _ = refused(lambda: RunFolder.open(tmp_path))
        assert message == f"{tmp_path} is not a run folder: its manifest.json was not written by cotenant."

    def test_newer(self, run):
        manifest = dict(run.manifest, schema_version=2)
        (run.path / "manifest.json").write_text(json.dumps(manifest))
        message, hint = refused(lambda: RunFolder.open(run.path))
        assert message == f"{run.path} was written by a newer cotenant (schema 2, this one reads up to 1)."
        assert hint == "Upgrade: pip install --upgrade cotenant"

    def test_truncated_anywhere(self, run):
        whole = (run.path / "manifest.json").read_text().rstrip()
        for length in range(len(whole)):
            (run.path / "manifest.json").write_text(whole[:length])
            message, _ = refused(lambda: RunFolder.open(run.path))
            assert message.startswith(f"{run.path / 'manifest.json'} is corrupt: "), message

    def test_truncated_says_where(self, run):
        (run.path / "manifest.json").write_text('{"schema_version": 1,\n "run": "ab')
        message, hint = refused(lambda: RunFolder.open(run.path))
        assert message == (
            f"{run.path / 'manifest.json'} is corrupt: Unterminated string starting at at line 2, column 9."
        )
        assert hint.startswith("The trials beside it may be intact: restore the manifest from a copy")

    @pytest.mark.parametrize(
        ("content", "how"),
        [
            (b"\xff\xfe\x00rubbish", "it is not text"),
            (b"[" * 100_000, "it is nested too deeply"),
            (b'{"schema_version": 1}', "the run's identity is missing"),
            (b"9" * 10_000, "it contains a number that is too long"),
        ],
    )
    def test_corrupt(self, tmp_path, content, how):
        (tmp_path / "manifest.json").write_bytes(content)
        message, _ = refused(lambda: RunFolder.open(tmp_path))
        assert message == f"{tmp_path / 'manifest.json'} is corrupt: {how}."

    def test_forbidden(self, shared_run):
        (shared_run.path / "manifest.json").chmod(0o000)
        with as_nobody_special():
            message, hint = refused(lambda: RunFolder.open(shared_run.path))
        assert message == f"{shared_run.path / 'manifest.json'} can't be read: permission denied."
        assert hint == "Check who owns the folder and its permissions."

    def test_forbidden_to_write(self, shared_run):
        shared_run.commit(trial(0))
        (shared_run.path / "partial").chmod(0o555)
        with as_nobody_special():
            message, hint = refused(lambda: shared_run.commit(trial(1)))
        assert message == f"Trial 1 could not be written to {shared_run.path}: permission denied."
        assert hint == f"All 1 earlier trials are safe. Fix that, then resume: cotenant run --resume {shared_run.path}"


@pytest.fixture
def shared_run():
    """A run in a folder readable by others; pytest's own folders are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield RunFolder.create(Path(folder, "run"), {})


@contextmanager
def as_nobody_special():
    """Root ignores permissions, so drop privileges."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_every_trial_can_be_read_by_any_parquet_reader(run):
    run.commit(trial(0))
    [(rows,)] = duckdb.sql(f"SELECT count(*) FROM '{run.path}/trials/000000/requests.parquet'").fetchall()
    assert rows == 8
