"""A model without its weights: parameters on `meta`, buffers (rotary frequencies, position numbers) real."""

import importlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from cotenant.workloads.models.entry import ModelEntry


def skeleton(entry: ModelEntry, mode: str, overrides: Mapping[str, Any] | None = None) -> nn.Module:
    """The entry's model for this mode, every parameter on `meta`: no memory and no time spent on weights."""
    module = importlib.import_module(entry.architecture.module)
    if entry.architecture.module == "transformers":
        module.logging.set_verbosity_error()
    config = getattr(module, entry.architecture.config)(**{**entry.config, **(overrides or {})})
    return assemble(getattr(module, entry.architecture.classes[mode]), config)


def assemble(model_class: type[nn.Module], config: Any) -> nn.Module:
    """A model of this class and configuration, with its parameters on `meta`."""
    with parameters_on_meta(), torch.no_grad():
        model = model_class(config)
    return model.eval()


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Modules built by this thread get their parameters on `meta`; what initialises them then costs nothing."""
    builder = threading.get_ident()

    def to_meta(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> Any:
        # Tenants may be threads of one process: another one's modules are none of our business.
        if parameter is None or parameter.is_meta or threading.get_ident() != builder:
            return None
        return nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)

    handle = register_module_parameter_registration_hook(to_meta)
    try:
        yield
    finally:
        handle.remove()
