"""Time of `cotenant --help` and `show` of a small run, compared with Python itself: best of many, interleaved."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 15


def measure() -> dict[str, Any]:
    """Milliseconds, and the ratios to an empty Python program."""
    from synthetic_run import make

    command = (str(Path(sys.executable).with_name("cotenant")),)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        make(run, 6, 50, seed=0)
        kinds = {
            "python": (sys.executable, "-c", "pass"),
            "help": (*command, "--help"),
            "show": (*command, "show", str(run)),
        }
        taken: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind, arguments in kinds.items():
                taken[kind].append(_ms(*arguments))
    best = {kind: min(times) for kind, times in taken.items()}
    return {
        **{f"{kind}_ms": ms for kind, ms in best.items()},
        "ratio": best["help"] / best["python"],
        "show_ratio": best["show"] / best["python"],
        "rounds": ROUNDS,
    }


def _ms(*arguments: str) -> float:
    begin = time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
