"""Names say what they are: no two public classes share one, and few files do."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "cotenant"
MOST_SHARED = 5
"""File names that occur more than twice: a verb's file in cli/ and in api/ may have a namesake."""


def test_no_two_public_classes_share_a_name():
    homes = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_few_file_names_occur_more_than_twice():
    names = Counter(path.name for path in ROOT.rglob("*.py") if path.name != "__init__.py")
    assert len([name for name, count in names.items() if count > 2]) <= MOST_SHARED
