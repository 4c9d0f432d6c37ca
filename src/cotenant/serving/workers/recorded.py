"""Forward passes as graphs of a GPU: one per layer group and shape, replayed instead of launched kernel by kernel.

A graph computes with fixed addresses. Each shape therefore has its own input and output tensors, its own memory for
what passes from one layer group to the next, and serves one request (or batch) at a time; others run as usual.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from cotenant.errors import ServingError
from cotenant.scheduling import some_batches
from cotenant.serving.workers.batches import Layers, apart, copied, rows_of, shape_of, together
from cotenant.serving.workers.chunking import Running
from cotenant.serving.workers.work import Call, Prompt


class Graph(Protocol):
    """The recorded kernels of a chunk."""

    def replay(self) -> None:
        """Launch them."""
        ...


class GraphRecorder(Protocol):
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
    """The graphs of a model, for batches of 1, 2, 4, ... requests like the sample."""

    def __init__(self, model: Callable[..., Any], sample: Call, recorder: GraphRecorder, *, largest: int = 1) -> None:
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

    def start(self, call: Call) -> "GraphReplay | None":
        """A call in progress, not started yet; None if no free recording has room for it."""
        rows = rows_of(call)
        if rows is None or shape_of(call) != self._shape:
            return None
        for shape in self._shapes:
            if shape.free and rows <= shape.rows:
                return GraphReplay(shape, call, rows, self._steps)
        return None


class _Recording:
    """The graphs of a shape."""

    def __init__(self, compute: Callable[..., Any], call: Call, recorder: GraphRecorder) -> None:
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


class GraphReplay:
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


# Decode steps as graphs of a GPU: one per number of requests that step together, replayed for each token.

COLUMNS = 64
"""The length of a cache is a multiple of this."""


class RecordedSteps:
    """The graphs of a decoder, for 1, 2, 4, ... requests no longer than the sample with its answer."""

    def __init__(self, model: nn.Module, sample: Prompt, recorder: GraphRecorder, *, largest: int = 1) -> None:
        """Record everything.

        Raises:
            ServingError: The model can't be recorded.
        """
        length = -(-(len(sample.ids) + sample.tokens) // COLUMNS) * COLUMNS
        try:
            self._shapes = [_RecordedStep(model, size, length, recorder) for size in some_batches(largest)]
        except Exception as error:
            raise ServingError(
                f"The decode steps can't be recorded as graphs: {type(error).__name__}: {error}.",
                hint="Serve it with `software: eager`.",
            ) from error

    def gang(self, caches: Sequence[Layers]) -> "RecordedGang | None":
        """These requests together; None if no recording has room for them. The gang before it must be dissolved."""
        longest = max(layers[0][0].shape[2] for layers in caches)
        for shape in self._shapes:
            if len(caches) <= shape.rows and longest < shape.length:
                return RecordedGang(shape, caches, longest)
        return None


class _RecordedStep:
    """The graph of a step for a number of rows, and all tensors that it reads and writes."""

    def __init__(self, model: nn.Module, rows: int, length: int, recorder: GraphRecorder) -> None:
        from transformers import StaticCache

        self.rows, self.length = rows, length
        device, dtype = recorder.device, next(model.parameters()).dtype
        self.masked = torch.finfo(dtype).min
        self.tokens = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.positions = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.mask = torch.full((rows, 1, 1, length), self.masked, dtype=dtype, device=device)
        cache: Any = StaticCache(config=model.config, max_cache_len=length)
        self._model, self._cache = model, cache
        self._step()  # allocates the cache, and the workspaces of libraries
        self.layers: list[Any] = list(cache.layers)
        if any(layer.keys.shape[2] != length for layer in self.layers):
            raise ValueError("some of its layers keep only the last tokens")
        self.graph, _ = recorder.record(self._step, recorder.pool())

    def _step(self) -> bool:
        result: Any = self._model(
            input_ids=self.tokens,
            past_key_values=self._cache,
            attention_mask=self.mask,
            position_ids=self.positions,
            use_cache=True,
            logits_to_keep=1,
        )
        self.scores: torch.Tensor = result.logits[:, -1]
        return True


class RecordedGang:
    """Several requests in the cache of a recording, padded on the left; to an engine it is like `Gang`."""

    def __init__(self, shape: _RecordedStep, caches: Sequence[Layers], longest: int) -> None:
        self.lengths = [layers[0][0].shape[2] for layers in caches]
        self._shape = shape
        self._pads = [longest - length for length in self.lengths]
        self._column = longest
        shape.mask.fill_(shape.masked)
        for row, pad in enumerate(self._pads):
            shape.mask[row, ..., pad:longest] = 0
        for layer, fixed in enumerate(shape.layers):
            fixed.cumulative_length.fill_(longest)
            for row, (pad, layers) in enumerate(zip(self._pads, caches, strict=True)):
                fixed.keys[row, :, pad:longest] = layers[layer][0][0]
                fixed.values[row, :, pad:longest] = layers[layer][1][0]

    @property
    def full(self) -> bool:
        """Whether the cache has no room for another step."""
        return self._column >= self._shape.length

    def step(self, model: nn.Module, tokens: Sequence[int]) -> torch.Tensor:
        """Feed a token per member; returns the scores of the next tokens, a row each."""
        del model  # it is in the graph
        shape, count = self._shape, len(self.lengths)
        shape.mask[:count, ..., self._column] = 0
        fed = torch.tensor([tokens, self.lengths]).unsqueeze(2)
        shape.tokens[:count].copy_(fed[0], non_blocking=True)
        shape.positions[:count].copy_(fed[1], non_blocking=True)
        shape.graph.replay()
        self._column += 1
        self.lengths = [length + 1 for length in self.lengths]
        return shape.scores[:count]

    def member(self, place: int) -> Layers:
        """One member's own cache, without the padding."""
        own = slice(self._pads[place], self._column)
        return [
            (layer.keys[place : place + 1, :, own].clone(), layer.values[place : place + 1, :, own].clone())
            for layer in self._shape.layers
        ]
