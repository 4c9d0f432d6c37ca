"""A tenant's seat on an accelerator, in its own thread: stream, events, memory, and a report of what it got."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict

from cotenant.devices.cpu.seat import keep_on, process_cores
from cotenant.devices.nvidia.torch_side import Green, TorchSide, open_side
from cotenant.workloads.protocol import Dtype

_RECORDED = ("CUDA_", "HIP_", "ROCR_", "ZE_", "PYTORCH_")


class GpuSeatOptions(TypedDict, total=False):
    """The settings a seat applies."""

    kind: str
    """Torch's name for the device type."""
    index: int
    """Index as seen by the tenant's process."""
    stream: bool
    """True for a separate stream, False for the default stream."""
    priority: int
    """Priority of that stream; higher goes first."""
    green_sms: list[int]
    """SMs of the green contexts of all tenants in this process."""
    green_part: int
    """The index of this tenant's context."""
    threads: int
    cores: list[int]
    """The host's cores for this process; without it, all."""
    flush_l2: bool
    """Flush the L2 cache before each request."""
    dtype: Dtype


class GpuSeat:
    """A tenant's seat on a GPU."""

    def __init__(self, options: GpuSeatOptions) -> None:
        self._options = options
        self._flush = options.get("flush_l2", False)
        self._in_request = False
        self._side: TorchSide = open_side(options["kind"], options["index"])
        self.torch_device = self._side.torch_device
        self.default_dtype: Dtype = "float32" if self.torch_device == "cpu" else options["dtype"]

    @contextmanager
    def occupy(self) -> Iterator[None]:
        """Bind the calling thread to its stream or SMs."""
        set_num_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)
        if set_num_threads:  # on the CPU seam, leave torch unloaded: the environment has the same effect
            set_num_threads(self._options["threads"])
        if (cores := self._options.get("cores")) is not None:
            keep_on(frozenset(cores))
        sms = self._options.get("green_sms")
        place = self._side.entered(
            stream=self._options.get("stream", False),
            priority=self._options.get("priority", 0),
            green=None if sms is None else Green(tuple(sms), self._options["green_part"]),
        )
        with place:
            yield

    def synchronise(self) -> None:
        """Wait for this tenant's stream."""
        self._side.synchronise()

    def mark(self) -> Any:
        """A point in device time; with `flush_l2`, the point before a request follows the flush."""
        if self._flush and not self._in_request:
            self._in_request = True
            self._side.flush_l2()
        return self._side.mark()

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Device time between two marks."""
        self._in_request = False
        return self._side.elapsed_ns(start, end)

    def memory_bytes(self) -> int:
        """Peak memory reserved on the device (shared by tenants in a process)."""
        return self._side.peak_memory_bytes()

    def observed(self) -> Mapping[str, Any]:
        """The device as torch sees it here, the environment that selects it, and the source of device time."""
        get_num_threads = getattr(sys.modules.get("torch"), "get_num_threads", None)
        return {
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "torch_device": self.torch_device,
            "threads": get_num_threads() if get_num_threads else self._options["threads"],
            "priority": self._options.get("priority", 0),
            "flush_l2": self._flush,
            "cores": sorted(os.sched_getaffinity(0)),
            "process_cores": process_cores(),
            **self._side.facts(),
            "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_RECORDED)},
            "device_clock": self._side.clock,
        }
