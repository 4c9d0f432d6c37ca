"""Puts small faults into the code and counts how many the tests notice: `make mutants N=200 SEED=1`.

A fault is a changed comparison, operator, constant or branch, or a statement left out. It goes into a copy of `src`,
and the tests that reach its line run against the copy until one fails (`mutant_tests.py` knows which). A fault that no
test notices is printed as a diff. `equivalent.json` lists faults that change nothing, each with the reason.
"""

import argparse
import ast
import compileall
import contextlib
import hashlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import cache_from_source
from itertools import islice
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutant_tests import (
    Reach,
    collected,
    importers_in,
    located,
    measure,
    module_of,
    nearest,
    read,
    spans,
    together,
    write,
)  # fmt: skip

ROOT = Path(__file__).resolve().parent.parent
PACKAGES: dict[str, tuple[str, ...]] = {
    "analyse": ("analyse",),
    "scheduling": ("scheduling",),
    "planning/solver": ("planning",),
    "store": ("store", "faults"),
    "serving/http": ("serving",),
    "prediction/contention": ("prediction", "prediction_sharing"),
    "measure/checks": ("measure",),
}
"""Where rules live that a wrong number would slip through, and the folders with the tests of each."""

EQUIVALENT = ROOT / "tools" / "equivalent.json"
"""Faults (file, function, before, after) that no test can notice, each with the reason."""
KEPT = ROOT / ".venv" / "mutants"
"""Where the knowledge of what tests reach is kept, by package."""
TYPICAL_S = 0.2
"""Of a test whose time isn't known."""
MOST_FILES = 8
"""Files with tests for a changed file, where only imports are known: those beside it, then the nearest."""

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


NOWHERE = "no test"
"""The tests could not even be collected: a fault in what all of them import, or in this tool."""


class Workshop:
    """A copy of `src` that takes one fault at a time."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "src"
        self.failed = folder / "failed"
        """Which test noticed the fault."""
        self._compiled = folder / "compiled"
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(self.source, quiet=2)

    def start(self, fault: Fault | None, tests: Sequence[str], each_s: float) -> int:
        """Run tests against the copy, with a fault in it, in a child process."""
        self.failed.unlink(missing_ok=True)
        shutil.rmtree(self._compiled, ignore_errors=True)
        environment = {"PYTHONPATH": str(self.source)}
        if fault is not None:
            target = self.source / fault.path.relative_to("src")
            target.write_text(fault.apply((ROOT / fault.path).read_text()))
            Path(cache_from_source(str(target))).unlink(missing_ok=True)
            if "numba" in target.read_text():  # machine code is kept by file, whatever it took from others
                environment["NUMBA_CACHE_DIR"] = str(self._compiled)
        child = os.fork()
        if child == 0:
            _run_tests(environment, tests, each_s, self.failed)
        return child

    def mend(self, fault: Fault) -> None:
        """Take the fault out again."""
        shutil.copy(ROOT / fault.path, self.source / fault.path.relative_to("src"))


def _run_tests(environment: dict[str, str], tests: Sequence[str], each_s: float, failed: Path) -> None:
    """In the child: the tests against the copy. Never returns."""
    os.setsid()
    os.chdir(ROOT)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.environ.update(environment)
    sys.path.insert(0, environment["PYTHONPATH"])
    code = -1
    try:
        options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", str(each_s)]
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        code = int(pytest.main([*options, *files], plugins=[_Chosen(tests, failed)]))
    finally:
        os._exit(code)


class _Chosen:
    """In pytest: only these tests, file by file; and which of them failed."""

    def __init__(self, tests: Sequence[str], failed: Path) -> None:
        files = {file: rank for rank, file in enumerate(dict.fromkeys(test.partition("::")[0] for test in tests))}
        self._ranks = {test: (files[test.partition("::")[0]], rank) for rank, test in enumerate(tests)}
        self._failed = failed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (each for each in items if each.nodeid in self._ranks), key=lambda each: self._ranks[each.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.write_text(report.nodeid)


@dataclass
class Verdict:
    """What came of a fault."""

    fault: Fault
    outcome: str = "survived"
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


class Bench:
    """Judges faults, several at a time."""

    def __init__(self, reach: Reach, *, jobs: int, most_s: float) -> None:
        self._reach, self._jobs, self._most_s = reach, jobs, most_s
        self.unfit: set[str] = set()
        """Tests that fail without a fault, at least here."""

    def tests(self, fault: Fault) -> list[str]:
        """What is run for a fault, in this order."""
        path = str(fault.path)
        chosen = self._reach.tests(path, (ROOT / path).read_text(), fault.line, most_s=self._most_s)
        return [test for test in chosen if test not in self.unfit and (ROOT / test.partition("::")[0]).is_file()]

    def judge(self, faults: Sequence[Fault], until: float = float("inf")) -> Iterator[Verdict]:
        """A verdict for each fault, as they become known."""
        waiting = [Verdict(fault) for fault in reversed(faults)]
        with tempfile.TemporaryDirectory(prefix="cotenant-mutants-") as folder:
            free = [Workshop(Path(folder) / str(number)) for number in range(min(self._jobs, len(faults)))]
            busy: dict[int, tuple[Workshop, Verdict, float]] = {}
            while waiting or busy:
                while waiting and free and time.monotonic() < until:
                    verdict, shop = waiting.pop(), free.pop()
                    tests = self.tests(verdict.fault)
                    verdict.tests, usual = len(tests), sum(self._reach.seconds.get(test, 1.0) for test in tests)
                    if not tests:
                        free.append(shop)
                        yield verdict
                        continue
                    now, longest = time.monotonic(), max(self._reach.seconds.get(test, 1.0) for test in tests)
                    child = shop.start(verdict.fault, tests, 20 + 10 * longest)
                    busy[child] = shop, verdict, now
                    verdict.seconds = 60 + 10 * usual
                if not busy:
                    return
                time.sleep(0.02)
                for child in [*busy]:
                    shop, verdict, began = busy[child]
                    ended, status = os.waitpid(child, os.WNOHANG)
                    spent = time.monotonic() - began
                    if not ended and spent < verdict.seconds:
                        continue
                    _sweep(child, ended)
                    del busy[child]
                    shop.mend(verdict.fault)
                    verdict.seconds = spent
                    if not ended:
                        verdict.outcome = "out of time"
                    elif os.waitstatus_to_exitcode(status) not in {0, 5}:
                        verdict.outcome = "noticed"
                        verdict.by = shop.failed.read_text() if shop.failed.exists() else NOWHERE
                    free.append(shop)
                    yield verdict

    def fail_anyway(self, tests: Iterable[str]) -> set[str]:
        """Which of these tests, or files that can't be collected, fail without a fault."""
        wrong: set[str] = set()
        left = sorted(set(tests) - {NOWHERE}) or ["tests/packaging/test_mutants.py"]
        with tempfile.TemporaryDirectory(prefix="cotenant-mutants-") as folder:
            shop = Workshop(Path(folder) / "0")
            while left:
                child = shop.start(None, left, 300)
                _, status = os.waitpid(child, 0)
                _sweep(child, child)
                if os.waitstatus_to_exitcode(status) in {0, 5}:
                    return wrong
                if not shop.failed.exists():
                    raise SystemExit("pytest fails before it runs a test, without any fault")
                name = shop.failed.read_text()
                wrong.add(name)
                left = [test for test in left if test != name]
        return wrong


