"""How long a report of a million requests takes to write, how much memory, and how large the page is."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from synthetic_run import make

TRIALS = 60
REQUESTS_PER_TRIAL = 16_667
MOST_SECONDS = 5.0
MOST_MIB = 500


def main() -> int:
    """Print one line of JSON; 1 if a bound is broken."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        make(run, TRIALS, REQUESTS_PER_TRIAL, seed=0)
        begin = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "cotenant.cli.main", "report", str(run)], stdout=sys.stderr)
        _, status, usage = os.wait4(process.pid, 0)
        result = {
            "requests": TRIALS * REQUESTS_PER_TRIAL,
            "seconds": round(time.perf_counter() - begin, 2),
            "peak_mib": round(usage.ru_maxrss / 1024, 1),
            "page_mb": round((run / "report.html").stat().st_size / 1e6, 2),
        }
    print(json.dumps(result))
    return int(status != 0 or result["seconds"] > MOST_SECONDS or result["peak_mib"] > MOST_MIB)


if __name__ == "__main__":
    sys.exit(main())
