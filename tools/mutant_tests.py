"""Which tests reach which function: what `mutants.py` runs for a fault, most telling tests first.

The knowledge comes from one run of the tests under coverage, with the name of the test as context. It is kept by
function and by line within the function, so that it stays useful while files change elsewhere.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

MODULE = ""
"""Stands for the lines of a file outside every function, which run when it is imported."""


@dataclass(frozen=True)
class Span:
    """A function in a file."""

    name: str
    first: int
    last: int


def spans(text: str) -> list[Span]:
    """The functions of a file by their qualified names; a nested function belongs to the outermost one."""
    found: list[Span] = []

    def walk(body: Iterable[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{inside}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(Span(inside + node.name, node.lineno, node.end_lineno or node.lineno))

    walk(ast.parse(text).body, "")
    return found


def located(functions: Sequence[Span], line: int) -> tuple[str, int]:
    """The function a line belongs to, and how far below its first line."""
    for span in functions:
        if span.first <= line <= span.last:
            return span.name, line - span.first
    return MODULE, line


@dataclass(frozen=True)
class Reach:
    """What tests reach: file -> function -> test -> lines within the function; and what each test takes."""

    files: Mapping[str, Mapping[str, Mapping[str, Sequence[int]]]]
    seconds: Mapping[str, float]

    def tests(self, path: str, text: str, line: int, *, most_s: float) -> list[str]:
        """Tests for a fault in this line: those that execute it, the shortest first, as far as the time goes."""
        functions = self.files.get(path, {})
        name, offset = located(spans(text), line)
        inside = functions.get(name, {})
        exact = {test for test, lines in inside.items() if offset in lines}
        if name == MODULE or not inside:  # imported long before, compiled to machine code, or new
            exact = set()
            inside = {test: () for reached in functions.values() for test in reached}
        chosen, spent = [], 0.0
        for test in sorted(inside, key=lambda test: (test not in exact, self.seconds.get(test, 1.0), test)):
            spent += self.seconds.get(test, 1.0)
            if chosen and spent > most_s:
                break
            chosen.append(test)
        return chosen


def together(parts: Iterable[Reach]) -> Reach:
    """What several runs of tests reach, each in files of its own."""
    every = [*parts]
    return Reach(
        {file: functions for part in every for file, functions in part.files.items()},
        {test: seconds for part in every for test, seconds in part.seconds.items()},
    )


def write(path: Path, reach: Reach) -> None:
    """Keep it for later."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"files": reach.files, "seconds": reach.seconds}))


def read(path: Path) -> Reach:
    """What `write` kept."""
    kept = json.loads(path.read_text())
    return Reach(kept["files"], kept["seconds"])


def gather(root: Path, data: Path, times: Path) -> Reach:
    """What a run under coverage (`--cov-context=test`) and its JUnit file (`junit_family=xunit1`) tell."""
    from coverage import CoverageData

    coverage = CoverageData(basename=str(data))
    coverage.read()
    files: dict[str, dict[str, dict[str, list[int]]]] = {}
    for name in coverage.measured_files():
        path = Path(name)
        if not path.is_relative_to(root) or not path.is_file():
            continue
        functions = spans(path.read_text())
        kept = files.setdefault(str(path.relative_to(root)), {})
        for line, contexts in coverage.contexts_by_lineno(name).items():
            function, offset = located(functions, line)
            for test in {context.rpartition("|")[0] for context in contexts} - {""}:
                kept.setdefault(function, {}).setdefault(test, []).append(offset)
    return Reach(files, dict(_seconds(times)))


def _seconds(times: Path) -> Iterable[tuple[str, float]]:
    for case in ET.parse(times).iter("testcase"):  # noqa: S314 - written by our own run
        file, name = case.get("file") or "", case.get("name") or ""
        module = Path(file).with_suffix("").as_posix().replace("/", ".")
        classes = (case.get("classname") or "").removeprefix(module).strip(".").split(".")
        yield "::".join([file, *filter(None, classes), name]), float(case.get("time") or 0)


def measure(root: Path, sources: Sequence[str], tests: Sequence[str], folder: Path, *, jobs: int) -> Reach:
    """Run the tests under coverage and keep what they reach in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    settings, data, times = folder / "coveragerc", folder / "coverage", folder / "times.xml"
    settings.write_text(
        "[run]\nsource =\n" + "".join(f"    {source}\n" for source in sources) + f"data_file = {data}\n"
    )
    options = ["-q", "-n", str(jobs), "--dist", "loadfile", "-m", "not slow and not quiet", "-p", "no:cacheprovider"]
    options += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    options += [f"--junitxml={times}", "-o", "junit_family=xunit1"]
    subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=root, env=os.environ, check=False)
    return gather(root, data, times)


def module_of(root: Path, path: Path) -> str:
    """The dotted name of a file below `src` or `tests`."""
    inside = path.relative_to(root / "src") if path.is_relative_to(root / "src") else path.relative_to(root)
    return ".".join(inside.with_suffix("").parts).removesuffix(".__init__")


def importers_in(root: Path) -> dict[str, set[str]]:
    """Module -> modules that import it, of the sources and the tests."""
    found: dict[str, set[str]] = {}
    for path in (*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.py")):
        name = module_of(root, path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            else:
                continue
            for imported in names:
                found.setdefault(imported, set()).add(name)
    return found


def nearest(importers: Mapping[str, set[str]], module: str) -> list[str]:
    """Files with tests that import a module, directly or through others: the fewest steps first."""
    files, seen, ring = [], {module}, {module}
    while ring:
        ring = {name for each in ring for name in importers.get(each, ())} - seen
        seen |= ring
        tests = (name for name in ring if name.rpartition(".")[2].startswith("test_"))
        files += sorted(f"{name.replace('.', '/')}.py" for name in tests)
    return files


def collected(root: Path, files: Sequence[str]) -> dict[str, list[str]]:
    """The tests in some files, without the slow ones."""
    options = ["--collect-only", "-q", "-m", "not slow and not quiet", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files], cwd=root, capture_output=True, text=True, check=False
    )
    tests: dict[str, list[str]] = {file: [] for file in files}
    for line in done.stdout.splitlines():
        file, colons, _ = line.partition("::")
        if colons and file in tests:
            tests[file].append(line)
    return tests
