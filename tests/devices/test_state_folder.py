"""Restore notes are kept where only this user can write."""

import os
from pathlib import Path

import pytest

from cotenant.cache import state_folder


@pytest.fixture
def homeless(monkeypatch, tmp_path):
    def home():
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"cotenant-state-{os.getuid()}"


def test_it_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder("controls") == tmp_path / "cotenant" / "controls"


def test_without_a_home_a_private_temporary_folder_is_used(homeless):
    assert state_folder("controls") == homeless / "controls"
    assert homeless.stat().st_mode & 0o077 == 0


def test_a_folder_that_others_can_write_to_is_refused(homeless):
    homeless.mkdir()
    homeless.chmod(0o777)
    with pytest.raises(PermissionError, match="not private to this user"):
        state_folder("controls")


def test_a_link_is_refused(homeless, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    homeless.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        state_folder("controls")
