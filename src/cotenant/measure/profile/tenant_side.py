"""The part of a profile pass inside a tenant's process.

The pass enables it through an environment variable, so that a measurement's orders don't know about profiling.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

VARIABLE = "COTENANT_PROFILE"
"""`torch:FOLDER`: torch.profiler, kernels to a file in the folder. `ranges`: mark tenants for an external profiler."""


class TenantThread(Protocol):
    """A tenant's place, as the host sees it."""

    @property
    def thread_id(self) -> int:
        """Thread id, as the kernel counts."""
        ...

    def do(self, work: Callable[[], Any]) -> "Future[Any]":
        """Run something on that thread."""
        ...


class Profiling(Protocol):
    """An enabled profiler."""

    def finish(self) -> None:
        """Disable it, and write its results where the pass will look."""
        ...


def start_if_asked(tenants: Mapping[str, TenantThread]) -> Profiling | None:
    """Enable what the environment requests, for one trial; None in every measurement."""
    kind, _, folder = os.environ.get(VARIABLE, "").partition(":")
    if kind == "torch":
        return TorchProfiling(tenants, Path(folder))
    if kind == "ranges":
        return Ranges(tenants)
    return None


class Ranges:
    """A range around all work of each tenant's thread, so that an external profiler can tell them apart."""

    def __init__(self, tenants: Mapping[str, TenantThread]) -> None:
        self._threads = tuple(tenants.values())
        for name, thread in tenants.items():
            thread.do(partial(_push, name)).result()

    def finish(self) -> None:
        """Close the ranges."""
        for thread in self._threads:
            thread.do(_pop).result()


def _push(name: str) -> None:
    from torch.cuda import nvtx

    from cotenant.store.imports.nsys import TENANT_RANGE

    with suppress(RuntimeError):  # a build without CUDA has no ranges: the process has to do
        nvtx.range_push(f"{TENANT_RANGE}{name}")  # type: ignore[no-untyped-call]


def _pop() -> None:
    from torch.cuda import nvtx

    with suppress(RuntimeError):
        nvtx.range_pop()  # type: ignore[no-untyped-call]


def get_ready_if_asked(threads: Sequence[TenantThread]) -> None:
    """Start a profiler once before any trial: the first start takes seconds, later ones none."""
    if os.environ.get(VARIABLE, "").startswith("torch:"):
        threads[0].do(lambda: _started().stop()).result()


class TorchProfiling:
    """torch.profiler over all threads of this process, started on a tenant's own thread."""

    def __init__(self, tenants: Mapping[str, TenantThread], folder: Path) -> None:
        self._tenants, self._folder = tenants, folder
        self._first = next(iter(tenants.values()))
        self._profiler: Any = self._first.do(_started).result()

    def finish(self) -> None:
        """Stop, and write the kernels as columns next to those of the other tenants."""
        import numpy as np

        self._first.do(self._profiler.stop).result()
        names = {thread.thread_id: name for name, thread in self._tenants.items()}
        from cotenant.measure.profile.torch_events import kernels_of

        columns = kernels_of(self._profiler.profiler.kineto_results.events(), names)
        name = f"{os.getpid()}-{time.monotonic_ns()}.npz"
        draft = self._folder / f".{name}"
        np.savez(draft, **columns)  # type: ignore[arg-type]  # no column is called allow_pickle
        draft.rename(self._folder / name)


def _started() -> Any:
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    profiler = profile(activities=activities, experimental_config=_all_threads())
    profiler.start()
    return profiler


def _all_threads() -> Any:
    """Tenants that share a process have a thread each; older torch releases only see the starting one."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None
