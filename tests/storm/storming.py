"""Run attempts, each in a separate process, and check the same property of each.

Any bytes in any file: exit 0 (with equal output if a seal or checksum guards the file), or exit 1 with one sentence, or
exit 2 with a sentence about omissions; within 20 s and 1 GiB, and never a traceback.
"""

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.storm import asking, attempting, exporting, faulting
from tests.storm.attempting import Ended, Tally
from tests.storm.cases import Case, corpus, draw, pictures


def storm(seconds: float, seed: int) -> Tally:
    """Attack for this long. The same seed gives the same attempts in the same order."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="storm-") as room:
        whole = Path(room) / "whole"
        whole.mkdir()
        written = attempting.alone(lambda: (corpus(whole), pictures(whole)), Path(room))
        if written.code:
            raise RuntimeError(f"the corpus was not written: {written}")
        expected: dict[tuple[str, ...], Ended] = {}
        attempt = 0
        end = time.monotonic() + seconds
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
            shutil.rmtree(folder, ignore_errors=True)
            attempt += 1
    return tally


def wrong(case: Case, ended: Ended, whole: Ended | None) -> str | None:  # noqa: PLR0911  (one return per rule)
    """What is wrong with the way an attempt ended, if anything."""
    if problem := attempting.badly_ended(ended):
        return problem
    if case.exports is not None and exporting.executed(case.exports, case.exports.parent / exporting.MARK):
        return "a name was executed as a command"
    if case.requests or case.wire:
        return "a wrong answer" if ended.code or ended.out.strip() else None
    if ended.code == 1 and case.arguments[0] == "verify":
        return None
    if ended.code == 1:
        return None if ended.err.lstrip().startswith(("error:", "warning:")) else "no sentence"
    if ended.code == 2 and case.sealed and case.kind == "run folder":
        whole_code = whole is not None and whole.code == 2
        return None if whole_code or "left out" in ended.err or "missing" in ended.err else "exit 2 without a message"
    if case.sealed and whole is not None and (ended.code, ended.out) != (whole.code, whole.out):
        return "a different answer without a message"
    return None if ended.code in {0, 2, 3} else f"exit code {ended.code}"


def run(case: Case, room: Path) -> Ended:
    """One attempt in a fork of this process."""
    if case.requests:
        return attempting.alone(lambda: asking.answered(case.requests), room)
    if case.wire:
        return attempting.alone(lambda: asking.read_as_by_h11(case.wire), room)
    return attempting.run(case.arguments, room)


def main() -> int:
    """`python -m tests.storm.storming SECONDS [SEED] [FAULTS]`: FAULTS is the fraction of failing calls (a fifth)."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1800.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    part = float(sys.argv[3]) if len(sys.argv) > 3 else 0.2
    faults = Tally()
    if part:
        with tempfile.TemporaryDirectory() as folder:
            faults = faulting.start(part * seconds, seed, Path(folder))
    attempting.import_everything()
    tally = storm((1 - part) * seconds, seed)
    print(f"seed {seed}, {seconds:.0f} s\n\n| attacked | tried |\n|---|---|")  # noqa: T201
    for kind, count in sorted((tally.tried + faults.tried).items()):
        print(f"| {kind} | {count} |")  # noqa: T201
    findings = [*tally.findings, *faults.findings]
    print(f"\n{sum(tally.tried.values()) + sum(faults.tried.values())} attempts, {len(findings)} findings")  # noqa: T201
    for finding in findings:
        print(finding)  # noqa: T201
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
