"""A tenant's seat on a CPU: cores and threads, applied in its process and read back from the system."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cotenant.devices.cpu.core_sharing import CpuSeatOptions
from cotenant.devices.cpu.cores import numa_nodes
from cotenant.devices.tree import FileTree
from cotenant.workloads.protocol import Dtype

_RECORDED = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "LD_PRELOAD")
"""How a library's threads wait for each other can change the cost of sharing many times over."""


class CpuSeat:
    """A tenant's seat, used from the tenant's own thread.

    Cores are set for every thread of the process, not only for the caller: libraries such as OpenBLAS start
    their workers on import, before cores can be chosen. Threads created later inherit them.

    The process's environment sets the number of threads. Where tenants share a process it can differ by
    tenant, and torch keeps it per calling thread, so the seat also sets it through torch, once torch is
    loaded: a tenant without torch must not pay for loading it.
    """

    torch_device = "cpu"

    def __init__(self, tree: FileTree, options: CpuSeatOptions, default_dtype: Dtype) -> None:
        self._tree = tree
        self._cores = frozenset(options["cores"])
        self._threads = options["threads"]
        self._clock_name = options["clock"]
        self._clock = time.thread_time_ns if options["clock"] == "thread" else time.process_time_ns
        self._threads_set = False
        self._peak_bytes = 0
        self.default_dtype: Dtype = default_dtype

    @contextmanager
    def occupy(self) -> Iterator[None]:
        """Keep the process on the seat's cores until the block ends, with torch's threads set to match."""
        own = threading.get_native_id()
        before = keep_on(self._cores)
        self._set_torch_threads()
        try:
            yield
        finally:
            alone = self._clock_name == "process"
            for tid in _thread_ids() if alone else {own}:
                # A thread created on the seat has no earlier affinity: it gets its creator's.
                _set_affinity(tid, before.get(tid, before[own]))

    def synchronise(self) -> None:
        """A no-op: CPU work is done when the call returns."""
        if not self._threads_set and "torch" in sys.modules:
            self._set_torch_threads()

    def mark(self) -> int:
        """CPU time so far: of the process, or of the calling thread if tenants share a process."""
        if not self._threads_set and "torch" in sys.modules:
            self._set_torch_threads()
        return self._clock()

    def elapsed_ns(self, start: int, end: int) -> int:
        """CPU time between two marks."""
        return end - start

    def memory_bytes(self) -> int:
        """Peak resident set of the process so far (shared by tenants in a process)."""
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                # The kernel sums per-core counts loosely, so its own peak may drop a little.
                self._peak_bytes = max(self._peak_bytes, int(line.split()[1]) * 1024)
        return self._peak_bytes

    def observed(self) -> Mapping[str, Any]:
        """Cores, process, memory nodes, clock, and torch's threads if it is loaded, as reported by the system."""
        self._set_torch_threads()
        cores = tuple(sorted(os.sched_getaffinity(0)))
        get_num_threads = getattr(sys.modules.get("torch"), "get_num_threads", None)
        return {
            **({"threads": get_num_threads()} if get_num_threads else {}),
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "cores": list(cores),
            "process_cores": process_cores(),
            "environment": {name: os.environ[name] for name in _RECORDED if name in os.environ},
            "numa_nodes": list(numa_nodes(self._tree, cores)),
            "device_clock": f"{self._clock_name} CPU time",
        }

    def _set_torch_threads(self) -> None:
        torch = sys.modules.get("torch")
        # Another tenant's thread may be importing torch: what is missing is set next time.
        get_num_threads = getattr(torch, "get_num_threads", None)
        set_num_threads = getattr(torch, "set_num_threads", None)
        if get_num_threads and set_num_threads and not self._threads_set:
            # Asking first makes torch copy the number any thread set last;
            # after setting ours, that copy would overwrite it.
            get_num_threads()
            set_num_threads(self._threads)
            self._threads_set = True


def keep_on(cores: frozenset[int]) -> dict[int, frozenset[int]]:
    """Keep every thread of this process on these cores; return where each was allowed to run before, by thread id."""
    before = {tid: allowed for tid in _thread_ids() if (allowed := _affinity(tid)) is not None}
    for tid in before:
        _set_affinity(tid, cores)
    return before


def process_cores() -> list[int]:
    """Cores that any thread of this process may run on."""
    return sorted({core for tid in _thread_ids() for core in _affinity(tid) or ()})


def _thread_ids() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}  # noqa: PTH208 (pathlib is slower and gives no more)


def _affinity(tid: int) -> frozenset[int] | None:
    try:
        return frozenset(os.sched_getaffinity(tid))
    except ProcessLookupError:
        return None


def _set_affinity(tid: int, cores: frozenset[int]) -> None:
    # A thread may end at any time; a core that went offline shows when reading back.
    with suppress(ProcessLookupError, OSError):
        os.sched_setaffinity(tid, cores)
