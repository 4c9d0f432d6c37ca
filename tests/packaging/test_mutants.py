"""The tool that puts faults into the code: what it changes, and what it leaves alone."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SPEC = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
mutants = importlib.util.module_from_spec(SPEC)
sys.modules["mutants"] = mutants
SPEC.loader.exec_module(mutants)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = a < b", "x = (a <= b)"),
        ("x = a + b", "x = (a - b)"),
        ("x = a and b", "x = (a or b)"),
        ("x = not a", "x = (a)"),
        ("x = min(a, b)", "x = (max(a, b))"),
        ("x = 3", "x = (4)"),
        ("x = a if b else c", "x = (c if b else a)"),
        ("def f():\n    raise ValueError", "def f():\n    pass"),
        ("def f():\n    save(a)", "def f():\n    pass"),
        ("ü = 'ä' if a else 'ö'", "ü = ('ö' if a else 'ä')"),
    ],
)
def test_a_fault_changes_one_decision(before, after):
    assert after in [fault.apply(before) for fault in mutants.faults_of(Path("a.py"), before)]


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring with 3 < 4."""',
        "def f(a: int | None) -> int: ...",
        "x: dict[str, int]",
        "def f():\n    log.warning('gone')",
        "class A:\n    def __repr__(self):\n        return 1 + 2",
        "x = f'{a + b}'",
        "@dataclass(frozen=True)\nclass A:\n    x: int",
    ],
)
def test_text_and_types_are_left_alone(text):
    assert mutants.faults_of(Path("a.py"), text) == []


def test_the_same_seed_gives_the_same_faults():
    files = mutants.candidates("scheduling")
    assert mutants.sample(files, 20, 7) == mutants.sample(files, 20, 7) != mutants.sample(files, 20, 8)


def test_a_fault_keeps_its_rank_when_lines_are_added_above_its_function():
    text = "def f(a):\n    return a + 1\n"
    before, after = (mutants.faults_of(Path("a.py"), added + text) for added in ("", "x = y\n\n"))
    assert [fault.rank(3) for fault in before] == [fault.rank(3) for fault in after]
    assert len({fault.rank(3) for fault in mutants.faults_of(Path("a.py"), "def f():\n    return 1, 1\n")}) == 2


def test_every_package_has_files_and_folders_of_tests():
    for package, folders in mutants.PACKAGES.items():
        assert mutants.candidates(package), package
        assert any((ROOT / "tests" / folder).is_dir() for folder in folders), package


TEXT = "def near(a):\n    if a:\n        return 1\n    return 2\n\n\ndef new():\n    return 3\n"
REACH = mutants.Reach({"a.py": {"near": {"slow": [0, 1, 2], "quick": [0, 1, 2], "beside": [0, 1, 3]}}}, {"slow": 9.0})


def test_tests_that_execute_the_line_run_first_and_the_shortest_of_them_before_others():
    seconds = {"slow": 9.0, "quick": 0.1, "beside": 0.01}
    reach = mutants.Reach(REACH.files, seconds)
    assert reach.tests("a.py", TEXT, 3, most_s=30) == ["quick", "slow", "beside"]
    assert reach.tests("a.py", TEXT, 3, most_s=1) == ["quick"]
    assert reach.tests("a.py", "\n\n" + TEXT, 5, most_s=1) == ["quick"], "the function has moved"


def test_a_function_that_no_test_is_known_for_gets_the_tests_of_its_file():
    assert set(REACH.tests("a.py", TEXT, 8, most_s=30)) == {"slow", "quick", "beside"}
    assert REACH.tests("b.py", TEXT, 8, most_s=30) == []


def test_tests_that_import_a_changed_file_are_tried_without_measuring_what_they_reach(monkeypatch):
    monkeypatch.setattr(mutants, "collected", lambda _, files: {file: [f"{file}::test"] for file in files})
    path = ROOT / "src/cotenant/serving/http/parsing.py"
    text = path.read_text()
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith("def read_head"))
    tests = mutants.named([path]).tests(str(path.relative_to(ROOT)), text, line + 3, most_s=60)
    assert "tests/serving/http/test_connection.py::test" in tests
    assert len(tests) <= mutants.MOST_FILES
    assert all(test.startswith("tests/serving/") for test in tests)


def test_the_nearest_tests_come_first():
    importers = {"a": {"b", "tests.test_a"}, "b": {"a", "tests.support"}, "tests.support": {"tests.test_c"}}
    assert mutants.nearest(importers, "a") == ["tests/test_a.py", "tests/test_c.py"]
