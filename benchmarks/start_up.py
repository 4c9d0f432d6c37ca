"""How long `cotenant --help` takes, beside Python itself: best of many, taken in turns."""

import json
import subprocess
import sys
import time
from typing import Any

ROUNDS = 15


def measure() -> dict[str, Any]:
    """Milliseconds, and the ratio to an empty Python program."""
    empty, helped = [], []
    for _ in range(ROUNDS):
        empty.append(_ms("-c", "pass"))
        helped.append(_ms("-m", "cotenant.cli.main", "--help"))
    return {"python_ms": min(empty), "help_ms": min(helped), "ratio": min(helped) / min(empty), "rounds": ROUNDS}


def _ms(*arguments: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
