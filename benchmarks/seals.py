"""Overhead of checking seals in `show`: one long run, and one of very many short trials, each in a fresh process."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RUNS = {"200 trials of 25,000 requests": (200, 25_000), "2,000 trials of 300 requests": (2_000, 300)}
REPEATS = 5


def measure() -> dict[str, Any]:
    """The fraction of `show` spent on seals, by run, and the largest of them."""
    from synthetic_run import make

    shares = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (trials, requests) in RUNS.items():
            path = Path(folder) / str(trials)
            make(path, trials, requests, seed=1)
            command = [sys.executable, str(Path(__file__).resolve()), "show", str(path)]
            done = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(REPEATS)]
            shares[name] = sorted(json.loads(one.stdout) for one in done)[REPEATS // 2]
    return {"share_of_show": shares, "largest": max(shares.values())}


def _show(path: Path) -> float:
    """Seconds spent on seals over all seconds of `show`; a cached hash counts once."""
    import cotenant
    from cotenant.store import integrity

    spent = 0.0
    usual = integrity.standing

    def timed(folder: Any) -> Any:
        nonlocal spent
        begin = time.perf_counter()
        try:
            return usual(folder)
        finally:
            spent += time.perf_counter() - begin

    integrity.standing = timed
    begin = time.perf_counter()
    cotenant.show([path])
    return spent / (time.perf_counter() - begin)


if __name__ == "__main__":
    print(json.dumps(_show(Path(sys.argv[2])) if sys.argv[1:2] == ["show"] else measure(), indent=2))
