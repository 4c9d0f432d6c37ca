"""Run any module's forward pass in chunks, in a greenlet that switches back at chosen modules.

The model isn't rewritten. Thread-local modes of torch (inference mode, autocast, the current stream) belong to the
thread, not to the greenlet: enter them once around everything that runs chunks.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import greenlet
from torch import nn


class Running:
    """A call in progress. `advance` runs it up to its next cut; `result` is set when it is `done`."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.done = False
        self.result: Any = None
        self._greenlet = _ChunkGreenlet(self._run)
        self._call: Callable[[], Any] | None = call

    def advance(self) -> bool:
        """Run the next chunk; True if the call has ended. Reraises the call's exceptions."""
        if self.done:
            raise RuntimeError("this call has ended")
        self._greenlet.parent = greenlet.getcurrent()
        try:
            self._greenlet.switch()
        except BaseException:
            self.done = True
            raise
        self.done = self._greenlet.dead
        return self.done

    def abandon(self) -> None:
        """End a call that is no longer wanted and free its tensors."""
        if not self.done and self._greenlet:
            self._greenlet.parent = greenlet.getcurrent()
            self._greenlet.throw(greenlet.GreenletExit)
        self.done, self._call = True, None

    def _run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        self.result = call()


class _ChunkGreenlet(greenlet.greenlet):
    """Marks greenlets that cuts may stop; a plain call of the same model isn't interrupted."""


class Cuts:
    """Cuts at modules of a model, while the context is open."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._handles = [module.register_forward_pre_hook(_pause) for module in modules]
        self.chunks = len(modules) + 1

    def start(self, call: Callable[[], Any]) -> Running:
        """A call that will stop at the cuts, not started yet."""
        return Running(call)

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _pause(module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG001 - torch's signature of a hook
    current = greenlet.getcurrent()
    if isinstance(current, _ChunkGreenlet) and current.parent is not None:
        current.parent.switch()


# Cuts placed by time: neighbouring layers run together until they are worth a chunk.

CHUNK_S = 5e-3
"""Target chunk length: long compared with a decision, short compared with the tightest objective."""
ROUNDS = 3


def balanced_cuts(
    model: nn.Module, call: Callable[[], Any], *, wait: Callable[[], None] = lambda: None, chunk_s: float = CHUNK_S
) -> tuple[nn.Module, ...]:
    """Where to cut a model so that its chunks take about ``chunk_s`` each; empty if it takes no longer in total.

    Args:
        model: Timed in place, with a cut before each of its layers.
        call: A typical request.
        wait: Waits for the device to finish its work.
        chunk_s: Target length.
    """
    candidates = list(dict.fromkeys(find_cuts(model)))
    if not candidates:
        return ()
    seen: list[nn.Module] = []
    handles = [module.register_forward_pre_hook(lambda module, _: seen.append(module)) for module in candidates]
    try:
        call()  # find the layers that run, in order; layers that run twice are ambiguous and left out
    finally:
        for handle in handles:
            handle.remove()
    order = [module for module in seen if seen.count(module) == 1]
    if not order:
        return ()
    rounds = [_times(order, call, wait) for _ in range(ROUNDS)]
    times = [statistics.median(part) for part in zip(*rounds, strict=True)]
    return tuple(order[place - 1] for place in group(times, chunk_s) if place > 0)


def group(times: Sequence[float], chunk_s: float) -> list[int]:
    """Start of each group when neighbours are merged up to the target time.

    The rest joins the last group if it is less than half of the target.
    """
    starts, gathered = [0], 0.0
    for place, time_s in enumerate(times):
        if gathered and gathered + time_s / 2 > chunk_s:
            starts.append(place)
            gathered = 0.0
        gathered += time_s
    if len(starts) > 1 and gathered < chunk_s / 2:
        starts.pop()
    return starts


def _times(order: Sequence[nn.Module], call: Callable[[], Any], wait: Callable[[], None]) -> list[float]:
    with Cuts(order) as cuts:
        running = cuts.start(call)
        stamps = [time.perf_counter()]
        ended = False
        while not ended:
            ended = running.advance()
            wait()
            stamps.append(time.perf_counter())
    return [after - before for before, after in pairwise(stamps)]


# Where a model may be cut: between its layers, never inside a kernel, so that results stay bit-identical.

FEWEST = 2
"""Minimum modules in a list to count as a stack of layers."""


def find_cuts(model: nn.Module) -> tuple[nn.Module, ...]:
    """The modules before which a forward pass may stop, in order of definition.

    Layers live in `ModuleList`s and `Sequential`s. Nested lists (stages of blocks, blocks of convolutions) get cuts
    too; cuts are merged by time afterwards.
    """
    cuts: list[nn.Module] = []
    _collect(model, cuts)
    return tuple(cuts)


def _collect(module: nn.Module, cuts: list[nn.Module]) -> None:
    for child in module.children():
        if isinstance(child, nn.ModuleList | nn.Sequential) and len(child) >= FEWEST:
            for item in child:
                _take(item, cuts)
        else:
            _collect(child, cuts)


def _take(item: nn.Module, cuts: list[nn.Module]) -> None:
    if isinstance(item, nn.ModuleList | nn.Sequential) and len(item) >= FEWEST:
        for inner in item:
            _take(inner, cuts)
    else:
        cuts.append(item)
        _collect(item, cuts)


def spread(cuts: Sequence[nn.Module], most: int) -> tuple[nn.Module, ...]:
    """At most this many cuts, evenly spread; the first module needs none."""
    count = min(most, len(cuts))
    if count <= 1:
        return ()
    places = sorted({round(part * len(cuts) / count) for part in range(1, count)})
    return tuple(cuts[place] for place in places)
