"""Cost of each tenant's request alone on the device's core, in plain torch: back to back, and after a gap.

MODELS=folder CORE=1 python solo.py          one line of JSON, in seconds
MODELS=folder CORE=1 python solo.py probe    for each line it reads: bert back to back, in seconds
"""

import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from tenants import NAMES, PROMPT, load

ROUNDS = 12
GAP_S = 0.05
NUMBERS = list(range(20, 20 + PROMPT))


def main() -> None:
    """Measure interleaved, so that drift affects all equally."""
    requests = {name: load(name) for name in NAMES}
    close: dict[str, list[float]] = {name: [] for name in NAMES}
    spaced: dict[str, list[float]] = {name: [] for name in NAMES}
    for request in requests.values():
        for _ in range(3):
            request(NUMBERS)
    for _ in range(ROUNDS):
        for name, request in requests.items():
            request(NUMBERS)
            for _ in range(2):
                close[name].append(_time(request))
            time.sleep(GAP_S)
            spaced[name].append(_time(request))
    rows = {"close_s": close, "spaced_s": spaced}
    print(json.dumps({key: {name: statistics.median(row[name]) for name in NAMES} for key, row in rows.items()}))


def probe() -> None:
    """The current speed of the core, on each line of input."""
    request = load("bert")
    for _ in sys.stdin:
        request(NUMBERS)
        print(statistics.median(_time(request) for _ in range(9)), flush=True)


def _time(request) -> float:  # noqa: ANN001
    before = time.perf_counter()
    request(NUMBERS)
    return time.perf_counter() - before


if __name__ == "__main__":
    probe() if sys.argv[1:] == ["probe"] else main()
