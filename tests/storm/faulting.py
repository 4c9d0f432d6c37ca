"""Make one C library call fail in the middle of a command line, for any call of it.

The process that forks the attempts has the shim loaded; each fork arms it after all imports. A fault ends in the same
answer or in one sentence with exit code 1, and in a complete result or none.
"""

import ctypes
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.storm import attempting
from tests.storm.attempting import Ended, Tally
from tests.storm.cases import corpus
from tests.support import pace

SHIM = Path(__file__).with_name("shim.c")
CALLS = {
    "open": (errno.EMFILE, errno.EIO, errno.ENOMEM),
    "read": (errno.EIO,),
    "write": (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT),
    "mmap": (errno.ENOMEM,),
    "memory": (errno.ENOMEM,),
    "fork": (errno.EAGAIN, errno.ENOMEM),
    "sync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC),
}
"""Each call, and its possible errors."""
LEAST = 8
"""Minimum faults on a slow machine."""
MEASURED = """name: faults
tenants:
  a: {workload: sleep, params: {ms: 2}}
mixes: [solo]
window: 200ms
lead: 20ms
blocks: 1
"""
SIMULATED = """name: faults
device: sim:t4
tenants:
  a: {workload: sgemm, params: {size: 512}}
  b: {workload: sgemm, params: {size: 1024}}
mixes: [pairs]
window: 200ms
blocks: 2
"""
SERVED = "device: sim:t4\ntenants:\n  bert: {workload: bert-base-mini, slo: 500ms}\n"
INFER = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 4], "data": [9, 10, 11, 12]}]}


@dataclass(frozen=True, slots=True)
class Line:
    """A command line, and a check of what it leaves behind."""

    verb: str
    words: str
    same_answer: bool
    """Exit 0 means the output of a line without a fault."""
    left_behind: Callable[[Path, Ended], str | None] = lambda _room, _ended: None
    meanwhile: Callable[[int, Path], None] = lambda _pid, _out: None


def _page(room: Path, ended: Ended) -> str | None:
    page = room / "page.html"
    if not page.exists():
        return "no page" if ended.code == 0 else None
    whole = page.read_text().rstrip().endswith("</html>")
    return None if whole else "half a page"


def _database(room: Path, ended: Ended) -> str | None:
    """Old and new contents can be read, and adding again completes them."""
    again = attempting.run(f"db add {room}/run {room}/smi.csv --db {room}/new".split(), room)
    shown = attempting.run(f"db --db {room}/new --json".split(), room)
    if again.code or shown.code:
        return f"the database is unusable: {again.err}{shown.err}"
    return None if len(json.loads(shown.out)["sources"]) == 2 else f"sources are missing or doubled: {shown.out}"


def _runs(room: Path, ended: Ended) -> str | None:
    for manifest in room.glob("runs/*/*/manifest.json"):
        checked = attempting.run(["verify", str(manifest.parent)], room)
        if checked.code:
            return f"the run is damaged: {checked.out}{checked.err}"
    return None


def ask(child: int, out: Path) -> None:
    """Send a few requests to the starting server, then stop it."""
    url = attempting.line_of(out, child)
    for _ in range(3 if url else 0):
        try:
            request = urllib.request.Request(f"{url}/v2/models/bert/infer", json.dumps(INFER).encode())
            with urllib.request.urlopen(request, timeout=pace.seconds(10)) as answer:
                answer.read()
        except OSError:
            continue
    if url:
        time.sleep(0.2)  # some of the traffic is written meanwhile
    os.kill(child, signal.SIGTERM)


LINES = (
    Line("show", "show FOLDER/run", same_answer=True),
    Line("report", "report FOLDER/run --out FOLDER/page.html", same_answer=False, left_behind=_page),
    Line("db add", "db add FOLDER/run FOLDER/smi.csv --db FOLDER/new", same_answer=True, left_behind=_database),
    Line("run, simulated", "run FOLDER/simulated.yaml --out FOLDER/runs -q", same_answer=False, left_behind=_runs),
    Line("run", "run FOLDER/measured.yaml --out FOLDER/runs -q", same_answer=False, left_behind=_runs),
    Line("serve", "serve FOLDER/served.yaml --port 0 --record FOLDER/runs", same_answer=False, left_behind=_runs,
         meanwhile=ask),
)  # fmt: skip


