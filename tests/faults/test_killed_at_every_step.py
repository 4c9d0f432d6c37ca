"""A kill at each step of adding to a database: all or nothing.

Runs have separate, longer tests: test_runner_faults.py here and tests/store/test_store_faults.py for every commit,
including that of served traffic. For killed searches and servers, see test_killed_records.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storm.cases import SMI
from tests.support import pace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "room"
    folder.mkdir()
    command = f"from pathlib import Path; from tests.storm import cases; cases.corpus(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True, capture_output=True)
    (folder / "more.csv").write_text(SMI.replace("GPU-1", "GPU-2"))
    return folder


def killed_at_each_step(room, words, then, **more):
    description = room.with_name("stepped.json")
    description.write_text(
        json.dumps({"room": str(room), "words": words.split(), "then": [*map(str.split, then)], **more})
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.stepping", description],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=pace.seconds(900),
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
        most=10,
    )
    for kill in kills:
        before, added, after = kill["after"]
        assert before[0] == 0, kill
        assert len(json.loads(before[1])["sources"]) in {2, 4}, kill
        assert added[0] == 0, kill
        assert len(json.loads(after[1])["sources"]) == 4, kill


def test_a_new_database(room):
    """Regression: a kill between its first files and its index left a folder that could not be added to."""
    kills = killed_at_each_step(
        room,
        "db add FOLDER/other FOLDER/more.csv --db FOLDER/new",
        ["db add FOLDER/other FOLDER/more.csv --db FOLDER/new", "db --db FOLDER/new --json"],
        most=10,
    )
    for kill in kills:
        added, after = kill["after"]
        assert added[0] == 0, kill
        assert len(json.loads(after[1])["sources"]) == 2, kill
