"""Cuts placed by time: neighbouring layers run together until they are worth a chunk."""

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from torch import nn

from cotenant.serving.chunking.greenlets import Cuts

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


def group(times: Sequence[float], wanted: float) -> list[int]:
    """Start of each group when neighbours are merged up to the target time.

    The rest joins the last group if it is less than half of the target.
    """
    starts, gathered = [0], 0.0
    for place, time_s in enumerate(times):
        if gathered and gathered + time_s / 2 > wanted:
            starts.append(place)
            gathered = 0.0
        gathered += time_s
    if len(starts) > 1 and gathered < wanted / 2:
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


# --- where a model may be cut: between its layers, never inside a kernel, so that results stay bit-identical

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
    wanted = min(most, len(cuts))
    if wanted <= 1:
        return ()
    places = sorted({round(part * len(cuts) / wanted) for part in range(1, wanted)})
    return tuple(cuts[place] for place in places)