def _sweep(child: int, ended: int) -> None:
    """End what the tests of a child have left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        os.waitpid(child, 0)


def changed(since: str) -> Iterator[Path]:
    """Source files that differ from a revision."""
    names = subprocess.run(
        ["git", "diff", "--name-only", "--diff-filter=AM", since, "--", "src/cotenant"],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    yield from (ROOT / name for name in names if name.endswith(".py"))


def candidates(package: str = "") -> list[Path]:
    """The files faults go into."""
    rooms = [ROOT / "src/cotenant" / name for name in PACKAGES if name.startswith(package) or package.startswith(name)]
    every = {file for room in rooms for file in (room.rglob("*.py") if room.is_dir() else [room.with_suffix(".py")])}
    return sorted(file for file in every if f"/{package}" in str(file))


def reached(package: str, jobs: int, *, kept: bool) -> Reach:
    """What the tests of a package reach; measured again if one has changed since, unless what is ``kept`` will do."""
    file = KEPT / f"{package.replace('/', '-')}.json"
    folders = [folder for folder in PACKAGES[package] if (ROOT / "tests" / folder).is_dir()]
    newest = max(test.stat().st_mtime for folder in folders for test in (ROOT / "tests" / folder).rglob("*.py"))
    if not file.is_file() or (not kept and file.stat().st_mtime < newest):
        source = Path("src/cotenant", package).parent if _is_file(package) else Path("src/cotenant", package)
        write(file, measure(ROOT, [str(source)], [f"tests/{folder}" for folder in folders], KEPT, jobs=jobs))
    return read(file)


def named(paths: Iterable[Path]) -> Reach:
    """What tests reach as far as imports tell, found in seconds: for a few faults in files that have changed."""
    owners = {path: next(package for package in PACKAGES if _holds(package, path)) for path in paths}
    importers = importers_in(ROOT)
    chosen = {}
    for path, owner in owners.items():
        files = [file for file in nearest(importers, module_of(ROOT, path)) if file.split("/")[1] in PACKAGES[owner]]
        beside = f"tests/{path.parent.relative_to(ROOT / 'src/cotenant')}/"
        chosen[str(path.relative_to(ROOT))] = sorted(files, key=lambda file: not file.startswith(beside))[:MOST_FILES]
    ids = collected(ROOT, sorted({file for files in chosen.values() for file in files}))
    functions = {
        path: {"": {test: [] for file in files for test in ids[file]}} for path, files in chosen.items() if files
    }
    return Reach(functions, {test: TYPICAL_S for tests in ids.values() for test in tests})


def _holds(package: str, path: Path) -> bool:
    return str(path.relative_to(ROOT / "src/cotenant").with_suffix("")).startswith(package)


def _is_file(package: str) -> bool:
    return not (ROOT / "src/cotenant" / package).is_dir()


def main() -> int:
    """Sample, test, and print what survived; exit 1 if fewer than `--least` of the judged faults were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", metavar="K/N", help="only every Nth fault of the sample, from the Kth")
    parser.add_argument("--changed", metavar="REV", help="only files that differ from this revision")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing more after this long")
    parser.add_argument("--tests-s", type=float, default=15.0, help="tests for one fault: at most this long without it")
    parser.add_argument("--jobs", type=int, default=2, help="faults judged at the same time")
    parser.add_argument("--least", type=float, default=0.0, help="smallest share that must be noticed")
    parser.add_argument("--package", default="", help="only files below this folder of src/cotenant")
    parser.add_argument("--kept", action="store_true", help="don't measure again what the tests reach")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the verdicts")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="only what survived there")
    asked = parser.parse_args()
    begin = time.monotonic()
    files = candidates(asked.package)
    if asked.changed:
        files = sorted({*files}.intersection(changed(asked.changed)))
        if not files:
            print("no file with such rules has changed")
            return 0
        reach = named(files)
    else:
        packages = [package for package in PACKAGES if any(_holds(package, file) for file in files)]
        reach = together(reached(package, asked.jobs, kept=asked.kept) for package in packages)
    bench = Bench(reach, jobs=asked.jobs, most_s=asked.tests_s)
    faults = sample(files, asked.count, asked.seed)
    if asked.survivors:
        left = {tuple(each["key"]) for each in json.loads(asked.survivors.read_text()) if each["outcome"] == "survived"}
        faults = [fault for fault in faults if (*fault.key, fault.again) in left]
    part, parts = map(int, asked.part.split("/"))
    faults = faults[part - 1 :: parts]
    _load()
    verdicts = [*_told(bench, faults, begin + asked.seconds)]
    while wrong := bench.fail_anyway({verdict.by for verdict in verdicts if verdict.by}):
        print("fail without a fault:", *sorted(wrong), sep="\n  ")
        bench.unfit |= wrong
        doubted = [verdict.fault for verdict in verdicts if verdict.by in wrong]
        verdicts = [verdict for verdict in verdicts if verdict.by not in wrong] + [*_told(bench, doubted)]
    if asked.write:
        asked.write.write_text(json.dumps([_kept(verdict) for verdict in verdicts], indent=1))
    noticed = sum(verdict.outcome != "survived" for verdict in verdicts)
    share = noticed / len(verdicts) if verdicts else 1.0
    late = sum(verdict.outcome == "out of time" for verdict in verdicts)
    print(f"{noticed} of {len(verdicts)} noticed ({share:.1%}), {late} of them by tests that no longer ended")
    return 0 if share >= asked.least else 1


def _load() -> None:
    """Import once what each child would import again."""
    for name in ("duckdb", "numba", "numpy", "pyarrow.parquet", "scipy.stats", "torch", "yaml"):
        importlib.import_module(name)


def _told(bench: Bench, faults: Sequence[Fault], until: float = float("inf")) -> Iterator[Verdict]:
    for number, verdict in enumerate(bench.judge(faults, until), 1):
        fault = verdict.fault if verdict.outcome == "survived" else verdict.fault.path
        print(f"{number:4d} {verdict.outcome} ({verdict.tests} tests, {verdict.seconds:.0f} s) {fault}", flush=True)
        yield verdict


def _kept(verdict: Verdict) -> dict[str, object]:
    return {
        "key": [*verdict.fault.key, verdict.fault.again], "line": verdict.fault.line, "outcome": verdict.outcome,
        "by": verdict.by, "tests": verdict.tests, "seconds": round(verdict.seconds, 1),
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
