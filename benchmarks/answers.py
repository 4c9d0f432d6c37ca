"""CPU seconds of `show`, `explain`, `compare` and `report` of a run, beside another commit's, in one run.

    git worktree add /tmp/before 4ff3fcfd
    cotenant run quick
    python benchmarks/answers.py RUN [RUN] --before /tmp/before/src [--runs 7]

The two take turns, each first in half of the rounds, so that whatever else the machine does meets both. CPU time counts
the processes they start. `compare` needs a second run. Byte code is compiled in a round that doesn't count.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1] / "src"
CALL = "import sys; from cotenant.cli.main import entry; sys.exit(entry())"


def cpu_s(source: Path, words: list[str]) -> float:
    """User and system time of one call, children included."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", CALL, *words], env=env | {"PYTHONPATH": str(source)}, capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 2, 3):
        sys.exit(f"{' '.join(words)} of {source} failed: {done.stderr.decode()[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print one line per verb: medians, and the median of the ratios of each round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folders", nargs="+", metavar="RUN")
    parser.add_argument("--before", type=Path, required=True, help="the `src` of the other commit")
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        verbs = {
            "show": ["show", given.folders[0]],
            "explain": ["explain", given.folders[0]],
            "report": ["report", given.folders[0], "--out", f"{scratch}/page.html"],
        }
        if len(given.folders) > 1:
            verbs["compare"] = ["compare", *given.folders[:2]]
        print(f"{'verb':8} {'before':>8} {'now':>8} {'ratio':>6}   CPU s, medians of {given.runs} rounds")
        for verb, words in verbs.items():
            seen: dict[Path, list[float]] = {given.before: [], HERE: []}
            for turn in range(given.runs + 1):
                for source in (given.before, HERE) if turn % 2 else (HERE, given.before):
                    seconds = cpu_s(source, words)
                    if turn:
                        seen[source].append(seconds)
            ratios = [now / before for before, now in zip(seen[given.before], seen[HERE], strict=True)]
            before, now = statistics.median(seen[given.before]), statistics.median(seen[HERE])
            print(f"{verb:8} {before:8.3f} {now:8.3f} {statistics.median(ratios):6.2f}")


if __name__ == "__main__":
    main()
