"""The seam to the device: how a thread settles on it, and how it waits for work that it launched."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from cotenant.errors import ServingError


class Place(Protocol):
    """Where an engine's chunks run."""

    @property
    def torch_device(self) -> str:
        """The name torch knows the device by."""
        ...

    def settled(self) -> AbstractContextManager[None]:
        """A context for the thread that runs chunks: inference mode, and what else the device wants."""
        ...

    def wait(self) -> None:
        """Return when the device has done what this thread gave it."""
        ...


class CpuPlace:
    """Cores of this machine. ``cores`` pins the thread and what it starts; None leaves it where it is."""

    torch_device = "cpu"

    def __init__(self, cores: Sequence[int] | None = None, threads: int | None = None) -> None:
        self._cores = None if cores is None else frozenset(cores)
        self._threads = threads or (len(self._cores) if self._cores else None)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Pin the thread, then run in inference mode; torch's threads are started from here and stay on its cores."""
        import torch

        if self._cores:
            os.sched_setaffinity(threading.get_native_id(), self._cores)
        if self._threads:
            torch.set_num_threads(self._threads)
        with torch.inference_mode():
            yield

    def wait(self) -> None:
        """A CPU has done its work when the call returns."""


class CudaPlace:
    """A stream of a GPU. Work in flight is bounded by one chunk: each is waited for by an event."""

    def __init__(self, name: str, priority: int = 0) -> None:
        self.torch_device = name
        self._priority = priority

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Launch on a stream of its own."""
        import torch

        stream: Any = torch.cuda.Stream  # untyped, like Event below
        with (
            torch.inference_mode(),
            torch.cuda.device(self.torch_device),
            torch.cuda.stream(stream(priority=self._priority)),
        ):
            yield

    def wait(self) -> None:
        """Wait for an event at the end of what was launched; the thread sleeps instead of spinning."""
        import torch

        kind: Any = torch.cuda.Event
        event = kind(blocking=True)
        event.record()
        event.synchronize()


def find_place(device: str, cores: Sequence[int] | None = None, threads: int | None = None) -> Place:
    """The place of that name: `cpu`, `cpu:0,2`, `cuda:0`.

    Raises:
        ServingError: There is no such place.
    """
    family, _, part = device.partition(":")
    if family == "cpu":
        if part and cores is None:
            from cotenant.devices import find_device
            from cotenant.devices.cpu.cores import parse_cores

            find_device(device)  # refuses cores that aren't there
            cores = parse_cores(part)
        return CpuPlace(cores, threads)
    if family == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ServingError(f"There is no {device} here.", hint="`cotenant devices` lists what there is.")
        return CudaPlace(device)
    raise ServingError(f"Nothing can be served on {device!r}.", hint="Take cpu, cuda:N or a simulated GPU (sim:NAME).")