def wrong(line: Line, ended: Ended, whole: Ended, room: Path) -> str | None:
    """What is wrong with the way a line ended, if anything."""
    if problem := attempting.badly_ended(ended):
        return problem
    if ended.code == 1:
        said = [one for one in ended.err.splitlines() if one.startswith("error: ")]
        return line.left_behind(room, ended) if len(said) == 1 else "not one sentence"
    if ended.code not in {whole.code, 2}:
        return f"exit code {ended.code}"
    if line.same_answer and ended.code == whole.code and ended.out != whole.out:
        return "a different answer without a message"
    return line.left_behind(room, ended)


def storm(seconds: float, seed: int, shim: ctypes.CDLL) -> Tally:
    """Inject faults for this long. The same seed gives the same faults in the same order."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="faults-") as place:
        room, whole_room = Path(place) / "room", Path(place) / "whole"
        (whole_room / "cache").mkdir(parents=True)  # filled by the first attempts, without faults
        attempting.alone(lambda: corpus(whole_room), whole_room)
        for name, text in (("measured", MEASURED), ("simulated", SIMULATED), ("served", SERVED)):
            (whole_room / f"{name}.yaml").write_text(text)
        whole: dict[tuple[str, str], tuple[Ended, int]] = {}
        attempt = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end or sum(tally.tried.values()) < LEAST:
            rng = random.Random(f"{seed}/{attempt}")
            attempt += 1
            line = rng.choice(LINES)
            call = rng.choice(list(CALLS))
            if (line.verb, call) not in whole:
                whole[line.verb, call] = _attempt(line, (call, 0, 0), (whole_room, room), shim)
                shutil.copytree(room / "cache", whole_room / "cache", dirs_exist_ok=True)
            sound, calls = whole[line.verb, call]
            if sound.code not in {0, 2}:
                tally.findings.append(f"{line.verb} fails without a fault: {sound}")
                break
            if not calls:
                continue
            nth, code = 1 + rng.randrange(calls), rng.choice(CALLS[call])
            ended, _ = _attempt(line, (call, nth, code), (whole_room, room), shim)
            tally.tried[f"{line.verb}: {call}"] += 1
            if problem := wrong(line, ended, sound, room):
                fault = f"{call} {nth} of {calls} fails with {errno.errorcode[code]}"
                tally.findings.append(f"seed {seed}, {line.verb}, {fault}: {problem}\n{ended}")
    return tally


def _attempt(line: Line, fault: tuple[str, int, int], rooms: tuple[Path, Path], shim: ctypes.CDLL) -> tuple[Ended, int]:
    """A line in a fresh room with one fault, and the number of such calls it made."""
    source, room = rooms
    shutil.rmtree(room, ignore_errors=True)
    shutil.copytree(source, room)
    reading, writing = os.pipe()
    call, nth, code = fault

    def tell() -> None:
        calls = shim.fault_seen()
        shim.fault_arm(b"", 0, 0)
        os.write(writing, str(calls).encode())

    try:
        ended = attempting.run(
            line.words.replace("FOLDER", str(room)).split(),
            room,
            first=lambda: shim.fault_arm(call.encode(), nth, code),
            last=tell,
            meanwhile=line.meanwhile,
        )
        os.close(writing)
        return ended, int(os.read(reading, 100) or 0)
    finally:
        os.close(reading)


def start(seconds: float, seed: int, folder: Path) -> Tally:
    """The storm in a process with the shim loaded; returns its tally."""
    library = folder / "shim.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.storm.faulting", str(seconds), str(seed)],
        env={**os.environ, "LD_PRELOAD": str(library), "STORM_SHIM": str(library)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return Tally(Counter(found["tried"]), found["findings"])


def main() -> None:
    """`python -m tests.storm.faulting SECONDS SEED`, with the shim loaded: prints the tally as JSON."""
    shim = ctypes.CDLL(os.environ["STORM_SHIM"])
    del os.environ["LD_PRELOAD"]
    attempting.import_everything()
    tally = storm(float(sys.argv[1]), int(sys.argv[2]), shim)
    print(json.dumps({"tried": tally.tried, "findings": tally.findings}))  # noqa: T201


if __name__ == "__main__":
    main()
