"""timm's names of networks the catalogue has in another size: their structure, without timm."""

import re
from dataclasses import replace
from typing import Any

from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.vision import VISION

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
        return "vit-b-16", {
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * width,
            "patch_size": int(match["patch"]),
            "image_size": image,
        }
    if match["mobilenet"]:
        return "mobilenet-v2", {
            "depth_multiplier": int(match["mobilenet"]) / 100,
            "image_size": image,
            "tf_padding": False,
        }
    if match["efficientnet"]:
        wide, deep, last = _EFFICIENTNET[int(match["efficientnet"])]
        sizes = {"width_coefficient": wide, "depth_coefficient": deep, "hidden_dim": last, "image_size": image}
        return "efficientnet-b0", sizes
    if match["v2"] == "m":
        return "efficientnet-v2-s", {"parts": _V2_MEDIUM}
    return match["resnet"] or f"efficientnet-v2-{match['v2']}", {}
