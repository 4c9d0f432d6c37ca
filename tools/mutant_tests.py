"""Which tests reach which function: what `mutants.py` runs for a fault, most telling tests first.

What a test reaches is kept by function and by line within the function, so that it stays useful while files change
elsewhere.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
