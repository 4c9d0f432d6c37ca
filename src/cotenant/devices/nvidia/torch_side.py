"""The interface to torch's accelerators: streams, events, memory, errors. All GPU work goes through here.

Uses `torch.accelerator`, so that ROCm and XPU builds work like CUDA builds. Only tenants' processes (and
the short-lived process of `look`) use it: a runner that opened the device would be a tenant itself.

`COTENANT_TORCH_DEVICE=cpu` is a test seam: torch computes on the CPU while sensors,
controls and sharing are the device's. Records of such runs have ``ON_CPU`` in the device's name.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from cotenant.devices.nvidia import green_contexts
from cotenant.errors import DeviceError

SEAM = "COTENANT_TORCH_DEVICE"
ON_CPU = "[torch on cpu]"
"""Suffix of the name of a device whose torch side is on the CPU."""
LOOK_TIMEOUT_S = 120.0
FLUSH_AT_LEAST_BYTES = 64 << 20


def on_cpu() -> bool:
    """True if the test seam keeps torch on the CPU."""
    wanted = os.environ.get(SEAM, "")
    if wanted not in {"", "cpu"}:
        raise DeviceError(f"{SEAM} is {wanted!r}, but only 'cpu' is supported", hint=f"unset {SEAM}")
    return wanted == "cpu"


@dataclass(frozen=True, slots=True)
class Green:
    """One of the green contexts of this process."""

    sms: tuple[int, ...]
    """SMs of each."""
    mine: int
    """Index of this GPU."""


class TorchSide(Protocol):
    """The torch operations a seat uses."""

    torch_device: str
    clock: str
    """The source of device time."""

    def entered(self, *, stream: bool, priority: int, green: Green | None) -> Any:
        """Context manager: send the calling thread's work to its own stream, or into a green context."""
        ...

    def mark(self) -> Any:
        """A point in device time, after all work submitted so far."""
        ...

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Device time between two marks that have been reached."""
        ...

    def synchronise(self) -> None:
        """Wait for the calling thread's stream, not for other tenants'."""
        ...

    def peak_memory_bytes(self) -> int:
        """Peak memory this process has reserved on the device."""
        ...

    def flush_l2(self) -> None:
        """Overwrite the L2 cache, so that the next request finds it cold."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Torch's facts about the device: name, UUID, SMs, memory."""
        ...


def open_side(kind: str, index: int) -> TorchSide:
    """The accelerator, or the CPU in its place."""
    return OnCpu() if on_cpu() else OnAccelerator(kind, index)


class OnAccelerator:
    """A device torch can use: CUDA, ROCm (called cuda by torch) or XPU."""

    clock = "events on the device's stream"

    def __init__(self, kind: str, index: int) -> None:
        import torch

        found = torch.accelerator.current_accelerator(check_available=True)
        if found is None or found.type != kind:
            have = "only a CPU" if found is None else f"{found.type} devices"
            raise DeviceError(
                f"torch {torch.__version__} finds {have}, but no {kind} device",
                hint="install a build of torch for this device; run `cotenant doctor --device DEVICE`",
            )
        torch.accelerator.set_device_index(index)
        self.torch_device = f"{kind}:{index}"
        self._torch, self._kind, self._index = torch, kind, index
        self._module = torch.get_device_module(kind)
        self._stream: Any = torch.accelerator.current_stream(index)
        self._green_sms: int | None = None
        self._scratch: Any = None

    @contextmanager
    def entered(self, *, stream: bool, priority: int, green: Green | None) -> Iterator[None]:
        """Set the calling thread's current stream, which decides where it computes."""
        accelerator = self._torch.accelerator
        accelerator.set_device_index(self._index)  # a new thread starts on device 0
        before = accelerator.current_stream(self._index)
        if green is not None:
            part = green_contexts.parts(self._index, green.sms)[green.mine]
            self._green_sms = part.sms
            self._stream = self._module.ExternalStream(part.stream, device=self.torch_device)
        elif stream:
            self._stream = self._torch.Stream(device=self.torch_device, priority=-priority)
        else:
            self._stream = before
        accelerator.set_stream(self._stream)
        try:
            yield
        finally:
            self._stream.synchronize()
            accelerator.set_stream(before)

    def mark(self) -> Any:
        """An event on the stream."""
        event = self._torch.Event(device=self.torch_device, enable_timing=True)
        event.record(self._stream)
        return event

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Events are read in milliseconds, with a resolution of about half a microsecond."""
        return int(start.elapsed_time(end) * 1e6)

    def synchronise(self) -> None:
        """Wait for this stream only."""
        self._stream.synchronize()

    def peak_memory_bytes(self) -> int:
        """Reserved, not allocated, since others can't use it. Excludes the context itself."""
        generic = getattr(self._torch.accelerator, "max_memory_reserved", None)
        return int((generic or self._module.max_memory_reserved)(self._index))

    def flush_l2(self) -> None:
        """Overwrite twice the L2 cache, or an ample default."""
        if self._scratch is None:
            l2 = int(getattr(self._module.get_device_properties(self._index), "L2_cache_size", 0))
            size = max(2 * l2, FLUSH_AT_LEAST_BYTES)
            self._scratch = self._torch.empty(size, dtype=self._torch.int8, device=self.torch_device)
        self._scratch.zero_()

    def facts(self) -> Mapping[str, Any]:
        """As torch reports in this process, and so under this sharing: an MPS share shows as fewer SMs."""
        properties = self._module.get_device_properties(self._index)
        free, total = self._module.mem_get_info(self._index)
        least, greatest = _priorities(self._module)
        return {
            "name": str(properties.name),
            "uuid": _uuid(properties),
            "sms": _first(properties, "multi_processor_count", "max_compute_units", "gpu_subslice_count"),
            "green_sms": self._green_sms,
            "memory_bytes": int(total),
            "free_memory_bytes": int(free),
            "l2_bytes": _first(properties, "L2_cache_size"),
            "capability": [getattr(properties, part, None) for part in ("major", "minor")],
            "stream_priorities": [least, greatest],
            "float32_matmul": self._torch.get_float32_matmul_precision(),
        }


