"""A kill at each step of adding to a database, of a search and of a server that records: all of it or nothing.

Runs have their own, longer tests: test_runner_faults.py here, and tests/store/test_store_faults.py for every commit.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storm.cases import SMI, pictures
from tests.storm.faulting import SERVED

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "room"
    folder.mkdir()
    command = f"from pathlib import Path; from tests.storm import cases; cases.corpus(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True, capture_output=True)
    (folder / "served.yaml").write_text(SERVED)
    (folder / "more.csv").write_text(SMI.replace("GPU-1", "GPU-2"))
    return folder


def killed_at_each_step(room, words, then, **more):
    description = room.with_name("stepped.json")
    description.write_text(
        json.dumps({"room": str(room), "words": words.split(), "then": [*map(str.split, then)], **more})
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.stepping", description],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=280,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["steps"] >= 3
    assert all(kill["killed"] for kill in found["kills"]), found
    return found["kills"]


def test_a_database(room):
    kills = killed_at_each_step(
        room,
        "db add FOLDER/other FOLDER/more.csv --db FOLDER/db",
        ["db --db FOLDER/db --json", "db add FOLDER/other FOLDER/more.csv --db FOLDER/db", "db --db FOLDER/db --json"],
        models=False,
        most=10,
    )
    for kill in kills:
        before, added, after = kill["after"]
        assert before[0] == 0, kill
        assert len(json.loads(before[1])["sources"]) in {2, 4}, kill
        assert added[0] == 0, kill
        assert len(json.loads(after[1])["sources"]) == 4, kill


def test_a_search(room):
    pictures(room)
    kills = killed_at_each_step(
        room,
        "search --data FOLDER/photos FOLDER/siblings --exact --scorer knn --out FOLDER/searches -q",
        ["search --resume LATEST -q --json"],
        latest="searches/*/*/search.json",
        most=6,
    )
    rankings = []
    for kill in kills:
        [(code, out, err)] = kill["after"]
        assert code == 0, kill
        assert "Traceback" not in err
        if out:
            rankings.append([(line["name"], line["estimate"]) for line in json.loads(out)["ranking"]])
    assert rankings
    assert all(one == rankings[0] for one in rankings)


def test_a_server_that_records(room):
    kills = killed_at_each_step(
        room,
        "serve FOLDER/served.yaml --port 0 --record FOLDER/runs",
        ["verify LATEST", "show LATEST"],
        latest="runs/*/*/manifest.json",
        most=6,
        served=True,
    )
    for kill in kills:
        verified, shown = kill["after"]
        assert verified[0] == 0, kill
        assert shown[0] in {0, 1, 2}, kill
        assert "Traceback" not in shown[2]
        assert "should not have happened" not in shown[2]
