"""The interface to the device: how a thread uses it, and how it waits for launched work."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from cotenant.errors import ServingError
from cotenant.tenancy.device_names import DeviceName

if TYPE_CHECKING:
    from cotenant.devices.cpu import CpuSeatOptions
    from cotenant.devices.nvidia import GpuSeatOptions, SmPartition
    from cotenant.devices.protocol import Seat
    from cotenant.serving.workers.recorded import Graph, GraphRecorder


class GreenPart(NamedTuple):
    """One of the green contexts of this process: the shares of the GPU's SMs of all, in per cent, and its index."""

    shares: tuple[float, ...]
    mine: int


class Workplace(Protocol):
    """Where an engine's chunks run."""

    @property
    def torch_device(self) -> str:
        """The device's name in torch."""
        ...

    def settled(self) -> AbstractContextManager[None]:
        """A context for the thread that runs chunks: inference mode, and device settings."""
        ...

    def wait(self) -> None:
        """Wait for the device to finish this thread's work."""
        ...

    def recorder(self) -> "GraphRecorder | None":
        """Records graphs here; None if the device has none."""
        ...


class CpuPlace:
    """Cores of this machine. ``cores`` pins the thread and those it starts; None leaves it unpinned."""

    torch_device = "cpu"

    def __init__(self, cores: Sequence[int] | None = None, threads: int | None = None) -> None:
        self._cores = None if cores is None else frozenset(cores)
        self._threads = threads or (len(self._cores) if self._cores else None)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Pin the thread, then enter inference mode; torch's threads are started from here and inherit its cores."""
        import torch

        if self._cores:
            os.sched_setaffinity(threading.get_native_id(), self._cores)
        if self._threads:
            torch.set_num_threads(self._threads)
        with torch.inference_mode():
            yield

    def wait(self) -> None:
        """A CPU is done when the call returns."""

    def recorder(self) -> "GraphRecorder | None":
        """A CPU has no graphs."""
        return None


class CudaPlace:
    """A stream of a GPU. At most one chunk is in flight: each is awaited with an event.

    ``part``: a green context, so that chunks run on SMs of their own.
    """

    def __init__(self, name: str, priority: int = 0, part: "SmPartition | None" = None) -> None:
        self.torch_device = name
        self._priority = priority
        self._part = part
        self.sms = part.sms if part else None
        """SMs granted by the driver to a green context, if there is one."""

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Launch on a separate stream."""
        import torch

        with torch.inference_mode(), torch.cuda.device(self.torch_device), torch.cuda.stream(self._stream()):
            yield

    def _stream(self) -> Any:
        import torch

        kind: Any = torch.cuda.Stream  # untyped, like Event below
        if self._part is None:
            return kind(priority=self._priority)
        kind = torch.cuda.ExternalStream
        return kind(self._part.stream, device=self.torch_device)

    def wait(self) -> None:
        """Wait for an event at the end of launched work."""
        _wait_for_event()

    def recorder(self) -> "GraphRecorder":
        """CUDA graphs."""
        return CudaRecorder(self.torch_device)


class SeatPlace:
    """A tenant's part of the device, as its sharing lays it out: the very seat that a measured tenant takes."""

    def __init__(self, seat: "Seat") -> None:
        self.torch_device = seat.torch_device
        self._seat = seat

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Take the seat: its cores, stream or green context."""
        import torch

        with torch.inference_mode(), self._seat.occupy():
            yield

    def wait(self) -> None:
        """A CPU is done when the call returns; a GPU reaches an event."""
        if self.torch_device != "cpu":
            _wait_for_event()

    def recorder(self) -> "GraphRecorder | None":
        """CUDA graphs; a CPU has none."""
        return CudaRecorder(self.torch_device) if self.torch_device.startswith("cuda") else None

    def observed(self) -> Mapping[str, Any]:
        """What the tenant actually got, read back from the system."""
        return self._seat.observed()


def seated(device: str, options: Mapping[str, Any]) -> SeatPlace:
    """The part of a device with these options; called in the worker. Raises DeviceError if the device is unusable."""
    if DeviceName(device).on_cpu:
        from cotenant.devices.cpu import CpuSeat
        from cotenant.devices.tree import FileTree

        return SeatPlace(CpuSeat(FileTree(), cast("CpuSeatOptions", options), "float32"))
    from cotenant.devices.nvidia import GpuSeat

    return SeatPlace(GpuSeat(cast("GpuSeatOptions", dict(options))))


def _wait_for_event() -> None:
    """Wait for an event at the end of this thread's stream, asleep instead of spinning."""
    import torch

    kind: Any = torch.cuda.Event
    event = kind(blocking=True)
    event.record()
    event.synchronize()


