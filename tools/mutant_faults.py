"""The small faults that `mutants.py` puts into code.

Changed comparisons, operators, constants and branches, and statements left out.
"""

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from mutant_tests import located, spans

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "equivalent.json"
"""Faults (file, function, before, after) that no test can notice, each with the reason."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Fault:
    """A replacement in one file."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str
    function: str = ""
    again: int = 0
    """How many equal faults the function has before this one."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What the fault is, wherever in its file the function has moved to."""
        return str(self.path), self.function, _line(self.before), _line(self.after)

    def rank(self, seed: int) -> str:
        """Its place in the order of a seed, which changes elsewhere don't touch."""
        return hashlib.sha256(repr((seed, self.key, self.again)).encode()).hexdigest()

    def apply(self, text: str) -> str:
        """The file with the fault in it."""
        return text[: self.start] + self.after + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n  - {_line(self.before)}\n  + {_line(self.after)}"


def _line(text: str) -> str:
    return " ".join(text.split())[:140]


class _Sites(ast.NodeVisitor):
    """Collects the faults of one file; annotations, decorators and docstrings are left alone."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.found: list[Fault] = []
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines(keepends=True)

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _put(self, node: ast.expr | ast.stmt, after: str) -> None:
        start = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        self.found.append(Fault(self.path, node.lineno, start, end, self.text[start:end], after))

    def _instead(self, node: ast.expr, other: ast.expr) -> None:
        self._put(node, f"({ast.unparse(ast.fix_missing_locations(ast.copy_location(other, node)))})")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name != "__repr__":
            for statement in node.body:
                self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text for people: other tests judge it."""

    def visit_Compare(self, node: ast.Compare) -> None:
        other = COMPARISONS.get(type(node.ops[0]))
        if other is not None and len(node.ops) == 1:
            self._instead(node, ast.Compare(node.left, [other()], node.comparators))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = OPERATORS.get(type(node.op))
        text = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right))
        if other is not None and not text:
            self._instead(node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._instead(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub) and not isinstance(node.operand, ast.Constant):
            self._instead(node, node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._instead(node, ast.Constant(not node.value))
        elif isinstance(node.value, int | float):
            self._instead(
                node, ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.01)
            )

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in CALLS:
            self._instead(node, ast.Call(ast.Name(CALLS[node.func.id]), node.args, node.keywords))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":  # nothing at run time
            return
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            self._instead(node.test, ast.UnaryOp(ast.Not(), node.test))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._instead(node, ast.IfExp(node.test, node.orelse, node.body))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and not _logs(node.value):
            self._put(node, "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._put(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._put(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._put(node, "break")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _logs(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"debug", "info", "warning", "error", "exception"}


def faults_of(path: Path, text: str) -> list[Fault]:
    """Every fault this tool can put into a file."""
    sites = _Sites(path, text)
    sites.visit(ast.parse(text))
    functions, seen = spans(text), Counter[tuple[str, str, str, str]]()
    numbered = []
    for site in sites.found:
        fault = replace(site, function=located(functions, site.line)[0])
        numbered.append(replace(fault, again=seen[fault.key]))
        seen[fault.key] += 1
    return numbered


def _parses(fault: Fault) -> bool:
    try:
        ast.parse(fault.apply((ROOT / fault.path).read_text()))
    except SyntaxError:
        return False
    return True


def sample(paths: Sequence[Path], count: int, seed: int) -> list[Fault]:
    """Faults spread over the files by their size; a seed keeps a fault for as long as its function has it."""
    pool = [fault for path in paths for fault in faults_of(path.relative_to(ROOT), path.read_text())]
    known = equivalent()
    pool = sorted((fault for fault in pool if fault.key not in known), key=lambda fault: fault.rank(seed))
    return list(islice(filter(_parses, pool), count))


def equivalent() -> dict[tuple[str, str, str, str], str]:
    """The faults that change nothing, with the reason."""
    return {
        (each["file"], each["function"], each["before"], each["after"]): each["reason"]
        for each in json.loads(EQUIVALENT.read_text())
    }
