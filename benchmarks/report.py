"""Time and memory to write a report of a million requests, and the size of the page."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from synthetic_run import make

TRIALS = 60
REQUESTS_PER_TRIAL = 16_667


def measure() -> dict[str, Any]:
    """Seconds, peak memory and size of the page."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        make(run, TRIALS, REQUESTS_PER_TRIAL, seed=0)
        begin = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "cotenant.cli.main", "report", str(run)], stdout=sys.stderr)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        if status:
            raise SystemExit("the report could not be written")
        return {
            "requests": TRIALS * REQUESTS_PER_TRIAL,
            "seconds": seconds,
            "peak_mib": usage.ru_maxrss / 1024,
            "page_mb": (run / "report.html").stat().st_size / 1e6,
        }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
