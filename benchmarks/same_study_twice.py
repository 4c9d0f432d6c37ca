"""The same study twice under varying real load: how often `compare` reports a change.

    python benchmarks/same_study_twice.py [PAIRS]     (or: make aa PAIRS=10)

Three loads: none, a memory-bound process throughout a run, and an intermittent one. Nothing changes between the runs of
a pair, so every `slower` or `faster` is a false alarm. Exit code 1 if there are more than the stated level of `compare`
allows. tests/analyse/comparison/test_same_study_twice.py counts over 1,000 pairs in simulated time.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cotenant
from cotenant.analyse.comparison.changes import LEVEL
from cotenant.analyse.comparison.pair import PairComparison

STUDY = """name: twice
device: cpu
tenants:
  a: {workload: sgemm, params: {size: 256}}
  b: {workload: sgemm, params: {size: 384}}
mixes: [solo, pairs]
window: 300ms
lead: 100ms
blocks: 5
"""
HOG = """
import random, sys, time
import numpy as np
busy_s, idle_s, rng = float(sys.argv[1]), float(sys.argv[2]), random.Random(sys.argv[3])
a, b = np.zeros(4_000_000), np.ones(4_000_000)
while True:
    until = time.monotonic() + rng.expovariate(1 / busy_s)
    while time.monotonic() < until:
        a += b
    time.sleep(rng.expovariate(1 / idle_s) if idle_s else 0)
"""
LOADS: dict[str, tuple[float, float] | None] = {"none of ours": None, "steady": (3600, 0), "bursty": (4, 6)}
"""Mean seconds busy and idle."""
CHANCE = 3.0
"""Standard deviations of the count allowed by the level."""


@contextlib.contextmanager
def loaded(load: tuple[float, float] | None, seed: str) -> Iterator[None]:
    """Run other load on the machine meanwhile."""
    if load is None:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", HOG, *map(str, load), seed]) as hog:
        try:
            yield
        finally:
            hog.kill()


def claimed(found: PairComparison) -> str:
    """The worst verdict on a pair."""
    if found.withheld:
        return "withheld"
    verdicts = {one.outcome.verdict for one in found.rows} | {one.outcome.verdict for one in found.tenants}
    verdicts |= {found.common.outcome.verdict} if found.common else set()
    return next((verdict for verdict in ("slower", "faster") if verdict in verdicts), "no change")


def main(pairs: int) -> int:
    """Pairs under each load in turn; prints a table."""
    said = {load: Counter[str]() for load in LOADS}
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "twice.yaml"
        study.write_text(STUDY)
        for number in range(pairs):
            order = random.Random(number)  # noqa: S311 - an order, not a secret
            for load, times in order.sample(list(LOADS.items()), len(LOADS)):
                runs = []
                for which in ("before", "now"):
                    # Each run has its own load: real disturbances differ from day to day.
                    with loaded(times, f"{number}/{which}"):
                        runs.append(cotenant.run(study, out=Path(folder) / "runs").folder)
                found = cotenant.compare(runs)
                assert isinstance(found, PairComparison)
                said[load][claimed(found)] += 1
                print(f"{number + 1}/{pairs} {load}: {claimed(found)}", file=sys.stderr, flush=True)
    print("| load | pairs | withheld | no change | false `slower` | false `faster` |\n|---|---|---|---|---|---|")
    for load, counts in said.items():
        cells = (counts[one] for one in ("withheld", "no change", "slower", "faster"))
        print(f"| {load} | {pairs} | {' | '.join(map(str, cells))} |")
    tried = pairs * len(LOADS)
    allowed = LEVEL * tried + CHANCE * (LEVEL * (1 - LEVEL) * tried) ** 0.5
    worst = max(sum(counts[one] for counts in said.values()) for one in ("slower", "faster"))
    return 1 if worst > allowed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