class OnCpu:
    """The test seam: the same interface on the CPU. Device time is the wall clock."""

    torch_device = "cpu"
    clock = "wall clock (torch side on cpu)"

    def __init__(self) -> None:
        self._scratch: Any = None

    @contextmanager
    def entered(self, *, stream: bool, priority: int, green: Green | None) -> Iterator[None]:
        """A CPU has no streams."""
        del stream, priority, green
        yield

    def mark(self) -> int:
        """The wall clock."""
        return time.perf_counter_ns()

    def elapsed_ns(self, start: int, end: int) -> int:
        """Wall-clock time."""
        return end - start

    def synchronise(self) -> None:
        """A no-op."""

    def peak_memory_bytes(self) -> int:
        """The host's; the device is not used."""
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def flush_l2(self) -> None:
        """Clear the CPU's caches instead."""
        import torch

        if self._scratch is None:
            self._scratch = torch.empty(FLUSH_AT_LEAST_BYTES, dtype=torch.int8)
        self._scratch.zero_()

    def facts(self) -> Mapping[str, Any]:
        """Only that this is the seam."""
        return {"torch_side": "cpu"}


@cache
def look(kind: str) -> tuple[Mapping[str, Any], ...]:
    """Torch's facts about every device of a kind, from a short-lived separate process.

    Raises:
        DeviceError: Torch can't use such devices here; includes torch's message.
    """
    command = [sys.executable, "-m", "cotenant.devices.nvidia.torch_side", kind]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise DeviceError(f"torch did not find its {kind} devices within {LOOK_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise DeviceError(f"torch can't use {kind} devices here: {reason[:300]}")
    found: list[Mapping[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return tuple(found)


def _answer(kind: str) -> None:
    """Entry point of the process started by `look`."""
    import torch

    try:
        first = OnAccelerator(kind, 0)
    except DeviceError as error:
        sys.exit(error.message)
    sides = [first, *(OnAccelerator(kind, index) for index in range(1, torch.accelerator.device_count()))]
    sys.stdout.write(json.dumps([side.facts() for side in sides]) + "\n")


def _uuid(properties: Any) -> str | None:
    found = getattr(properties, "uuid", None)
    if found is None:
        return None
    text = str(found)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def _first(properties: Any, *names: str) -> int | None:
    return next((int(getattr(properties, name)) for name in names if hasattr(properties, name)), None)


def _priorities(module: Any) -> tuple[int, int]:
    """The lowest and the highest stream priority; the highest has the smaller number."""
    try:
        least, greatest = module.Stream.priority_range()
    except (AttributeError, RuntimeError):
        return 0, 0
    return int(least), int(greatest)


if __name__ == "__main__":
    _answer(sys.argv[1])
