"""A tenant's place on an accelerator, inside its own thread: stream, events, memory, and what it really got."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict

from cotenant.devices.nvidia.torch_side import Green, TorchSide, open_side
from cotenant.workloads.protocol import Dtype

_RECORDED = ("CUDA_", "HIP_", "ROCR_", "ZE_", "PYTORCH_")


class GpuSeatOptions(TypedDict, total=False):
    """What a seat has to apply."""

    kind: str
    """What torch calls the device's kind."""
    index: int
    """As the tenant's process sees it."""
    stream: bool
    """A stream of its own; else the default stream."""
    priority: int
    """Of that stream: higher goes first."""
    green_sms: list[int]
    """SMs of the green contexts of all tenants in this process."""
    green_part: int
    """Which of them is this tenant's."""
    threads: int
    flush_l2: bool
    """Before each request."""
    dtype: Dtype


class GpuSeat:
    """A tenant's place on a GPU."""

    def __init__(self, options: GpuSeatOptions) -> None:
        self._options = options
        self._flush = options.get("flush_l2", False)
        self._in_request = False
        self._side: TorchSide = open_side(options["kind"], options["index"])
        self.torch_device = self._side.torch_device
        self.default_dtype: Dtype = "float32" if self.torch_device == "cpu" else options["dtype"]

    @contextmanager
    def occupy(self) -> Iterator[None]:
        """Give the calling thread its stream or its SMs."""
        set_num_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)
        if set_num_threads:  # on the CPU's seam a tenant without torch need not load it: its environment says the same
            set_num_threads(self._options["threads"])
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
        """A point in device time; with `flush_l2`, the one before a request comes after the flush."""
        if self._flush and not self._in_request:
            self._in_request = True
            self._side.flush_l2()
        return self._side.mark()

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Device time between two marks."""
        self._in_request = False
        return self._side.elapsed_ns(start, end)

    def memory_bytes(self) -> int:
        """The most memory reserved on the device (tenants in one process share it)."""
        return self._side.peak_memory_bytes()

    def observed(self) -> Mapping[str, Any]:
        """The device as torch sees it from here, the environment that decides it, the clock of device time."""
        get_num_threads = getattr(sys.modules.get("torch"), "get_num_threads", None)
        return {
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "torch_device": self.torch_device,
            "threads": get_num_threads() if get_num_threads else self._options["threads"],
            "priority": self._options.get("priority", 0),
            "flush_l2": self._flush,
            **self._side.facts(),
            "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_RECORDED)},
            "device_clock": self._side.clock,
        }
