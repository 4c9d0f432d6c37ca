"""Adding sources: once, all or nothing, concurrently; and reports about bad files."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from cotenant.errors import DatabaseError, DataError, RunFolderError
from cotenant.store.database import from_files, index
from cotenant.store.database.additions import add
from cotenant.store.database.database import Database
from cotenant.store.database.questions import stuck_sensors
from cotenant.store.folder import RunFolder
from tests.store.database.database_material import HEADER, MEMBERS, longhorn, run, stuck, trial


def everything(home):
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def test_a_file_is_added_once_whatever_it_is_called(tmp_path):
    home, file = tmp_path / "db", longhorn(tmp_path / "a.csv")
    [first] = add([file], home)
    assert (first.how, first.source.measurements, first.source.gpus) == ("added", 120, 12)
    before = everything(home)
    [again] = add([file.rename(tmp_path / "b.csv")], home)
    assert again.how == "known"
    assert everything(home) == before


def test_a_run_comes_in_with_its_members_and_their_sensors(tmp_path):
    add([run(tmp_path / "run")], tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        [work] = database.works()
        readings = database.readings(work)
    assert (work.work, work.conditions, work.simulated) == ("sgemm, batch 1, float32", "3 at once", True)
    assert readings.gpus == MEMBERS
    assert readings.counts.tolist() == [4, 4, 4]
    assert readings.gpu_times.tolist() == pytest.approx([100, 110, 100])
    assert readings.power_w.tolist() == [250] * 12
    assert readings.clock_mhz.tolist() == [1400] * 12
    assert readings.place_of(0, "node") == "box"


def test_a_resumed_run_replaces_its_older_version(tmp_path):
    home, folder = tmp_path / "db", run(tmp_path / "run", trials=2)
    add([folder], home)
    run(folder, trials=5, first=2)
    [again] = add([folder], home)
    assert (again.how, again.source.measurements) == ("updated", 15)
    assert len([name for name in everything(home) if name.startswith("measurements")]) == 1
    assert add([folder], home)[0].how == "known"


def test_invalid_trials_are_left_out_and_reported(tmp_path):
    folder = run(tmp_path / "run", trials=2)
    RunFolder.open(folder).commit(trial(7, verdict="invalid"))
    [found] = add([folder], tmp_path / "db")
    assert found.source.measurements == 6
    assert found.source.left_out == ("left out: 1 invalid trial",)


def test_settings_and_neighbours_are_separate_conditions(tmp_path):
    folder = run(tmp_path / "run", trials=2)
    RunFolder.open(folder).commit(trial(7, settings='{"clock_mhz": 1200}'))
    add([folder], tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        assert {work.conditions for work in database.works()} == {"3 at once", "clock_mhz 1200; 3 at once"}


BAD = {
    "a missing column": (HEADER.replace(",perf", "") + "\n", "no column 'perf'"),
    "rows of rubbish": (
        HEADER + "\n" + "sgemm,GPU-1,c1,1,1600000000,1000,1365,877,65,297,0\n" + "what,is,this\n" * 3,
        "3 lines that can't be used",
    ),
    "units where a number belongs": (
        HEADER + "\nsgemm,GPU-1,c1,1,1600000000,1000 ms,1365,877,65,297,0\n",
        "perf is not a number",
    ),
    "no rows": (HEADER + "\n", "has no runs"),
    "another format": ("hello\nworld\n", "unknown format"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_reported_with_its_place_and_nothing_is_added(what, tmp_path):
    text, words = BAD[what]
    (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
    home = tmp_path / "db"
    with pytest.raises(DataError, match=words) as refused:
        add([longhorn(tmp_path / "good.csv"), tmp_path / "bad.csv"], home)
    assert "bad.csv" in str(refused.value)
    assert refused.value.hint
    assert everything(home) == []


def test_bad_lines_can_be_left_out_and_are_counted(tmp_path):
    file = longhorn(tmp_path / "a.csv")
    file.write_text(file.read_text(encoding="utf-8") + "rubbish\n", encoding="utf-8")
    [found] = add([file], tmp_path / "db", skip_bad=True)
    assert found.source.measurements == 120
    assert "not 11 cells" in found.source.left_out[0]


def test_a_large_file_is_read_in_parts_and_comes_out_the_same(tmp_path, monkeypatch):
    file, log = longhorn(tmp_path / "a.csv"), stuck(tmp_path / "smi.csv")
    add([file, log], tmp_path / "whole")
    # Perfect files are added by SQL alone and are never split: disable that to read line by line.
    monkeypatch.setattr(from_files, "stage_sheet", lambda *_: None)
    monkeypatch.setattr(from_files, "LARGE_BYTES", 1500)
    add([file, log], tmp_path / "parts")
    found = []
    for home in (tmp_path / "whole", tmp_path / "parts"):
        with Database.open(home) as database:
            readings = database.readings(database.works()[0])
            series = [database.series(one)[1].tolist() for one in database.sensors()]
            found.append((readings.gpus, readings.time_ms.tolist(), readings.power_w.tolist(), series))
    assert found[0] == found[1]


def test_bad_lines_of_a_large_file_are_reported_with_their_true_numbers(tmp_path, monkeypatch):
    file = longhorn(tmp_path / "a.csv")
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[41], lines[101] = "rubbish", "more rubbish"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as whole:
        add([file], tmp_path / "db")
    monkeypatch.setattr(from_files, "LARGE_BYTES", 1500)
    with pytest.raises(DataError) as in_parts:
        add([file], tmp_path / "db")
    assert "2 lines that can't be used" in whole.value.message
    assert "42, 102" in whole.value.message
    assert in_parts.value.message == whole.value.message
    assert everything(tmp_path / "db") == []


def test_an_invalid_run_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(RunFolderError, match="not a run folder"):
        add([longhorn(tmp_path / "a.csv"), tmp_path / "none"], tmp_path / "db")
    assert everything(tmp_path / "db") == []


def test_many_may_add_at_the_same_time(tmp_path):
    home = tmp_path / "db"
    files = [longhorn(tmp_path / f"{n}.csv", gpus=2 + n) for n in range(4)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda file: add([file], home)[0].how, files * 2))
    assert sorted(results) == ["added"] * 4 + ["known"] * 4
    with Database.open(home) as database:
        assert sum(work.measurements for work in database.works()) == 10 * (2 + 3 + 4 + 5)
    assert not (home / "partial").exists()


def test_a_killed_add_leaves_a_database_that_works(tmp_path):
    home, file = tmp_path / "db", longhorn(tmp_path / "a.csv")
    add([file], home)
    other = longhorn(tmp_path / "b.csv", gpus=5)
    script = (
        "import os, sys; from pathlib import Path; from cotenant.store.database import additions as module, index;"
        "index.write = lambda *_: os._exit(9); module.add([Path(sys.argv[1])], Path(sys.argv[2]))"
    )
    assert subprocess.run([sys.executable, "-c", script, str(other), str(home)], check=False).returncode == 9
    with Database.open(home) as database:
        assert [source.name for source in database.sources.values()] == ["a.csv"]
        assert database.works()[0].measurements == 120
    assert add([other], home)[0].how == "added"


def test_a_failed_write_to_a_new_database_leaves_one_that_can_be_added_to(tmp_path, monkeypatch):
    home, file = tmp_path / "db", longhorn(tmp_path / "a.csv")
    real = index.write

    def refuse(place, content):
        if content:
            raise OSError(28, "No space left on device")
        real(place, content)

    monkeypatch.setattr(index, "write", refuse)
    with pytest.raises(DatabaseError, match="it is unchanged"):
        add([file], home)
    monkeypatch.setattr(index, "write", real)
    assert add([file], home)[0].how == "added"


def test_a_folder_that_is_not_a_database_is_unchanged(tmp_path):
    (tmp_path / "mine.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(DatabaseError, match="is not a database"):
        add([longhorn(tmp_path / "a.csv")], tmp_path)
    with pytest.raises(DatabaseError, match="is empty"), Database.open(tmp_path / "new"):
        pass


def test_a_damaged_or_newer_index_is_reported(tmp_path):
    home = tmp_path / "db"
    add([longhorn(tmp_path / "a.csv")], home)
    whole = (home / index.NAME).read_text(encoding="utf-8")
    (home / index.NAME).write_text(whole[:50], encoding="utf-8")
    with pytest.raises(DatabaseError, match="damaged"), Database.open(home):
        pass
    (home / index.NAME).write_text(json.dumps(json.loads(whole) | {"version": 99}), encoding="utf-8")
    with pytest.raises(DatabaseError, match="newer cotenant"), Database.open(home):
        pass


def test_names_with_quotes_stay_text(tmp_path):
    file = longhorn(tmp_path / "a'b.csv", gpus=2)
    file.write_text(file.read_text(encoding="utf-8").replace("sgemm", "s'); DROP"), encoding="utf-8")
    add([file, stuck(tmp_path / "x'y.csv")], tmp_path / "d'b")
    with Database.open(tmp_path / "d'b") as database:
        assert database.works()[0].work == "s'); DROP"


def test_activity_reveals_a_stuck_power_sensor(tmp_path):
    lines = ["timestamp, uuid, power.draw [W], utilization.gpu [%]"]
    lines += [f"2024/01/01 10:00:{second:02d}.000, GPU-x, 46.19, {second}" for second in range(60)]
    (tmp_path / "smi.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    add([tmp_path / "smi.csv"], tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        [found] = stuck_sensors(database)
    assert (found.gpu, found.stuck.witness) == ("GPU-x", "any_kernel_share")
    assert (found.stuck.witness_from, found.stuck.witness_to) == (pytest.approx(0.0), pytest.approx(0.59))
