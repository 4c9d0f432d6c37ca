"""Carries attempts out, each in a process of its own, and holds every one to the same property.

Any bytes in any file: exit 0 (with equal output where a seal or a checksum guards the file), or exit 1 with one
sentence, or exit 2 with a sentence that says what was left out; within 20 s and 1 GiB, and never a traceback.
"""

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.storm.cases import Case, corpus, draw

LONGEST_S = 20
"""Of the CPU: a machine that runs other tests too takes longer on the wall."""
MEMORY_BYTES = 1 << 30
"""That an attempt may really use. What it may reserve is four times as much: threads and heaps reserve far more."""
REFUSED = ("Traceback", "should not have happened", "Fatal Python error", "terminate called")


@dataclass
class Tally:
    """Attempts by kind, and what failed."""

    tried: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    code: int
    out: str
    err: str
    peak_bytes: int = 0


def storm(seconds: float, seed: int) -> Tally:
    """Attempts for so long. The same seed gives the same attempts in the same order."""
    tally = Tally()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="storm-") as room:
        whole = Path(room) / "whole"
        whole.mkdir()
        _alone(lambda: corpus(whole), Path(room))
        expected: dict[tuple[str, ...], Ended] = {}
        attempt = 0
        while time.monotonic() < end:
            folder = Path(room) / "attacked"
            case = draw(whole, folder, random.Random(f"{seed}/{attempt}"))
            if case.sealed:
                key = tuple(case.arguments)
                if key not in expected:
                    shutil.rmtree(folder)
                    shutil.copytree(whole, folder)
                    expected[key] = run(case, Path(room))
                    shutil.rmtree(folder)
                    draw(whole, folder, random.Random(f"{seed}/{attempt}"))
            ended = run(case, Path(room))
            tally.tried[case.kind] += 1
            if problem := wrong(case, ended, expected.get(tuple(case.arguments))):
                tally.findings.append(
                    f"seed {seed}, attempt {attempt}, {case.kind}: {problem}: {case.arguments}\n{ended}"
                )
            shutil.rmtree(folder)
            attempt += 1
    return tally


def wrong(case: Case, ended: Ended, whole: Ended | None) -> str | None:  # noqa: PLR0911  (one return per rule)
    """What is wrong with the way an attempt ended, if anything is."""
    said = ended.out + ended.err
    if any(words in said for words in REFUSED):
        return "not a sentence"
    if ended.peak_bytes > MEMORY_BYTES:
        return f"{ended.peak_bytes >> 20} MiB of memory"
    if ended.code < 0:
        return f"killed by {signal.Signals(-ended.code).name}"
    if ended.code == 1 and case.arguments[0] == "verify":
        return None
    if ended.code == 1:
        return None if ended.err.lstrip().startswith(("error:", "warning:")) else "no sentence"
    if ended.code == 2 and case.sealed and case.kind == "run folder":
        whole_code = whole is not None and whole.code == 2
        return None if whole_code or "left out" in ended.err or "missing" in ended.err else "exit 2 without a word"
    if case.sealed and whole is not None and (ended.code, ended.out) != (whole.code, whole.out):
        return "another answer without a word"
    return None if ended.code in {0, 2, 3} else f"exit code {ended.code}"


def run(case: Case, room: Path) -> Ended:
    """One command line in a fork of this process, with limits of time and memory."""

    def body() -> int:
        from cotenant.cli.main import main

        os.environ.update(NO_COLOR="1", COLUMNS="200", HOME=str(room), XDG_CACHE_HOME=str(room / "cache"))
        os.environ.pop("COTENANT_DEBUG", None)
        os.chdir(room)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + 4 * MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S + 1))
        signal.alarm(6 * LONGEST_S)  # one that waits for something uses no time of the CPU
        return main(case.arguments)

    return _alone(body, room)


def _alone(body: object, room: Path) -> Ended:
    out, err = room / "out.txt", room / "err.txt"
    child = os.fork()
    if child == 0:
        code = 99
        try:
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            code = body() or 0  # type: ignore[operator]
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:  # noqa: BLE001  (a child must never come back)
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
    return Ended(os.waitstatus_to_exitcode(status), *texts, peak_bytes=used.ru_maxrss * 1024)


def main() -> int:
    """`python -m tests.storm.storming SECONDS [SEED]`: a longer one, with its tally as a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1800.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    _import_everything()
    tally = storm(seconds, seed)
    print(f"seed {seed}, {seconds:.0f} s\n\n| attacked | tried |\n|---|---|")  # noqa: T201
    for kind, count in sorted(tally.tried.items()):
        print(f"| {kind} | {count} |")  # noqa: T201
    print(f"\n{len(tally.findings)} findings")  # noqa: T201
    for finding in tally.findings:
        print(finding)  # noqa: T201
    return 1 if tally.findings else 0


def _import_everything() -> None:
    """Once, so that each attempt only costs a fork; no thread is started by that."""
    import importlib

    names = ("numpy", "duckdb", "pydantic", "yaml", "rich.console", "rich.table", "scipy.special", "scipy.stats")
    verbs = ("compare", "db", "explain", "export", "plan", "run", "show", "sql", "verify")
    mine = [f"cotenant.{room}.{verb}" for room in ("api", "cli") for verb in verbs]
    inner = ("store.observe", "store.evidence", "store.integrity", "study.files", "study.forecast", "study.expand",
             "analyse.sharing.summary", "analyse.comparison.pair", "reporting.terminal.tables", "store.imports",
             "store.database.database", "measure.plan", "devices.simulated.device", "workloads")  # fmt: skip
    for name in (*names, "cotenant.cli.main", *mine, *(f"cotenant.{name}" for name in inner)):
        importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(main())
