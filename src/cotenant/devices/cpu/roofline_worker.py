"""Measures peak rates of given cores, as a separate program so that the caller's process is unaffected.

Reads a JSON argument (`cores`, `array_bytes`), prints a JSON object: `flops_per_s` by dtype, `bytes_per_s`.
"""

import json
import os
import sys
import time
from collections.abc import Callable

_TRIES = 7
_TRY_S = 0.04
_DTYPES = ("float32", "float64", "bfloat16")
_SMALLEST, _LARGEST, _STEP = 128, 2048, 128


def main() -> None:
    """Measure and print."""
    order = json.loads(sys.argv[1])
    os.sched_setaffinity(0, order["cores"])  # before torch creates threads, which inherit it
    rates = {dtype: matrix_flops_per_s(dtype) for dtype in _DTYPES}
    print(json.dumps({"flops_per_s": rates, "bytes_per_s": triad_bytes_per_s(order["array_bytes"])}))  # noqa: T201 (stdout is the interface of this program)


def matrix_flops_per_s(dtype: str) -> float:
    """Rate of square matrix products, sized to take about as long as a try."""
    import torch

    def rate(size: int, tries: int) -> float:
        a = torch.full((size, size), 0.5, dtype=getattr(torch, dtype))
        out = torch.empty_like(a)
        torch.matmul(a, a, out=out)
        return 2 * size**3 / _best_s(lambda: torch.matmul(a, a, out=out), tries)

    with torch.inference_mode():
        guess = rate(_SMALLEST, 3)
        size = int((guess * _TRY_S / 2) ** (1 / 3)) // _STEP * _STEP
        return rate(max(_SMALLEST, min(size, _LARGEST)), _TRIES)


def triad_bytes_per_s(array_bytes: int) -> float:
    """Rate of a = b + s * c over arrays far larger than the caches; counts two reads and a write, as STREAM does."""
    import torch

    with torch.inference_mode():
        b, c = (torch.ones(array_bytes // 4, dtype=torch.float32) for _ in range(2))
        a = torch.zeros_like(b)
        return 3 * a.nbytes / _best_s(lambda: torch.add(b, c, alpha=3.0, out=a), _TRIES)


def _best_s(act: Callable[[], object], tries: int) -> float:
    """Shortest time of a call, since others can only delay it; each try repeats it long enough for the clock."""
    repeats, elapsed = 1, _timed(act, 1)
    while elapsed < _TRY_S / 4:
        repeats *= 2
        elapsed = _timed(act, repeats)
    return min(_timed(act, repeats) for _ in range(tries)) / repeats


def _timed(act: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        act()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
