"""Where a model may be cut: between its layers, never inside a kernel, so that results stay bit-identical."""

from collections.abc import Sequence

from torch import nn

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
