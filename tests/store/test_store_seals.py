"""Seals: any damage is detected before a number is computed from it, and the rest of the run stays readable."""

import json
import os
import shutil
import warnings

import pytest

from cotenant.errors import DamagedTrials, IntegrityWarning, RunFolderError
from cotenant.store import integrity, seals
from cotenant.store.folder import RunFolder
from tests.store.synthetic import connect, trial, unsealed


@pytest.fixture
def run(tmp_path):
    """Four trials, distinguishable by their number of requests."""
    folder = RunFolder.create(tmp_path / "run", {})
    for number in range(4):
        folder.commit(trial(number, requests=3 + number))
    return folder


def flip(file, place=None):
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 0x10
    file.write_bytes(content)


def read(run):
    with connect([run.path]) as con:
        return [number for (number,) in con.execute("SELECT trial FROM trials ORDER BY trial").fetchall()]


def a_flipped_bit(run):
    flip(run.trial_path(2) / "requests.parquet")


def a_missing_table(run):
    (run.trial_path(2) / "requests.parquet").unlink()


def another_trials_copy(run):
    shutil.rmtree(run.trial_path(2))
    shutil.copytree(run.trial_path(1), run.trial_path(2))


def another_trials_table(run):
    shutil.copy(run.trial_path(1) / "requests.parquet", run.trial_path(2) / "requests.parquet")


def an_added_table(run):
    shutil.copy(run.trial_path(2) / "requests.parquet", run.trial_path(2) / "samples.parquet")


def a_missing_seal(run):
    (run.trial_path(2) / seals.NAME).unlink()


def a_damaged_seal(run):
    (run.trial_path(2) / seals.NAME).write_text("{")


def a_seal_that_names_a_file_elsewhere(run):
    file = run.trial_path(2) / seals.NAME
    file.write_text(file.read_text().replace("requests.parquet", "../000001/requests.parquet"))


def a_named_pipe(run):
    a_missing_table(run)
    os.mkfifo(run.trial_path(2) / "requests.parquet")


def a_link_to_a_twin_elsewhere(run):
    file = run.trial_path(2) / "requests.parquet"
    file.rename(run.path.parent / "twin")
    file.symlink_to(run.path.parent / "twin")


def a_linked_folder(run):
    run.trial_path(2).rename(run.path.parent / "twin")
    run.trial_path(2).symlink_to(run.path.parent / "twin")


DAMAGE = (
    a_flipped_bit, a_missing_table, another_trials_copy, another_trials_table, an_added_table, a_missing_seal,
    a_damaged_seal, a_seal_that_names_a_file_elsewhere, a_named_pipe, a_link_to_a_twin_elsewhere, a_linked_folder,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__.replace("_", " "))
def test_a_damaged_trial_is_left_out_and_named(run, damage):
    damage(run)
    with pytest.warns(DamagedTrials, match=rf"^1 of 4 trials of {run.path} are damaged and left out: 000002 \("):
        assert read(run) == [0, 1, 3]


def test_every_bit_of_a_table_is_covered_by_the_seal(run):
    file = run.trial_path(0) / "tenants.parquet"
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        flip(file, place)
        assert set(integrity.standing(run).damaged) == {0}, place
        file.write_bytes(whole)
    assert not integrity.standing(run).damaged


def test_an_intact_run_is_read_without_warnings(run):
    assert read(run) == [0, 1, 2, 3]


def test_damage_after_a_first_read_is_detected_by_the_next(run):
    assert read(run) == [0, 1, 2, 3]
    a_flipped_bit(run)
    with pytest.warns(DamagedTrials):
        assert read(run) == [0, 1, 3]


def test_a_run_without_an_intact_trial_cannot_be_read(run):
    for number in range(4):
        flip(run.trial_path(number) / "trials.parquet")
    with pytest.raises(RunFolderError, match=r"000000/trials.parquet is damaged: its content has changed") as caught:
        read(run)
    assert caught.value.hint.endswith(f"cotenant run --resume {run.path}")


def test_trials_that_a_complete_run_has_lost_are_counted(run):
    run.update_manifest(state="complete", trials=4)
    shutil.rmtree(run.trial_path(3))
    reopened = RunFolder.open(run.path)
    with pytest.warns(DamagedTrials, match=r"^1 trials that .* had when it was complete are missing\.$"):
        assert read(reopened) == [0, 1, 2]


def test_a_run_from_before_seals_is_read_with_a_warning(run):
    reopened = unsealed(run)
    with pytest.warns(IntegrityWarning, match="was written without seals") as caught:
        assert read(reopened) == [0, 1, 2, 3]
    assert not any(issubclass(one.category, DamagedTrials) for one in caught)


def test_a_damaged_trial_is_set_aside_and_can_be_measured_again(run):
    a_flipped_bit(run)
    [where] = integrity.set_damaged_aside(run)
    assert where == run.path / "damaged" / "000002"
    run.commit(trial(2, requests=5))
    assert read(run) == [0, 1, 2, 3]
    a_flipped_bit(run)
    assert [path.name for path in integrity.set_damaged_aside(run)] == ["000002.1"], "the first one is kept"


def test_the_seal_is_committed_with_the_trial_and_counts_its_rows(run):
    seal = json.loads((run.trial_path(1) / seals.NAME).read_text())
    assert (seal["run"], seal["folder"]) == (run.run, "000001")
    assert seal["rows"] == {"1": {"trials": 1, "tenants": 2, "requests": 8}}
    assert set(seal["files"]) == {"trials.parquet", "tenants.parquet", "requests.parquet"}


def test_one_flipped_bit_of_the_manifest_is_detected(run):
    """Wherever the bit affects what is read."""
    file = run.path / "manifest.json"
    whole, before = file.read_bytes(), dict(RunFolder.open(run.path).manifest)
    for place in range(len(whole)):
        flip(file, place)
        try:
            same = {key: value for key, value in RunFolder.open(run.path).manifest.items() if len(key) != 6}
        except RunFolderError:
            pass
        else:  # the bit was in a space, or in the name of the checksum itself
            assert same == {key: value for key, value in before.items() if len(key) != 6}, place
        file.write_bytes(whole)


def test_a_hash_is_computed_once_for_each_file_of_a_process(run, monkeypatch):
    read(run)
    monkeypatch.setattr(seals, "_digest", lambda _: pytest.fail("hashed again"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(run) == [0, 1, 2, 3]


def test_a_trial_of_another_run_is_left_out_even_under_the_same_name(run, tmp_path):
    other = RunFolder.create(tmp_path / "other", {})
    for number in range(4):
        other.commit(trial(number, requests=3 + number))
    shutil.rmtree(run.trial_path(2))
    shutil.copytree(other.trial_path(2), run.trial_path(2))
    with pytest.raises(seals.Broken, match="belongs to"):
        seals.check(run.trial_path(2), run.run, required=True)
    with pytest.warns(IntegrityWarning):
        assert read(run) == [0, 1, 3]
