"""Cost of `show` on long runs: time and memory by number of requests, each in a separate process."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = (5_000_000, 10_000_000, 20_000_000)
TRIALS = 200


def measure() -> dict[str, Any]:
    """Seconds and peak memory of `show` at each size, and the ratio per request of the largest to the smallest."""
    from synthetic_run import make

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            path = Path(folder) / str(size)
            make(path, TRIALS, size // TRIALS, seed=1)
            command = [sys.executable, str(Path(__file__).resolve()), "show", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append({"requests": size, **json.loads(done.stdout.splitlines()[-1])})
    per_request = [row["seconds"] / row["requests"] for row in rows]
    return {"rows": rows, "cost_per_request_ratio": per_request[-1] / per_request[0]}


def _show(path: str) -> None:
    import cotenant

    begin = time.monotonic()
    cotenant.show([Path(path)])
    seconds = time.monotonic() - begin
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["show"]:
        _show(sys.argv[2])
    else:
        print(json.dumps(measure(), indent=2))
