"""Seeded random weights, written directly in place: no slow initialisation, no second copy."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

_BLOCK = (1 << 17) + 7
"""Random numbers drawn per model; parameters are filled with slices of them, at the speed of a copy. Odd, so
that rows of a matrix don't align with it."""


def materialise(model: nn.Module, *, device: str, dtype: torch.dtype, seed: int) -> nn.Module:
    """Allocate each parameter of a skeleton with seeded values on the device; move the buffers there."""
    fill = random_filler(device=device, dtype=dtype, seed=seed)
    place_parameters(model, lambda owner, _, parameter: fill(owner, parameter))
    place_buffers(model, device=device, dtype=dtype)
    return model


def place_parameters(model: nn.Module, make: Callable[[nn.Module, str, nn.Parameter], torch.Tensor]) -> None:
    """Replace each parameter by the result of ``make``; tied parameters stay tied."""
    done: dict[int, nn.Parameter] = {}
    for owner, name, full_name, parameter in _parameters(model):
        if id(parameter) not in done:
            done[id(parameter)] = nn.Parameter(make(owner, full_name, parameter), requires_grad=parameter.requires_grad)
        setattr(owner, name, done[id(parameter)])


def place_buffers(model: nn.Module, *, device: str, dtype: torch.dtype) -> None:
    """Move the buffers; running statistics take the dtype, derived constants (rotary frequencies) keep theirs."""
    for prefix, owner in model.named_modules():
        for name, buffer in list(owner.named_buffers(recurse=False)):
            statistic = isinstance(owner, nn.modules.batchnorm._BatchNorm) and buffer.is_floating_point()  # noqa: SLF001  the common base of all batch norms
            moved = buffer.to(device=device, dtype=dtype if statistic else None)
            if moved is not buffer:
                setattr(owner, name, moved)
            assert device == "meta" or not moved.is_meta, f"{prefix}.{name} was never computed"


def random_filler(*, device: str, dtype: torch.dtype, seed: int) -> Callable[[nn.Module, nn.Parameter], torch.Tensor]:
    """A function that makes one parameter's values after another, the same for the same seed."""
    if device == "meta":
        return lambda _, parameter: torch.empty(parameter.shape, dtype=dtype, device="meta")
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(_BLOCK, generator=generator).to(device)
    position = 0

    def fill(owner: nn.Module, parameter: nn.Parameter) -> torch.Tensor:
        nonlocal position
        value = torch.empty(parameter.shape, dtype=dtype, device=device)
        if parameter.dim() < 2:
            is_scale = parameter is getattr(owner, "weight", None)
            return value.fill_(1.0 if is_scale else 0.0)
        flat, start = value.view(-1), 0
        while start < flat.numel():
            count = min(flat.numel() - start, _BLOCK - position)
            flat[start : start + count].copy_(normal[position : position + count])
            start += count
            position = (position + count) % _BLOCK
        return value.mul_(_spread(owner, parameter))

    return fill


def _spread(owner: nn.Module, parameter: nn.Parameter) -> float:
    """Standard deviation that preserves activations through the layers, so that none become subnormal."""
    if isinstance(owner, nn.Embedding | nn.EmbeddingBag):
        return 0.02
    if isinstance(owner, nn.Linear | nn.Conv2d):
        return 1 / math.sqrt(max(1, parameter[0].numel()))
    return 1 / math.sqrt(max(parameter.shape[-2:]))


def _parameters(model: nn.Module) -> Iterator[tuple[nn.Module, str, str, nn.Parameter]]:
    for prefix, owner in list(model.named_modules()):
        for name, parameter in list(owner.named_parameters(recurse=False)):
            yield owner, name, f"{prefix}.{name}" if prefix else name, parameter
