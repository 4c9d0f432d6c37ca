"""The tool that puts faults into the code: what it changes, and what it leaves alone."""

import importlib
import importlib.util
import time
from pathlib import Path

import pytest

from cotenant.errors import SchedulingError

ROOT = Path(__file__).parent.parent.parent
with pytest.MonkeyPatch.context() as around:
    around.syspath_prepend(ROOT / "tools")
    mutants, bench, faults, reaching = map(
        importlib.import_module, ("mutants", "mutant_bench", "mutant_faults", "mutant_tests")
    )


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
    assert after in [fault.apply(before) for fault in faults.faults_of(Path("a.py"), before)]


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
    assert faults.faults_of(Path("a.py"), text) == []


def test_the_same_seed_gives_the_same_faults():
    files = mutants.candidates("scheduling")
    assert faults.sample(files, 20, 7) == faults.sample(files, 20, 7) != faults.sample(files, 20, 8)


def test_a_fault_keeps_its_rank_when_lines_are_added_above_its_function():
    text = "def f(a):\n    return a + 1\n"
    before, after = (faults.faults_of(Path("a.py"), added + text) for added in ("", "x = y\n\n"))
    assert [fault.rank(3) for fault in before] == [fault.rank(3) for fault in after]
    assert len({fault.rank(3) for fault in faults.faults_of(Path("a.py"), "def f():\n    return 1, 1\n")}) == 2


def test_every_package_has_files_and_folders_of_tests():
    for package, folders in mutants.PACKAGES.items():
        assert mutants.candidates(package), package
        assert any((ROOT / "tests" / folder).is_dir() for folder in folders), package


TEXT = "def near(a):\n    if a:\n        return 1\n    return 2\n\n\ndef new():\n    return 3\n"
REACH = reaching.Reach({"a.py": {"near": {"slow": [0, 1, 2], "quick": [0, 1, 2], "beside": [0, 1, 3]}}}, {"slow": 9.0})


def test_tests_that_execute_the_line_run_first_and_the_shortest_of_them_before_others():
    seconds = {"slow": 9.0, "quick": 0.1, "beside": 0.01}
    reach = reaching.Reach(REACH.files, seconds)
    assert reach.tests("a.py", TEXT, 3, most_s=30) == ["quick", "slow", "beside"]
    assert reach.tests("a.py", TEXT, 3, most_s=1) == ["quick"]
    assert reach.tests("a.py", "\n\n" + TEXT, 5, most_s=1) == ["quick"], "the function has moved"


def test_a_function_that_no_test_is_known_for_gets_the_tests_of_its_file():
    assert set(REACH.tests("a.py", TEXT, 8, most_s=30)) == {"slow", "quick", "beside"}
    assert REACH.tests("b.py", TEXT, 8, most_s=30) == []


def test_tests_that_import_a_changed_file_are_found_without_running_any():
    tests = mutants.nearest_tests([ROOT / "src/cotenant/serving/http/parsing.py"])
    assert "tests/serving/http/test_connection.py" in tests
    assert len(tests) <= mutants.MOST_FILES
    assert all(test.startswith("tests/serving/") for test in tests)


FILE = Path("src/cotenant/scheduling/costs.py")


def fault(before):
    return next(each for each in faults.faults_of(FILE, (ROOT / FILE).read_text()) if each.before == before)


def test_a_function_takes_the_code_with_the_fault_whoever_has_imported_it(monkeypatch):
    from cotenant.scheduling.costs import BatchCurve, chunk_cost

    (pair,) = bench._other_code(fault("p50_s * cold"), (ROOT / FILE).read_text(), bench._functions())
    function, code = pair
    assert function is chunk_cost
    monkeypatch.setattr(function, "__code__", code)
    assert chunk_cost(2.0, cold=4.0).spaced_s == 0.5
    inside = bench._other_code(fault("batch <= len(self.factors)"), (ROOT / FILE).read_text(), bench._functions())
    assert [function for function, _ in inside] == [BatchCurve.at]


def test_a_fault_outside_every_function_is_in_the_module_as_imported_anew():
    constant = next(each for each in faults.faults_of(FILE, (ROOT / FILE).read_text()) if not each.function)
    assert bench._other_code(constant, (ROOT / FILE).read_text(), {}) is None
    spec = bench._Changed(constant).find_spec("cotenant.scheduling.costs")
    with pytest.raises(SchedulingError, match="starts with 1"):  # a curve that starts with another number
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert bench._Changed(constant).find_spec("cotenant.scheduling.job") is None


def test_children_are_judged_and_ended_when_they_take_too_long(tmp_path):
    told = []

    def job(name, work, most_s):
        return bench.Job(work, lambda code, own, spent: told.append((name, code, own.is_dir(), spent < 5)), most_s)

    bench.Children(tmp_path, 2).run([
        job("fails", lambda own: bench.NOTICED, 30.0), job("passes", lambda own: bench.SURVIVED, 30.0),
        job("hangs", lambda own: time.sleep(600), 0.2),
    ])  # fmt: skip
    assert sorted(told) == [("fails", 1, True, True), ("hangs", None, True, True), ("passes", 0, True, True)]


def test_the_nearest_tests_come_first():
    importers = {"a": {"b", "tests.test_a"}, "b": {"a", "tests.support"}, "tests.support": {"tests.test_c"}}
    assert reaching.nearest(importers, "a") == ["tests/test_a.py", "tests/test_c.py"]
