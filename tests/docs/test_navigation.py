"""The site shows every page, the pages name files that exist, and the version stands in one place."""

import re
import tomllib
from pathlib import Path

import pytest

import cotenant

ROOT = Path(__file__).parents[2]


def pages(node):
    """Every page below a node of the navigation."""
    if isinstance(node, str):
        return [node]
    children = node.values() if isinstance(node, dict) else node
    return [page for child in children for page in pages(child)]


def test_the_navigation_has_every_page_once():
    shown = pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(shown) == sorted(written)


@pytest.mark.parametrize("page", ["docs/adding.md", "RELEASING.md", "README.md"])
def test_files_that_a_contributor_is_sent_to_exist(page):
    named = re.findall(r"`((?:src|tests|docs)/[\w./-]+?)/?`", (ROOT / page).read_text())
    assert page != "docs/adding.md" or len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_version_stands_in_one_place():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert about["project"]["dynamic"] == ["version"]
    assert about["tool"]["hatch"]["version"]["path"] == "src/cotenant/__init__.py"
    assert f"## [{cotenant.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)


def test_the_changelog_can_be_read_in_one_sitting():
    entries = re.findall(r"^- ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert 20 <= len(entries) <= 60