def green_part(device: str, green: GreenPart) -> "SmPartition":
    """The green context of a part of a GPU; all parts of a process are cut from one split.

    Raises:
        ServingError: The driver granted another number of SMs.
    """
    import torch

    from cotenant.devices.nvidia import grain, green_contexts, sms_for

    index = torch.device(device).index or 0
    gpu = torch.cuda.get_device_properties(index)
    parts = sms_for(green.shares, gpu.multi_processor_count, gpu.major, gpu.name)
    part = green_contexts.parts(index, parts)[green.mine]
    most = parts[green.mine] + grain(gpu.major)[1]
    if not parts[green.mine] <= part.sms <= most:
        raise ServingError(
            f"The driver granted {part.sms} SMs of {gpu.name} instead of {parts[green.mine]}.",
            hint="Use other shares, or serve without `green`.",
        )
    return part


class CudaRecorder:
    """Records CUDA graphs on the calling thread's stream."""

    def __init__(self, device: str) -> None:
        self.device = device

    def pool(self) -> Any:
        """A private memory pool."""
        import torch

        return torch.cuda.graph_pool_handle()

    def record(self, run: Callable[[], bool], pool: Any) -> "tuple[Graph, bool]":
        """Other threads of the process may use the GPU meanwhile."""
        import torch

        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            ended = run()
        return graph, ended


def find_place(
    device: str, cores: Sequence[int] | None = None, threads: int | None = None, green: GreenPart | None = None
) -> Workplace:
    """The place of that name: `cpu`, `cpu:0,2`, `cuda:0`.

    Raises:
        ServingError: There is no such place.
    """
    family, _, part = device.partition(":")
    if green is not None and family != "cuda":
        raise ServingError(f"{device} has no green contexts.", hint="Leave `green` out, or use an NVIDIA GPU.")
    if family == "cpu":
        if part and cores is None:
            from cotenant.devices import find_device
            from cotenant.devices.cpu import parse_cores

            find_device(device)  # raises if a core doesn't exist
            cores = parse_cores(part)
        return CpuPlace(cores, threads)
    if family == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ServingError(f"There is no {device} here.", hint="`cotenant devices` lists the available ones.")
        return CudaPlace(device, part=green_part(device, green) if green else None)
    raise ServingError(f"{device!r} can't be served on.", hint="Use cpu, cuda:N or a simulated GPU (sim:NAME).")


def find_recorder(place: Workplace, software: str | None) -> "GraphRecorder | None":
    """The recorder for this software; None for `eager`.

    Raises:
        ServingError: The place doesn't support it.
    """
    if software in (None, "eager"):
        return None
    recorder = place.recorder() if software == "graphs" else None
    if recorder is None:
        raise ServingError(
            f"{place.torch_device} can't serve with `software: {software}`.",
            hint="Use eager, or graphs on an NVIDIA GPU.",
        )
    return recorder


# Keep the front end off the cores that are the device, where it would interrupt chunks.


@contextmanager
def kept_off(cores: AbstractSet[int]) -> Iterator[None]:
    """Run this thread, and threads and processes it starts, outside these cores, if others are left."""
    before = os.sched_getaffinity(0)
    left = before - cores
    if left and left != before:
        os.sched_setaffinity(0, left)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
