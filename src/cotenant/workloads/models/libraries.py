"""Image models of timm and torchvision by their own names, where those libraries can be imported."""

import importlib
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import Architecture, ModelEntry

LIBRARIES = ("timm", "torchvision")


def library_entry(name: str) -> ModelEntry:
    """The entry for `timm:resnet50` or `torchvision:resnet50`."""
    library, _, model = name.partition(":")
    return ModelEntry(
        name=name,
        family="vision",
        about=f"{model} of {library}",
        architecture=Architecture(library, "", {"classify": model}, trains="classify"),
        config={},
        image=224,
    )


def check_library(entry: ModelEntry) -> None:
    """Refuse a name whose library is not there or does not know it."""
    library, model = entry.architecture.module, entry.architecture.classes["classify"]
    known = _names(_import(library), library)
    if model not in known:
        raise WorkloadError(
            f"{library} has no model {model!r}", hint=f"`python -c 'import {library}'` and list its models"
        )


def make(entry: ModelEntry) -> Any:
    """The library's model, as a module that takes images and gives scores."""
    library, model = entry.architecture.module, entry.architecture.classes["classify"]
    code = _import(library)
    return code.create_model(model) if library == "timm" else code.models.get_model(model)


def _import(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except Exception as error:  # torchvision raises a RuntimeError beside a torch it was not built for
        raise WorkloadError(
            f"{library} can't be imported here ({type(error).__name__}: {error})",
            hint=f"install a {library} that fits this torch: pip install 'cotenant[vision]'",
        ) from error


def _names(code: Any, library: str) -> list[str]:
    names: list[str] = code.list_models() if library == "timm" else code.models.list_models()
    return names
