"""Forward passes as graphs of a GPU: one per layer group and shape, replayed instead of launched kernel by kernel.

A graph computes with fixed addresses. Each shape therefore has its own input and output tensors, its own memory for
what passes from one layer group to the next, and serves one request (or batch) at a time; others run as usual.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from cotenant.errors import ServingError
from cotenant.scheduling import some_batches
from cotenant.serving.chunking.greenlets import Running
from cotenant.serving.engines.protocol import Call
from cotenant.serving.engines.rows import apart, copied, rows_of, shape_of, together


class Graph(Protocol):
    """The recorded kernels of one chunk."""

    def replay(self) -> None:
        """Launch them."""
        ...


class Recorder(Protocol):
    """Records graphs on a device."""

    @property
    def device(self) -> str:
        """The device's name in torch."""
        ...

    def pool(self) -> Any:
        """Memory for graphs that are always replayed in the order in which they were recorded."""
        ...

    def record(self, run: Callable[[], bool], pool: Any) -> tuple[Graph, bool]:
        """Call a function once and record its kernels instead of running them; returns its result too."""
        ...


class InSteps:
    """A model that takes and returns tensors of the host. Only ``compute`` can be recorded: the rest would wait."""

    def check(self, **inputs: torch.Tensor) -> None:
        """Raise BadInput for tensors that the model can't take."""
        raise NotImplementedError

    def compute(self, **inputs: torch.Tensor) -> Any:
        """From tensors on the device to tensors on the device."""
        raise NotImplementedError

    def home(self, result: Any) -> Any:
        """Move a result to the host."""
        raise NotImplementedError


class Recordings:
    """The graphs of one model, for batches of 1, 2, 4, ... requests like the sample."""

    def __init__(self, model: Callable[..., Any], sample: Call, recorder: Recorder, *, largest: int = 1) -> None:
        """Record everything; the model's cuts must be in place.

        Raises:
            ServingError: The model can't be recorded.
        """
        self._steps = model if isinstance(model, InSteps) else None
        compute = self._steps.compute if self._steps else model
        self._shape = shape_of(sample)
        placed = Call(
            tuple(_moved(value, recorder.device) for value in sample.args),
            {name: _moved(value, recorder.device) for name, value in sample.kwargs.items()},
        )
        try:
            self._shapes = [_Recording(compute, together([placed] * size), recorder) for size in some_batches(largest)]
        except Exception as error:
            raise ServingError(
                f"The model can't be recorded as graphs: {type(error).__name__}: {error}.",
                hint="Serve it with `software: eager`.",
            ) from error

    def start(self, call: Call) -> "Replay | None":
        """A call in progress, not started yet; None if no free recording has room for it."""
        rows = rows_of(call)
        if rows is None or shape_of(call) != self._shape:
            return None
        for shape in self._shapes:
            if shape.free and rows <= shape.rows:
                return Replay(shape, call, rows, self._steps)
        return None


class _Recording:
    """The graphs of one shape."""

    def __init__(self, compute: Callable[..., Any], call: Call, recorder: Recorder) -> None:
        rows = rows_of(call)
        if rows is None:
            raise ValueError("its inputs have no common number of rows")
        self.rows = rows
        self.free = True
        self.graphs: list[Graph] = []
        self._call = Call(
            tuple(_own(value) for value in call.args), {name: _own(value) for name, value in call.kwargs.items()}
        )
        compute(*self._call.args, **self._call.kwargs)  # libraries allocate their workspaces with the first call
        running = Running(lambda: compute(*self._call.args, **self._call.kwargs))
        pool = recorder.pool()
        ended = False
        while not ended:
            graph, ended = recorder.record(running.advance, pool)
            self.graphs.append(graph)
        self._result = running.result

    def fill(self, call: Call, rows: int) -> None:
        """Copy a request's tensors to where the graphs read them; rows beyond them keep older values."""
        pairs = [*zip(self._call.args, call.args, strict=True)]
        pairs += [(self._call.kwargs[name], value) for name, value in call.kwargs.items()]
        for fixed, value in pairs:
            if isinstance(fixed, torch.Tensor):
                fixed[:rows].copy_(value, non_blocking=True)

    def result(self, rows: int) -> Any:
        """The first rows of the output, where the next replay overwrites them."""
        return self._result if rows == self.rows else apart(self._result, [rows, self.rows - rows])[0]


class Replay:
    """A call that replays graphs, chunk by chunk; to an engine it is like `Running`."""

    def __init__(self, recording: _Recording, call: Call, rows: int, steps: InSteps | None) -> None:
        self.done = False
        self.result: Any = None
        self._recording = recording
        self._call: Call | None = call
        self._rows = rows
        self._steps = steps
        self._left: Sequence[Graph] = recording.graphs
        recording.free = False

    def advance(self) -> bool:
        """Launch the next chunk; True if the call has ended."""
        try:
            if self._call is not None:
                if self._steps is not None:
                    self._steps.check(**self._call.kwargs)
                self._recording.fill(self._call, self._rows)
                self._call = None
            self._left[0].replay()
            self._left = self._left[1:]
            if not self._left:
                result = copied(self._recording.result(self._rows))
                self.result = self._steps.home(result) if self._steps else result
                self._end()
        except BaseException:
            self._end()
            raise
        return self.done

    def abandon(self) -> None:
        """Give the recording back."""
        if not self.done:
            self._end()

    def _end(self) -> None:
        self.done, self._call = True, None
        self._recording.free = True


def _own(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _moved(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value
