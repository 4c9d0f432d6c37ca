"""Measures a GPU's peak rates: `python -m cotenant.devices.nvidia.roofline_worker`; a line of JSON on stdout."""

import json
import sys
from collections.abc import Callable
from typing import Any

from cotenant.devices.nvidia.torch_side import OnAccelerator

SIZE = 8192
REPEATS = 8
ROUNDS = 3
ARRAY_BYTES = 512 << 20
DTYPES = ("float32", "float16", "bfloat16")


def best_s(side: OnAccelerator, work: Callable[[], Any]) -> float:
    """Device time of a call: the best of a few rounds after a warm-up round."""
    times = []
    for _ in range(ROUNDS + 1):
        begin = side.mark()
        for _ in range(REPEATS):
            work()
        end = side.mark()
        side.synchronise()
        times.append(side.elapsed_ns(begin, end) / 1e9 / REPEATS)
    return min(times[1:])


def main() -> None:
    """Rates of square products by dtype, and of a copy for the bandwidth."""
    import torch

    side = OnAccelerator("cuda", 0)
    rates = {}
    for name in DTYPES:
        a = torch.randn(SIZE, SIZE, device=side.torch_device).to(getattr(torch, name))
        out = torch.empty_like(a)
        rates[name] = 2 * SIZE**3 / best_s(side, lambda a=a, out=out: torch.mm(a, a, out=out))  # type: ignore[misc]
    source = torch.empty(ARRAY_BYTES, dtype=torch.int8, device=side.torch_device)
    target = torch.empty_like(source)
    copied = 2 * ARRAY_BYTES / best_s(side, lambda: target.copy_(source))
    sys.stdout.write(json.dumps({"flops_per_s": rates, "bytes_per_s": copied}) + "\n")


if __name__ == "__main__":
    main()
