"""A new run's path is safe for any study name."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.store.folder import new_run_path


def test_a_run_lies_under_its_study_by_time(tmp_path):
    path = new_run_path(tmp_path, "quick")
    assert path.parent == tmp_path / "quick"
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{8}", path.name)
    assert not path.exists()


def test_two_runs_never_share_a_path():
    assert len({new_run_path(Path("runs"), "quick") for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("study", "folder"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("<script>alert(1)</script>", "script-alert-1-script"),
        ("'; DROP TABLE trials; --", "drop-table-trials"),
        ("Ünïcode Study", "unicode-study"),
        ("..", "study"),
        ("", "study"),
        ("日本", "study"),
        ("-rf *", "rf"),
        ("a" * 500, "a" * 48),
    ],
)
def test_a_hostile_name_becomes_a_harmless_folder(study, folder):
    assert new_run_path(Path("runs"), study).parent == Path("runs", folder)


@given(st.text())
def test_any_name_stays_one_level_below_the_root(study):
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", new_run_path(Path("runs"), study).parent.name)
