"""Chunks: several trials in one folder, committed in one rename, read as if each had its own."""

import pytest

from cotenant.errors import RunFolderError
from cotenant.store.folder import RunFolder, chunk_name, trials_in
from cotenant.store.observe import observations, observe_trial
from cotenant.store.reading import open_runs
from cotenant.store.verifying import verify_run
from tests.store.synthetic import trial


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ([7], "000007"),
        ([12, 13, 14], "000012-000014"),
        ([17, 12, 14, 13], "000012-000014+000017"),
        ([1_000_000], "1000000"),
    ],
)
def test_a_chunk_is_named_after_its_trials(numbers, name):
    assert chunk_name(numbers) == name
    assert trials_in(name) == tuple(sorted(numbers))


@pytest.mark.parametrize(
    "name", ["7", "000012-000012", "000014-000012", "000001+000002", "000000-999999", "x", "", "000001.old"]
)
def test_other_names_contain_no_trials(name):
    assert trials_in(name) == ()


def test_trials_of_a_chunk_are_read_as_if_each_had_its_own_folder(tmp_path):
    records = [trial(number, requests=3 + number) for number in range(5)]
    together, apart = (RunFolder.create(tmp_path / name, {"run": name}) for name in ("together", "apart"))
    together.commit(records[0], records[1], records[3])
    together.commit(records[2], records[4])
    for one in records:
        apart.commit(one)
    assert together.committed() == apart.committed() == frozenset(range(5))
    seen = []
    for folder in (together, apart):
        with open_runs([folder.path]) as runs:
            rows = [(one.trial, one.tenant, one.n, one.mean_latency_ns) for one in observations(runs, raw=True)]
        seen.append(sorted(rows))
        assert verify_run(folder.path).damaged == ()
    assert (
        seen[0]
        == seen[1]
        == sorted(
            (one.trial, one.tenant, one.n, one.mean_latency_ns) for r in records for one in observe_trial(r, "together")
        )
    )


def test_a_trial_is_never_committed_twice(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.commit(trial(0), trial(1))
    with pytest.raises(RunFolderError, match="Trial 1 is already in"):
        run.commit(trial(1), trial(2))
    assert run.committed() == {0, 1}


def test_a_chunk_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    run = RunFolder.create(tmp_path / "run", {})
    run.commit(trial(0))

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cotenant.store.folder.sync", fails)
    with pytest.raises(RunFolderError, match="Trials 1 to 3 could not be written"):
        run.commit(trial(1), trial(2), trial(3))
    assert run.committed() == {0}
    assert not list((run.path / "partial").iterdir())
