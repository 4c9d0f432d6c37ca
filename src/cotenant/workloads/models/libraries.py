"""Image models of timm and torchvision by name; those in the catalogue can be described without the library."""

import importlib
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import Architecture, ModelEntry
from cotenant.workloads.models.timm_names import stand_in
from cotenant.workloads.models.vision import VISION

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
    """Refuse a name whose library is missing or doesn't have it."""
    library, model = entry.architecture.module, entry.architecture.classes["classify"]
    if described_without(entry) is not None and not _importable(library):
        return  # it can be simulated; building it reports what is missing
    known = _names(_import(library), library)
    if model not in known:
        raise WorkloadError(
            f"{library} has no model {model!r}", hint=f"`python -c 'import {library}'` and list its models"
        )


def described_without(entry: ModelEntry) -> ModelEntry | None:
    """The same network from the catalogue, to describe it without its library; None if unknown."""
    library, model = entry.architecture.module, entry.architecture.classes["classify"]
    if library == "timm":
        return stand_in(model, entry.image or 224)
    known = {one.name.replace("-", "_"): one for one in VISION}.get(model)
    if known is None:
        return None
    # transformers pads MobileNetV2's images in separate operators; torchvision's convolutions do it.
    padding = {"tf_padding": False} if known.name == "mobilenet-v2" else {}
    return replace(known, image=entry.image or known.image, config={**known.config, **padding})


def _importable(library: str) -> bool:
    return find_spec(library) is not None


def make(entry: ModelEntry) -> Any:
    """The library's model, as a module that maps images to scores."""
    library, model = entry.architecture.module, entry.architecture.classes["classify"]
    code = _import(library)
    return code.create_model(model) if library == "timm" else code.models.get_model(model)


def _import(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except Exception as error:  # torchvision raises a RuntimeError with a torch it was not built for
        raise WorkloadError(
            f"{library} can't be imported here ({type(error).__name__}: {error})",
            hint=f"install a {library} compatible with this torch: pip install 'cotenant[vision]'",
        ) from error


def _names(code: Any, library: str) -> list[str]:
    names: list[str] = code.list_models() if library == "timm" else code.models.list_models()
    return names
