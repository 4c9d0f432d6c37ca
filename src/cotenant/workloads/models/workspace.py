"""Memory a kernel takes while it runs that no tensor shows: torch's CPU convolutions, as selected by torch.

Kernels of other devices have their own workspace, mostly smaller; for them this is an upper estimate.
"""

import math
from typing import Any

import torch

_aten = torch.ops.aten
_SMALL_INPUT = 20480
"""Single images up to this many elements are unfolded and multiplied instead of convolved (torch's own threshold)."""
_MANY_IMAGES = 16
"""From this batch on, 1x1 convolutions are convolved too instead of multiplied."""


def workspace_bytes(func: Any, args: tuple[Any, ...], results: list[torch.Tensor]) -> int:
    """Bytes the operator needs besides its inputs and outputs."""
    if func is _aten.convolution.default:
        source, weight = args[:2]
        return _convolution(source, weight, results[0], groups=args[8])
    if func is _aten.convolution_backward.default:
        gradient, source, weight = args[:3]
        # Two passes: the output's gradient is rearranged too, and the weights' gradient is made in blocks and restored.
        return _convolution(source, weight, gradient, groups=args[9]) + _size(gradient) + 2 * _size(weight)
    return 0


def _convolution(source: torch.Tensor, weight: torch.Tensor, result: torch.Tensor, *, groups: int) -> int:
    kernel = weight.shape[2:]
    if math.prod(kernel) == 1 and groups == 1 and len(source) < _MANY_IMAGES:
        return 0
    unfolds = groups == 1 and len(source) == 1 and source.numel() <= _SMALL_INPUT and max(kernel) <= 3
    if unfolds:
        return weight[0].numel() * math.prod(result.shape[2:]) * source.element_size()
    # All are rearranged into channel blocks; three-colour images stay as they are. The source's blocks
    # are released before the result is rearranged, so only the larger of the two counts.
    return _size(weight) + max(_size(source) if source.shape[1] > 3 else 0, _size(result))


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
