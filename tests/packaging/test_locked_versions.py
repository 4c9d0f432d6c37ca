"""`make` installs packages checked against hashes, and the lists of hashes match constraints.txt."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lock():
    spec = importlib.util.spec_from_file_location("lock", ROOT / "tools" / "lock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def locked(group):
    text = (ROOT / "locked" / f"{group}.txt").read_text()
    found = re.findall(r"^([a-z0-9.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    assert len(found) == text.count("=="), "every line has hashes"
    return {name: version for name, version, _ in found}


def test_what_the_core_needs_is_locked(lock):
    """If this fails: `make lock`. Test-only packages not yet in a list are installed by their pin."""
    assert lock.of_group("") <= set(locked("core"))


@pytest.mark.parametrize("group", ["core", "dev"])
def test_every_locked_package_has_the_version_of_its_pin(lock, group):
    """If this fails: `make lock`."""
    pins = lock.pins()
    found = locked(group)
    assert found == {name: pins.get(name) for name in found}


def test_make_requires_the_hashes_before_anything_else_is_installed():
    makefile = (ROOT / "Makefile").read_text()
    assert "--require-hashes --no-deps" in makefile
    for group in ("core", "dev"):
        assert f"$(LOCKED) --requirement locked/{group}.txt\n" in makefile


def test_torch_stays_apart_since_its_builds_differ():
    assert "torch" not in {*locked("core"), *locked("dev")}
