"""The part of a profile pass inside a tenant's process.

The pass enables it through an environment variable, so that a measurement's orders don't know about profiling.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cotenant.opening import drafted
from cotenant.tenancy.records import Columns

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
    """Enable what the environment requests, for a trial; None in every measurement."""
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

    from cotenant.store.imports import TENANT_RANGE

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
        columns = kernels_of(self._profiler.profiler.kineto_results.events(), names)
        name = f"{os.getpid()}-{time.monotonic_ns()}.npz"
        with drafted(self._folder / name, f".{name}") as draft:
            np.savez(draft, **columns)  # type: ignore[arg-type]  # no column is called allow_pickle


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
    """Tenants that share a process have a thread each; older torch releases only see the starting thread."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None


# --- turns torch.profiler's events into kernels: the device's, or on a CPU the operators that do the work

DOMINANT = 0.5
"""An operator that spends at least this share of its time in an inner operator only delegates."""
_COPIES = {"gpu_memcpy", "gpu_memset"}


def kernels_of(events: Iterable[Any], tenants: Mapping[int, str]) -> Columns:
    """The table of kernels of a process.

    Args:
        events: From kineto.
        tenants: The tenant of each thread; other threads work for the tenant that launched them, or the only tenant.
    """
    every = [event for event in events if event.duration_ns() > 0 and not event.is_user_annotation()]
    on_device = [event for event in every if "CUDA" in str(event.device_type())]
    chosen = on_device or working_operators([event for event in every if event.name().startswith("aten::")])
    # Kineto counts from the epoch; requests count from boot.
    offset = time.time_ns() - time.monotonic_ns()
    owner = _owner(every, tenants)
    return {
        "tenant": np.array([owner(event) for event in chosen], dtype=str),
        "name": np.array([_name(event) for event in chosen], dtype=str),
        "device": np.array([f"cuda:{e.device_index()}" if on_device else "cpu" for e in chosen], dtype=str),
        "stream": np.array([event.device_resource_id() for event in chosen], np.int64),
        "start_ns": np.array([event.start_ns() - offset for event in chosen], np.int64),
        "duration_ns": np.array([event.duration_ns() for event in chosen], np.int64),
    }


def working_operators(events: list[Any]) -> list[Any]:
    """Of nested operators, those that do the work themselves, none inside another.

    From the outermost inwards: while an inner operator takes most of the time, descend into it (`linear` is
    `addmm`); where none does, the outer does the work.
    """
    by_thread: dict[int, list[Any]] = {}
    for event in events:
        by_thread.setdefault(event.device_resource_id(), []).append(event)
    chosen = []
    for mine in by_thread.values():
        mine.sort(key=lambda event: (event.start_ns(), -event.duration_ns()))
        position = 0
        while position < len(mine):
            outer_end = _end(mine[position])
            after = position + 1
            while after < len(mine) and mine[after].start_ns() < outer_end:
                after += 1
            chosen.append(_descend(mine, position, after))
            position = after
    return chosen


def _descend(events: list[Any], first: int, after: int) -> Any:
    """The working operator from ``first`` and everything inside it (up to ``after``)."""
    outer = events[first]
    for inner in range(first + 1, after):
        event = events[inner]
        if event.duration_ns() >= DOMINANT * outer.duration_ns():
            end = inner + 1
            while end < after and events[end].start_ns() < _end(event):
                end += 1
            return _descend(events, inner, end)
    return outer


def _end(event: Any) -> int:
    return int(event.start_ns() + event.duration_ns())


def _name(event: Any) -> str:
    kind = event.activity_type() if hasattr(event, "activity_type") else ""
    return f"[CUDA {event.name()}]" if kind in _COPIES and not event.name().startswith("[") else str(event.name())


def _owner(events: list[Any], tenants: Mapping[int, str]) -> Any:
    """Finds the tenant of an event: by its thread, by the launching thread, or by its stream."""
    only = next(iter(tenants.values())) if len(set(tenants.values())) == 1 else None
    launched = {
        event.correlation_id(): tenants[event.device_resource_id()]
        for event in events
        if event.device_resource_id() in tenants and event.correlation_id()
    }
    streams: dict[int, str] = {}

    def owner(event: Any) -> str:
        if only is not None:
            return only
        found = tenants.get(event.device_resource_id()) if "CPU" in str(event.device_type()) else None
        found = found or launched.get(event.linked_correlation_id()) or launched.get(event.correlation_id())
        if found is not None:
            streams[event.device_resource_id()] = found
        return found or streams.get(event.device_resource_id(), "unknown")

    return owner
