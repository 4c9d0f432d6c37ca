"""Puts small faults into the code and counts how many the tests notice: `make mutants N=200 SEED=1`.

A fault (`mutant_faults.py`) exists only in the memory of a child process, which runs the tests that reach its line
(`mutant_tests.py`) until one fails. No file changes. The tests are collected once; a child gets the function's other
code, or, for a fault outside every function, imports everything anew. Processes that tests start don't see the fault.
Code that numba compiles runs as Python here. A fault that no test notices is printed as a diff; `equivalent.json`
lists faults that change nothing, each with the reason.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mutant_faults import ROOT, Fault, sample
from mutant_tests import importers_in, module_of, nearest

PACKAGES: dict[str, tuple[str, ...]] = {
    "analyse": (
        "analyse", "copies/test_copies.py", "measure/watch/test_influence.py", "measure/watch/test_totals.py",
        "reporting/test_device_use.py", "devices/nvidia/test_power_sensor.py",
    ),
    "scheduling": ("scheduling", "serving/test_pending.py"),
    "planning/solver": ("planning",),
    "store": ("store", "faults/test_bad_run_folders.py", "faults/test_hostile_names.py", "measure/profile"),
    "serving/http": ("serving",),
    "prediction/contention": ("prediction/contention",),
    "measure/checks": ("measure",),
}  # fmt: skip
"""Where rules live that a wrong number would slip through, and the tests of each, those named first before others."""
COMPILED = ("prediction/contention",)
"""Packages whose loops numba compiles."""
KNOWN = ROOT / "tools" / "known.json"
"""Faults that once went unnoticed, each with its tests."""
KEPT = ROOT / ".venv" / "mutants"
"""Where the knowledge of what tests reach is kept."""
MOST_FILES = 8
"""Files with tests for a changed file: those beside it, then the nearest by imports."""


@dataclass
class Verdict:
    """What came of a fault."""

    fault: Fault
    outcome: str
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


def package_of(path: Path) -> str:
    """The package of a file, or its folder if no faults are sampled there."""
    inside = str((ROOT / path).relative_to(ROOT / "src/cotenant").with_suffix(""))
    return next((package for package in PACKAGES if f"{inside}/".startswith(f"{package}/")), inside.partition("/")[0])


def candidates(package: str = "") -> list[Path]:
    """The files faults go into."""
    rooms = [ROOT / "src/cotenant" / name for name in PACKAGES if name.startswith(package) or package.startswith(name)]
    every = {file for room in rooms for file in (room.rglob("*.py") if room.is_dir() else [room.with_suffix(".py")])}
    return sorted(file for file in every if f"/cotenant/{package}" in str(file))


def changed(since: str) -> Iterator[Path]:
    """Source files that differ from a revision."""
    names = subprocess.run(
        ["git", "diff", "--name-only", "--diff-filter=AM", since, "--", "src/cotenant"],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    yield from (ROOT / name for name in names if name.endswith(".py"))


def tests_of(package: str) -> list[str]:
    """The folders and files with the tests of a package."""
    return [f"tests/{folder}" for folder in PACKAGES[package] if (ROOT / "tests" / folder).exists()]


def nearest_tests(paths: Iterable[Path]) -> list[str]:
    """Files with tests of a few changed files, as far as imports tell."""
    importers, chosen = importers_in(ROOT), dict[str, None]()
    for path in paths:
        folders = tuple(tests_of(package_of(path)))
        files = [file for file in nearest(importers, module_of(ROOT, path)) if file.startswith(folders)]
        beside = f"tests/{path.parent.relative_to(ROOT / 'src/cotenant')}/"
        chosen |= dict.fromkeys(sorted(files, key=lambda file: not file.startswith(beside))[:MOST_FILES])
    return [*chosen]


def known_faults() -> dict[Fault, str]:
    """The faults of `known.json`, and the tests that have to notice each."""
    found = {}
    for entry in json.loads(KNOWN.read_text()):
        text = (ROOT / entry["file"]).read_text()
        if text.count(entry["before"]) != 1:
            raise SystemExit(f"{entry['file']} has changed: tools/known.json looks for {entry['before']!r}, once")
        at = text.index(entry["before"])
        line = text.count("\n", 0, at) + 1
        fault = Fault(Path(entry["file"]), line, at, at + len(entry["before"]), entry["before"], entry["after"])
        found[fault] = entry["tests"]
    return found


def judged(faults: Sequence[Fault], asked: argparse.Namespace) -> Iterator[Verdict]:
    """A verdict for each fault, by a process for compiled packages and another for the rest."""
    numbered, end = dict(enumerate(faults)), time.monotonic() + asked.seconds
    for compiled in (True, False):
        group = {
            number: fault for number, fault in numbered.items() if (package_of(fault.path) in COMPILED) is compiled
        }
        if not group:
            continue
        packages = sorted({package_of(fault.path) for fault in group.values()})
        if asked.tests:
            tests = asked.tests
        elif asked.changed:
            tests = nearest_tests({ROOT / fault.path for fault in group.values()})
        else:
            tests = [*dict.fromkeys(folder for package in packages for folder in tests_of(package))]
        with tempfile.TemporaryDirectory(prefix="cotenant-mutants-") as folder:
            order = Path(folder) / "faults.json"
            order.write_text(
                json.dumps({number: vars(fault) | {"path": str(fault.path)} for number, fault in group.items()})
            )
            kept = KEPT / ("compiled.json" if compiled else "others.json")
            options = {
                "faults": str(order), "tests": tests, "folder": folder, "jobs": asked.jobs, "most_s": asked.tests_s,
                "kept": str(kept), "seconds": max(end - time.monotonic(), 1.0), "fresh": not asked.kept,
            }  # fmt: skip
            child = subprocess.Popen(
                [sys.executable, str(ROOT / "tools" / "mutant_bench.py"), json.dumps(options)], cwd=ROOT,
                stdout=subprocess.PIPE, text=True, env=os.environ | ({"NUMBA_DISABLE_JIT": "1"} if compiled else {}),
            )  # fmt: skip
            with child:
                for line in child.stdout or ():
                    if line.startswith("{"):
                        told = json.loads(line)
                        yield Verdict(numbered[told.pop("number")], **told)
                    elif line.strip():
                        print(line.rstrip(), flush=True)


def main() -> int:
    """Sample, test, and print what survived; exit 1 if fewer than `--least` of the judged faults were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changed", metavar="REV", help="only files that differ from this revision")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing more after this long")
    parser.add_argument("--tests-s", type=float, default=15.0, help="tests for one fault: at most this long without it")
    parser.add_argument("--jobs", type=int, default=2, help="faults judged at the same time")
    parser.add_argument("--least", type=float, default=0.0, help="smallest share that must be noticed")
    parser.add_argument("--package", default="", help="only files below this folder of src/cotenant")
    parser.add_argument("--known", action="store_true", help="the faults of tools/known.json instead of a sample")
    parser.add_argument("--tests", nargs="+", help="files and folders with the tests, instead of the package's")
    parser.add_argument("--kept", action="store_true", help="don't measure again what changed tests reach")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the verdicts")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="only what survived there")
    asked = parser.parse_args()
    files = candidates(asked.package)
    if asked.known:
        by_fault = known_faults()
        faults, asked.tests = [*by_fault], asked.tests or [*dict.fromkeys(by_fault.values())]
    elif asked.changed:
        files = sorted({*files}.intersection(changed(asked.changed)))
        if not files:
            print("no file with such rules has changed")
            return 0
    if not asked.known:
        faults = sample(files, asked.count, asked.seed)
    if asked.survivors:
        left = {tuple(each["key"]) for each in json.loads(asked.survivors.read_text()) if each["outcome"] == "survived"}
        faults = [fault for fault in faults if (*fault.key, fault.again) in left]
    verdicts = []
    for verdict in judged(faults, asked):
        verdicts.append(verdict)
        what = verdict.fault if verdict.outcome == "survived" else verdict.fault.path
        print(
            f"{len(verdicts):4d} {verdict.outcome} ({verdict.tests} tests, {verdict.seconds:.0f} s) {what}", flush=True
        )
    if asked.write:
        asked.write.write_text(json.dumps([_kept(verdict) for verdict in verdicts], indent=1))
    return _told(verdicts, len(faults), asked.least)


def _told(verdicts: Sequence[Verdict], sampled: int, least: float) -> int:
    every = Counter(package_of(verdict.fault.path) for verdict in verdicts)
    noticed = Counter(package_of(verdict.fault.path) for verdict in verdicts if verdict.outcome != "survived")
    for package, count in every.items():
        print(f"{package}: {noticed[package]} of {count}")
    share = noticed.total() / len(verdicts) if verdicts else 1.0
    late = sum(verdict.outcome == "out of time" for verdict in verdicts)
    print(f"{noticed.total()} of {len(verdicts)} noticed ({share:.1%}), {late} of them by tests that no longer ended")
    if len(verdicts) < sampled:
        print(f"{sampled - len(verdicts)} were not judged in time")
    return 0 if share >= least else 1


def _kept(verdict: Verdict) -> dict[str, object]:
    return {
        "key": [*verdict.fault.key, verdict.fault.again], "line": verdict.fault.line, "outcome": verdict.outcome,
        "by": verdict.by, "tests": verdict.tests, "seconds": round(verdict.seconds, 1),
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
