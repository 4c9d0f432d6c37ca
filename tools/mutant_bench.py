"""Judges faults for `mutants.py`: collects tests once, then forks a child for each fault.

Prints a verdict per line as JSON. Only tests that pass without a fault count.
"""

import contextlib
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

sys.path.insert(0, str(Path(__file__).parent))
from mutant_faults import ROOT, Fault
from mutant_tests import MODULE, Reach, located, module_of, spans

OPTIONS = [
    "-q",
    "-x",
    "-m",
    "not slow and not quiet and not long and not storm",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--no-header",
]
OPTIONS += ["-W", "ignore:overflow encountered:RuntimeWarning"] * ("NUMBA_DISABLE_JIT" in os.environ)
NOTICED, SURVIVED = 1, 0
REACH_SHARE = 0.4
"""Of the time: at most this goes into measuring what tests reach; tests that aren't measured don't run."""
LONGEST_FILE_S = 100.0
"""What tests reach that come later in a file isn't measured."""


@dataclass
class Job:
    """A child process: what it does, and until when it may."""

    work: Callable[[Path], int]
    done: Callable[[int | None, Path, float], None]
    most_s: float


class Children:
    """Runs jobs in forked children, several at a time; each has a folder of its own for temporary files."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder, self._jobs, self._count, self._parent = folder, jobs, 0, os.getppid()

    def run(self, jobs: Iterable[Job]) -> None:
        """Do all of them."""
        waiting, busy = iter(jobs), dict[int, tuple[Job, Path, float]]()
        while True:
            while len(busy) < self._jobs and (job := next(waiting, None)) is not None:
                self._count += 1
                own = self._folder / str(self._count)
                own.mkdir()
                busy[_forked(job.work, own)] = job, own, time.monotonic()
            if not busy:
                return
            if os.getppid() != self._parent:  # whoever asked is gone
                for child in busy:
                    os.killpg(child, signal.SIGKILL)
                os._exit(1)
            time.sleep(0.005)
            for child, (job, own, began) in [*busy.items()]:
                ended, status = os.waitpid(child, os.WNOHANG)
                spent = time.monotonic() - began
                if not ended and spent < job.most_s:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                if not ended:
                    os.waitpid(child, 0)
                del busy[child]
                job.done(os.waitstatus_to_exitcode(status) if ended else None, own, spent)
                shutil.rmtree(own, ignore_errors=True)


def _forked(work: Callable[[Path], int], own: Path) -> int:
    child = os.fork()
    if child:
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(child, child)
        return child
    code = NOTICED
    try:
        with contextlib.suppress(PermissionError):
            os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        code = work(own)
    finally:
        os._exit(code)


class Bench:
    """A plugin of pytest that takes the place of running the tests."""

    def __init__(self, faults: Mapping[int, Fault], options: Mapping[str, Any]) -> None:
        self._faults, self._options = faults, options
        self._children = Children(Path(options["folder"]), options["jobs"])
        self._kept = Path(options["kept"])
        self.until = time.monotonic() + options["seconds"]
        self.outside: list[tuple[int, Fault, list[str]]] = []
        """Faults outside every function, with the tests for each."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge every fault that a function's code can take."""
        for fault in self._faults.values():
            importlib.import_module(module_of(ROOT, ROOT / fault.path))
        # By type: proxies pretend to be something else.
        for cached in [each for each in gc.get_objects() if type(each) is _lru_cache_wrapper]:
            if str(getattr(cached, "__module__", "")).startswith("cotenant"):
                cached.cache_clear()
        items = {item.nodeid: item for item in session.items}
        reach = self._reach(items)
        functions = _functions()
        gc.freeze()
        self._children.run(self._jobs(items, reach, functions))
        return True

    def _jobs(
        self,
        items: Mapping[str, pytest.Item],
        reach: Reach,
        functions: Mapping[tuple[str, str, int], list[FunctionType]],
    ) -> Iterator[Job]:
        for number, fault in self._faults.items():
            text = (ROOT / fault.path).read_text()
            if text[fault.start : fault.end] != fault.before:  # the file has changed meanwhile
                continue
            tests = [
                test
                for test in reach.tests(str(fault.path), text, fault.line, most_s=self._options["most_s"])
                if test in items
            ]
            if not tests:
                tell(number, SURVIVED, "", 0, 0.0)
                continue
            other = _other_code(fault, text, functions)
            if other is None:
                self.outside.append((number, fault, tests))
                continue
            if time.monotonic() > self.until:
                return
            usual = sum(reach.seconds.get(test, 1.0) for test in tests)

            def work(
                own: Path,
                chosen: Sequence[pytest.Item] = [items[test] for test in tests],
                other: Sequence[tuple[FunctionType, CodeType]] = other,
            ) -> int:
                for function, code in other:
                    function.__code__ = code
                return _run(chosen, own)

            yield Job(work, _telling(number, len(tests)), 30 + 10 * usual)

    def _reach(self, items: Mapping[str, pytest.Item]) -> Reach:
        """What the tests reach; only files of tests that have changed are run for it."""
        kept = json.loads(self._kept.read_text()) if self._kept.is_file() else {}
        files: dict[str, list[pytest.Item]] = {}
        for test, item in items.items():
            files.setdefault(test.partition("::")[0], []).append(item)
        stamps = {file: hashlib.sha256((ROOT / file).read_bytes()).hexdigest() for file in files}
        missing = [
            file
            for file in files
            if file not in kept or (self._options["fresh"] and kept[file]["stamp"] != stamps[file])
        ]

        def job(file: str) -> Job:
            def done(code: int | None, own: Path, _: float) -> None:
                told = own / "reach.json"
                learnt = json.loads(told.read_text()) if told.is_file() else {"files": {}, "seconds": {}}
                if code != 0:
                    print(f"what {file} reaches is not known: {code}", flush=True)
                kept[file] = learnt | {"stamp": stamps[file]}
                self._keep({file: kept[file]})

            return Job(lambda own: _measured(files[file], own), done, min(600.0, share))

        began, share = time.monotonic(), REACH_SHARE * self._options["seconds"]
        self._children.run(job(file) for file in missing if time.monotonic() - began < share)
        merged: dict[str, dict[str, dict[str, list[int]]]] = {}
        seconds: dict[str, float] = {}
        for file in files.keys() & kept.keys():
            seconds |= kept[file]["seconds"]
            for source, found in kept[file]["files"].items():
                for function, tests in found.items():
                    merged.setdefault(source, {}).setdefault(function, {}).update(tests)
        return Reach(merged, seconds)

    def _keep(self, learnt: Mapping[str, Any]) -> None:
        """Add it to what is known, at once: measuring may be cut off."""
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        others = json.loads(self._kept.read_text()) if self._kept.is_file() else {}
        self._kept.with_suffix(".new").write_text(json.dumps(others | learnt))
        self._kept.with_suffix(".new").replace(self._kept)


