"""One attempt at a batch, in a new process so that earlier attempts can't affect it.

Run as `python -m cotenant.measure.batching.probe`: a JSON order on stdin, a JSON answer as the last line of stdout.
"""

import ctypes
import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from cotenant import workloads
from cotenant.devices import find_device
from cotenant.devices.protocol import Seat
from cotenant.errors import CotenantError, WorkloadError
from cotenant.measure.batching.verification import classify
from cotenant.workloads.protocol import WorkloadSpec

REQUESTS = 3
"""The first may allocate more slowly or choose other kernels; a limit reached later is reached by the third."""
AIR, AIR_BYTES = 1.1, 64 << 20
"""How far the heap may exceed the limit, as a factor plus a constant."""


def attempt(order: dict[str, Any]) -> dict[str, Any]:
    """Build the workload and serve a few requests within the memory the order allows."""
    spec = WorkloadSpec.model_validate(order["workload"])
    seat = find_device(order["device"]).seat(order["options"])
    limit = order["memory_bytes"]
    on_cpu = seat.torch_device == "cpu"
    with seat.occupy():
        try:
            if on_cpu:
                # Memory the libraries themselves take is not the batch's: it is allocated before the limit is set.
                _serve(spec.model_copy(update={"batch": 1}), seat)
                before = _resident_after_cleaning()
                if limit is not None:
                    _limit_heap(limit)
            elif limit is not None:
                _limit_accelerator(limit)
            seconds = _serve(spec, seat)
            peak = _status("VmHWM") - before if on_cpu else seat.memory_bytes()
        except (Exception, MemoryError) as error:  # noqa: BLE001 - whatever it is, it is the answer
            message = error.message if isinstance(error, CotenantError) else f"{type(error).__name__}: {error}"
            return {"kind": classify(message, limited=limit is not None), "said": " ".join(message.split())[:500]}
    if limit is not None and peak > limit:
        return {"kind": "out of memory", "said": f"it held {peak:,} bytes of {limit:,}", "peak_bytes": peak}
    return {"kind": "ran", "peak_bytes": peak, "seconds": seconds}


def _serve(spec: WorkloadSpec, seat: Seat) -> float:
    """Seconds of the last of a few requests."""
    built = workloads.find(spec.name).build(spec, seat)
    if built.client is not None:
        built.close()
        raise WorkloadError(f"{spec.name} is a server, which forms its own batches")
    seconds = 0.0
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        value = None
        for stage in built.stages:
            for _ in range(stage.repeat):
                value = stage.run(value)
        seat.synchronise()
        seconds = time.perf_counter() - begin
    built.close()
    return seconds


def _limit_heap(limit: int) -> None:
    """Stop a batch that is far too large before it takes the machine's memory.

    The memory actually held decides: the kernel's limit also counts what is reserved and never touched,
    so it must leave some headroom.
    """
    most = int(_status("VmData") + AIR * limit + AIR_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _limit_accelerator(limit: int) -> None:
    import torch

    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))


def _resident_after_cleaning() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # tells the kernel to reset the peak
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    print(json.dumps(attempt(json.load(sys.stdin))), flush=True)  # noqa: T201 - the answer
