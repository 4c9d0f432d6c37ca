"""Inside a tenant's process: what is switched on in a profile pass, and only then.

The pass asks for it by a variable of the environment, so that the orders of a measurement know nothing of profiling.
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
"""`torch:FOLDER`: torch.profiler, kernels to a file in the folder. `ranges`: mark tenants for a profiler outside."""


class TenantThread(Protocol):
    """A tenant's place, as the host knows it."""

    @property
    def thread_id(self) -> int:
        """The kernel's number of its thread."""
        ...

    def do(self, work: Callable[[], Any]) -> "Future[Any]":
        """Run something on that thread."""
        ...


class Profiling(Protocol):
    """Something that was switched on."""

    def finish(self) -> None:
        """Switch it off, and leave what it found where the pass will look for it."""
        ...


def start_if_asked(tenants: Mapping[str, TenantThread]) -> Profiling | None:
    """Switch on what the environment asks for, for one trial; None: nothing, as in every measurement."""
    kind, _, folder = os.environ.get(VARIABLE, "").partition(":")
    if kind == "torch":
        return TorchProfiling(tenants, Path(folder))
    if kind == "ranges":
        return Ranges(tenants)
    return None


class Ranges:
    """A range around all that each tenant's thread does: a profiler outside tells tenants of one process by it."""

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

    from cotenant.store.imports.nsys_tenants import TENANT_RANGE

    with suppress(RuntimeError):  # a build without CUDA has no ranges: its process has to do
        nvtx.range_push(f"{TENANT_RANGE}{name}")  # type: ignore[no-untyped-call]


def _pop() -> None:
    from torch.cuda import nvtx

    with suppress(RuntimeError):
        nvtx.range_pop()  # type: ignore[no-untyped-call]


def get_ready_if_asked(threads: Sequence[TenantThread]) -> None:
    """A profiler takes seconds to start for the first time and none after that: get it over before any trial."""
    if os.environ.get(VARIABLE, "").startswith("torch:"):
        threads[0].do(lambda: _started().stop()).result()


class TorchProfiling:
    """torch.profiler over all threads of this process, started on a tenant's own thread."""

    def __init__(self, tenants: Mapping[str, TenantThread], folder: Path) -> None:
        self._tenants, self._folder = tenants, folder
        self._first = next(iter(tenants.values()))
        self._profiler: Any = self._first.do(_started).result()

    def finish(self) -> None:
        """Stop, and write the kernels as columns beside those of the other tenants."""
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
    """Tenants that share a process have a thread each; older releases of torch see only the one that starts."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None