def _functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """The functions of the package in memory, by file, name and line."""
    known: dict[tuple[str, str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and "/cotenant/" in each.__code__.co_filename:
            code = each.__code__
            known.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(each)
    return known


def _other_code(
    fault: Fault, text: str, functions: Mapping[tuple[str, str, int], list[FunctionType]]
) -> list[tuple[FunctionType, CodeType]] | None:
    """The functions that a fault is in, each with its other code; None for a fault outside every function."""
    name = located(spans(text), fault.line)[0]
    if name == MODULE:
        return None
    file = str(ROOT / fault.path)
    last = {span.name: span for span in spans(text) if span.first <= fault.line <= span.last}[name]
    changed = []
    for code in _codes(compile(fault.apply(text), file, "exec")):
        if code.co_qualname == name and code.co_firstlineno <= fault.line <= last.last:
            changed += [(function, code) for function in functions.get((file, name, code.co_firstlineno), [])]
    if any(len(function.__code__.co_freevars) != len(code.co_freevars) for function, code in changed):
        return None
    return changed or None


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _run(items: Sequence[pytest.Item], own: Path) -> int:
    """Run tests until one fails."""
    _prepare(items[0].config, own)
    for item, later in zip(items, [*items[1:], None], strict=True):
        for report in runtestprotocol(item, log=False, nextitem=later):
            if report.failed:
                (own / "by").write_text(item.nodeid)
                return NOTICED
    return SURVIVED


def _prepare(config: pytest.Config, own: Path) -> None:
    factory = config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001
    factory._given_basetemp, factory._basetemp = own / "tmp", None  # noqa: SLF001


def _measured(items: Sequence[pytest.Item], own: Path) -> int:
    """Run the tests of a file, and keep what each reaches, if it passes, and how long it takes."""
    from coverage import Coverage

    _prepare(items[0].config, own)
    watching = Coverage(data_file=None, include=[f"{ROOT}/src/cotenant/*"], config_file=False, messages=False)
    seconds, began = {}, time.monotonic()
    watching.start()
    for item, later in zip(items, [*items[1:], None], strict=True):
        if time.monotonic() - began > LONGEST_FILE_S:
            break
        watching.switch_context(item.nodeid)
        reports = runtestprotocol(item, log=False, nextitem=later)
        if all(report.passed for report in reports):
            seconds[item.nodeid] = round(sum(report.duration for report in reports), 4)
    watching.stop()
    data = watching.get_data()
    files: dict[str, dict[str, dict[str, list[int]]]] = {}
    for name in data.measured_files():
        if not name.endswith(".py"):  # a template is measured too
            continue
        functions = spans(Path(name).read_text())
        kept = files.setdefault(str(Path(name).relative_to(ROOT)), {})
        for line, contexts in data.contexts_by_lineno(name).items():
            function, offset = located(functions, line)
            for test in seconds.keys() & set(contexts):
                kept.setdefault(function, {}).setdefault(test, []).append(offset)
    (own / "reach.json").write_text(json.dumps({"files": files, "seconds": seconds}))
    return 0


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports one file with a fault in it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(module_of(ROOT, ROOT / fault.path), str(ROOT / fault.path))
        self._fault = fault

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> Any:  # noqa: ARG002
        if name != self.name:
            return None
        inside = [str(Path(self.path).parent)] if Path(self.path).name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, self.path, loader=self, submodule_search_locations=inside)

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return compile(self._fault.apply((ROOT / self._fault.path).read_text()), self.path, "exec")


class _Chosen:
    """In pytest: only these tests, in this order."""

    def __init__(self, tests: Sequence[str], own: Path) -> None:
        self._ranks, self._own = {test: rank for rank, test in enumerate(tests)}, own

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._ranks), key=lambda item: self._ranks[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            (self._own / "by").write_text(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport


def judge_outside(bench: Bench, folder: Path, jobs: int) -> None:
    """Judge faults outside every function: the child imports everything anew."""

    def work(own: Path, fault: Fault, tests: Sequence[str]) -> int:
        sys.meta_path.insert(0, _Changed(fault))
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        code = pytest.main([*OPTIONS, "--basetemp", str(own / "tmp"), *files], plugins=[_Chosen(tests, own)])
        return SURVIVED if int(code) in {0, 5} else NOTICED

    for name in ("duckdb", "numba", "numpy", "pyarrow.parquet", "scipy.stats", "torch", "yaml"):
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in {"cotenant", "tests"}]:
        del sys.modules[name]
    Children(folder, jobs).run(
        Job(lambda own, fault=fault, tests=tests: work(own, fault, tests), _telling(number, len(tests)), 300)  # type: ignore[misc]
        for number, fault, tests in bench.outside
        if time.monotonic() < bench.until
    )


def _telling(number: int, tests: int) -> Callable[[int | None, Path, float], None]:
    def done(code: int | None, own: Path, spent: float) -> None:
        by = own / "by"
        tell(number, code, by.read_text() if by.is_file() else "", tests, spent)

    return done


def tell(number: int, code: int | None, by: str, tests: int, seconds: float) -> None:
    """Print a verdict."""
    outcome = "out of time" if code is None else "survived" if code == SURVIVED else "noticed"
    print(
        json.dumps({"number": number, "outcome": outcome, "by": by, "tests": tests, "seconds": seconds}),
        flush=True,
    )


def main() -> None:
    """Judge the faults that the argument describes."""
    options = json.loads(sys.argv[1])
    faults = {
        int(number): Fault(**fault | {"path": Path(fault["path"])})
        for number, fault in json.loads(Path(options["faults"]).read_text()).items()
    }
    folder = Path(options["folder"])
    bench = Bench(faults, options)
    pytest.main([*OPTIONS, "-s", *options["tests"]], plugins=[bench])
    if bench.outside:
        (folder / "outside").mkdir()
        judge_outside(bench, folder / "outside", options["jobs"])


if __name__ == "__main__":
    main()
