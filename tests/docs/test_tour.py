"""The tour of the code: files that exist, few enough to read, folder after folder."""

import re
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
WALKS, _, BESIDE = (ROOT / "docs" / "tour.md").read_text().partition("## Off the path")
WALK, *OTHERS = re.split(r"(?m)^## (?=`)", WALKS)
"""The walk of `run`, and those of other verbs: each begins with a heading that names its verb."""


def files(text):
    return re.findall(r"`([a-z_/]+\.py)`", text)


def test_every_file_of_the_tour_exists():
    assert [name for name in files(WALKS + BESIDE) if not (ROOT / "src" / "cotenant" / name).is_file()] == []


def test_the_walk_is_short_and_visits_each_folder_once_in_the_readmes_order():
    assert len(files(WALK)) == len(set(files(WALK))) <= 25
    visited = [folder for folder, _ in groupby(name.partition("/")[0] for name in files(WALK))]
    listed = re.findall(r"^  ([a-z]+)/ ", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert visited == [folder for folder in listed if folder in visited]


def test_the_walk_of_every_other_verb_is_short_too():
    assert [walk.partition(":")[0] for walk in OTHERS] == ["`predict`", "`plan`", "`serve`"]
    for walk in OTHERS:
        assert len(files(walk)) == len(set(files(walk))) <= 25, walk.partition("\n")[0]
