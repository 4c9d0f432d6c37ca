"""A model without weights: parameters on `meta`, buffers (rotary frequencies, position numbers) real."""

import importlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.libraries import LIBRARIES, make

_LARGE = 2**26
"""Elements of a tensor that only exists as a shape here."""


def build_skeleton(entry: ModelEntry, mode: str) -> nn.Module:
    """The entry's model for this mode, with every parameter on `meta`: weights cost neither memory nor time."""
    architecture = entry.architecture
    if architecture.module in LIBRARIES:
        return assemble(lambda library_entry: _Plain(make(library_entry)), entry)
    module = importlib.import_module(architecture.module)
    if architecture.module == "transformers":
        module.logging.set_verbosity_error()
    if entry.folder is not None:
        return _from_folder(module, entry, mode)
    config = getattr(module, architecture.config)(**entry.config)
    return assemble(getattr(module, architecture.classes[mode]), config)


def _from_folder(module: Any, entry: ModelEntry, mode: str) -> nn.Module:
    try:
        config = module.AutoConfig.from_pretrained(entry.folder, local_files_only=True, trust_remote_code=False)
        auto = getattr(module, entry.architecture.classes[mode])
        return assemble(lambda settings: auto.from_config(settings, trust_remote_code=False), config)
    except (ValueError, KeyError, OSError) as error:
        raise WorkloadError(
            f"{entry.folder} holds a model that transformers does not know: {str(error).splitlines()[0]}",
            hint="models that bring their own code are not run; name a function package.module:function instead",
        ) from error


class _Plain(nn.Module):
    """A library's image model with the interface of all others: pixels in, an object with `logits` out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.model(pixel_values))


def assemble(make_model: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """The model this class (or function) makes from a configuration, with its parameters on `meta`."""
    with parameters_on_meta(), torch.no_grad(), _Shapes():
        model = make_model(config)
    return model.eval()


class _Shapes(TorchFunctionMode):
    """Spare work on tensors that are only shapes here.

    What is too large to exist even briefly is created on `meta` (a layer's experts are a single tensor), and nothing
    on `meta` is initialised.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in _INITIALISERS:
            tensor = args[0] if args else given["tensor"]
            if tensor.is_meta:
                return tensor
        if func is torch.empty and given.get("device") is None and _numbers(args) > _LARGE:
            given = {**given, "device": "meta"}
        return func(*args, **given)


_INITIALISERS = frozenset({
    nn.init.constant_, nn.init.kaiming_uniform_, nn.init.normal_, nn.init.uniform_,
    torch.Tensor.fill_, torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.zero_,
})  # fmt: skip


def _numbers(sizes: Any) -> int:
    flat = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return math.prod(flat)


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Modules built by this thread get their parameters on `meta`, so that initialising them is free."""
    builder = threading.get_ident()

    def to_meta(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> Any:
        # Tenants may be threads of a process: leave other threads' modules alone.
        if parameter is None or parameter.is_meta or threading.get_ident() != builder:
            return None
        on_meta = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        on_meta._is_hf_initialized = True  # type: ignore[attr-defined]  # noqa: SLF001  spares transformers' initialising
        return on_meta

    handle = register_module_parameter_registration_hook(to_meta)
    try:
        yield
    finally:
        handle.remove()


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
    """A function that makes the values of each parameter in turn, the same for the same seed."""
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
