"""Image models of timm and torchvision by name; those in the catalogue can be described without the library."""

import importlib
import re
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import Architecture, ModelEntry, shape
from cotenant.workloads.models.vision import VISION, scaling

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
    known = {entry.name.replace("-", "_"): entry for entry in VISION}.get(model)
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


_NAMES = re.compile(
    r"(?P<resnet>resnet(?:18|34|50|101|152))"
    r"|vit_(?P<vit>tiny|small|base|large|huge)_patch(?P<patch>8|14|16|32)_(?:224|384)"
    r"|mobilenetv2_(?P<mobilenet>050|075|100|140)"
    r"|efficientnet_b(?P<efficientnet>[0-7])"
    r"|efficientnetv2_(?P<v2>s|m|l)"
)
_VIT = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "huge": (1280, 32, 16),
}
"""Width, layers, heads."""
_EFFICIENTNET = (
    (1.0, 1.0, 1280),
    (1.0, 1.1, 1280),
    (1.1, 1.2, 1408),
    (1.2, 1.4, 1536),
    (1.4, 1.8, 1792),
    (1.6, 2.2, 2048),
    (1.8, 2.6, 2304),
    (2.0, 3.1, 2560),
)
"""Width, depth and last layer of B0 to B7."""
_V2_MEDIUM = (
    (True, 1, 1, 24, 3),
    (True, 4, 2, 48, 5),
    (True, 4, 2, 80, 5),
    (False, 4, 2, 160, 7),
    (False, 6, 1, 176, 14),
    (False, 6, 2, 304, 18),
    (False, 6, 1, 512, 5),
)


def _base(model: str) -> str:
    """The name without the weights suffix that newer tables add: `resnet50.a1_in1k`."""
    return model.partition(".")[0]


def stand_in(model: str, image: int) -> ModelEntry | None:
    """The described equivalent of a timm model at this image size; None if there is none."""
    match = _NAMES.fullmatch(_base(model))
    if match is None:
        return None
    known = {entry.name: entry for entry in VISION}
    base, changes = _variant(match, image)
    entry = known[base]
    return replace(entry, image=image, config={**entry.config, **changes})


def _variant(match: re.Match[str], image: int) -> tuple[str, dict[str, Any]]:
    """The catalogue model it is a variant of, and the differences."""
    if match["vit"]:
        width, layers, heads = _VIT[match["vit"]]
        sizes = shape(width, layers, heads, 4 * width)
        return "vit-b-16", {**sizes, "patch_size": int(match["patch"]), "image_size": image}
    if match["mobilenet"]:
        width = int(match["mobilenet"])
        return "mobilenet-v2", {"depth_multiplier": width / 100, "image_size": image, "tf_padding": False}
    if match["efficientnet"]:
        return "efficientnet-b0", scaling(*_EFFICIENTNET[int(match["efficientnet"])], image)
    if match["v2"] == "m":
        return "efficientnet-v2-s", {"parts": _V2_MEDIUM}
    return match["resnet"] or f"efficientnet-v2-{match['v2']}", {}
