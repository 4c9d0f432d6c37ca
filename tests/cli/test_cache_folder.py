"""Where cotenant keeps what it can make again."""

import os
import stat
from pathlib import Path

import pytest

from cotenant import cache


@pytest.fixture
def homeless(tmp_path, monkeypatch):
    """A user without a home, as in many containers."""

    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache._without_home.cache_clear()
    yield tmp_path
    cache._without_home.cache_clear()


def test_the_cache_is_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder("roofline") == tmp_path / "cotenant" / "roofline"


def test_without_a_home_the_cache_is_a_private_folder_that_stays_the_same(homeless):
    folder = cache.cache_folder("roofline")
    assert folder == cache.cache_folder("roofline") == homeless / f"cotenant-{os.getuid()}" / "roofline"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_folder_that_someone_else_may_have_put_there_is_not_used(homeless):
    (homeless / "theirs").mkdir()
    (homeless / f"cotenant-{os.getuid()}").symlink_to(homeless / "theirs")
    assert cache.cache_folder("x").parent.parent == homeless
    assert "theirs" not in str(cache.cache_folder("x").resolve())
