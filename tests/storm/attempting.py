"""One attempt: a command line in a fork of this process, with limits on time and memory, and its last output."""

import contextlib
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import pace

LONGEST_S = 20
"""CPU seconds: a busy machine takes longer on the wall."""
MEMORY_BYTES = 1 << 30
"""Memory an attempt may use. It may reserve four times as much, as threads and heaps reserve far more."""
REFUSED = ("Traceback", "should not have happened", "Fatal Python error", "terminate called")


@dataclass
class Tally:
    """Attempts by kind, and failures."""

    tried: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    code: int
    out: str
    err: str
    peak_bytes: int = 0


def run(
    arguments: list[str],
    room: Path,
    *,
    first: Callable[[], None] = lambda: None,
    last: Callable[[], None] = lambda: None,
    meanwhile: Callable[[int, Path], None] = lambda _pid, _out: None,
) -> Ended:
    """Run one command line; `first` and `last` are called in its process, `meanwhile` in this one while it runs."""

    def body() -> int:
        from cotenant.cli.guarded import guarded
        from cotenant.cli.main import main

        os.environ.update(NO_COLOR="1", COLUMNS="200", HOME=str(room), XDG_CACHE_HOME=str(room / "cache"),
                          COTENANT_LOCKS=str(room / "locks"))  # fmt: skip
        os.environ.pop("COTENANT_DEBUG", None)
        os.chdir(room)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + 4 * MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S + 1))
        signal.alarm(20 * LONGEST_S)  # a waiting process uses no CPU time
        first()
        own = os.getpid()
        code = guarded(lambda: main(arguments))
        if os.getpid() == own:
            last()
        return code

    return alone(body, room, meanwhile)


def alone(
    body: Callable[[], object], room: Path, meanwhile: Callable[[int, Path], None] = lambda _pid, _out: None
) -> Ended:
    """Call a function in a fork, and report how it ended."""
    out, err = room / "out.txt", room / "err.txt"
    for path in (out, err):
        path.write_bytes(b"")
    child = os.fork()
    if child == 0:
        code = 99
        try:
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_TRUNC), number)
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            found = body()
            code = found if isinstance(found, int) else 0
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:  # noqa: BLE001  (a child must never come back)
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    meanwhile(child, out)
    _, status, used = os.wait4(child, 0)
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
    return Ended(os.waitstatus_to_exitcode(status), *texts, peak_bytes=used.ru_maxrss * 1024)


def badly_ended(ended: Ended) -> str | None:
    """What no attempt may do, whatever was attacked."""
    if any(words in ended.out + ended.err for words in REFUSED):
        return "not a sentence"
    if any(not letter.isprintable() and letter not in "\n\t\r" for letter in ended.err):
        return "a control character on stderr"
    if ended.peak_bytes > MEMORY_BYTES:
        return f"{ended.peak_bytes >> 20} MiB of memory"
    if "the limit of CPU time" in ended.err:
        return f"more than {LONGEST_S} s"
    if ended.code < 0:
        return f"killed by {signal.Signals(-ended.code).name}"
    return None


def line_of(path: Path, child: int, within_s: float = 180.0) -> str:
    """The first line a child wrote to a file; empty if it ended or took too long."""
    give_up = time.monotonic() + pace.seconds(within_s)
    while time.monotonic() < give_up:
        text = path.read_text(encoding="utf-8", errors="replace")
        if "\n" in text:
            return text.partition("\n")[0]
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return ""
        time.sleep(0.01)
    return ""


def import_everything(*, models: bool = True) -> None:
    """Import once, so that each attempt only costs a fork; this starts no threads. Models need torch."""
    import importlib

    names = ("numpy", "duckdb", "pydantic", "yaml", "rich.console", "rich.table", "scipy.special", "scipy.stats",
             "PIL.Image")  # fmt: skip
    verbs = ("compare", "db", "explain", "export", "plan", "report", "run", "search", "serve", "show", "sql", "verify")
    mine = [f"cotenant.{room}.{verb}" for room in ("api", "cli") for verb in verbs]
    inner = ("store.observe", "store.evidence", "store.integrity", "study.files", "study.run_forecast", "study.expand",
             "analyse.sharing.summarise", "analyse.comparison.pair", "reporting.results.measured", "store.imports",
             "store.database.database", "measure.run_plan", "devices.simulated.simulated_gpu", "workloads")  # fmt: skip
    for name in (
        *names,
        *(["torch"] if models else []),
        "cotenant.cli.main",
        *mine,
        *(f"cotenant.{name}" for name in inner),
    ):
        with contextlib.suppress(ModuleNotFoundError):  # a file that has moved is imported by whoever needs it
            importlib.import_module(name)
