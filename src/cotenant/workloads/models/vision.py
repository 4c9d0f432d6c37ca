"""Image classifiers. Figures: the model pages of torchvision, whose parameter counts these architectures share."""

from collections.abc import Mapping
from typing import Any

from cotenant.workloads.models.entry import Architecture, ModelEntry, shape


def _classifier(stem: str, model_type: str, blocks: int | None = None) -> Architecture:
    classes = {"classify": f"{stem}ForImageClassification"}
    return Architecture("transformers", f"{stem}Config", classes, "classify", model_type, blocks)


RESNET = _classifier("ResNet", "resnet")
MOBILENET_V2 = _classifier("MobileNetV2", "mobilenet_v2", 16)
EFFICIENTNET = _classifier("EfficientNet", "efficientnet", 16)
VIT = _classifier("ViT", "vit")
EFFICIENTNET_V2 = Architecture(
    "cotenant.workloads.models.efficientnet",
    "EfficientNetV2Config",
    {"classify": "EfficientNetV2ForImageClassification"},
    trains="classify",
)
CLASSIC = Architecture(
    "cotenant.workloads.models.networks", "NetworkConfig", {"classify": "Network"}, trains="classify"
)
YOLOS = Architecture(
    "transformers", "YolosConfig", {"classify": "YolosForObjectDetection"}, trains=None, model_type="yolos"
)

_BASIC = {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512]}
_BOTTLENECK = {"layer_type": "bottleneck", "hidden_sizes": [256, 512, 1024, 2048]}
_MINI_BASIC = {"hidden_sizes": [16, 32, 64, 128], "embedding_size": 16}
_MINI_BOTTLENECK = {"hidden_sizes": [64, 128, 256, 512], "embedding_size": 16}


def _image_model(  # noqa: PLR0917 - a row of the table
    name: str,
    architecture: Architecture,
    config: Mapping[str, Any],
    mini: Mapping[str, Any],
    params: int,
    about: str,
    page: str,
    *,
    image: int = 224,
    mini_image: int = 64,
) -> ModelEntry:
    return ModelEntry(
        name=name,
        family="vision",
        about=about,
        architecture=architecture,
        config={**config, "num_labels": 1000},
        mini={**mini, "num_labels": 100},
        params=params,
        counted="with the head for 1000 classes",
        source=f"docs.pytorch.org/vision/stable/models/generated/torchvision.models.{page}.html",
        image=image,
        mini_image=mini_image,
    )


def _resnet(depth: int, blocks: list[int], params: int, mini_blocks: list[int]) -> ModelEntry:
    basic = depth < 50
    config = {**(_BASIC if basic else _BOTTLENECK), "depths": blocks}
    mini = {**(_MINI_BASIC if basic else _MINI_BOTTLENECK), "depths": mini_blocks}
    about = f"ResNet-{depth}, {'basic' if basic else 'bottleneck'} blocks, stride in the 3x3 convolution"
    return _image_model(f"resnet{depth}", RESNET, config, mini, params, about, f"resnet{depth}")


def _vit(size: str, patch: int, params: int) -> ModelEntry:
    width, layers, heads = {"b": (768, 12, 12), "l": (1024, 24, 16)}[size]
    config = {**shape(width, layers, heads, 4 * width), "patch_size": patch, "image_size": 224}
    mini = {**shape(128, 4 if size == "b" else 6, 4, 512), "patch_size": patch // 2, "image_size": 64}
    about = f"Vision Transformer {'base' if size == 'b' else 'large'}, {patch}x{patch} patches"
    return _image_model(f"vit-{size}-{patch}", VIT, config, mini, params, about, f"vit_{size}_{patch}")


def scaling(width: float, depth: float, last: int, image: int) -> dict[str, Any]:
    """Dimensions of an EfficientNet: B0's times these factors, and its last layer."""
    return {"width_coefficient": width, "depth_coefficient": depth, "hidden_dim": last, "image_size": image}


def _efficientnet_v2(
    size: str, config: Mapping[str, Any], mini: Mapping[str, Any], params: int, image: int
) -> ModelEntry:
    name, about = f"efficientnet-v2-{size}", f"EfficientNet-V2 {size.upper()}, fused and plain inverted residuals"
    page = f"efficientnet_v2_{size}"
    return _image_model(name, EFFICIENTNET_V2, config, mini, params, about, page, image=image)


_MINI_CLASSICS: Mapping[str, Mapping[str, Any]] = {
    "vgg": {"blocks": (1, 1, 1, 1, 1), "thin": 4, "hidden": 64},
    "densenet": {"blocks": (2, 2, 3, 2), "thin": 4},
    "inception": {"thin": 4},
}


def _classic(name: str, family: str, blocks: tuple[int, ...], params: int, about: str) -> ModelEntry:
    config, page = {"family": family, "blocks": blocks}, name.replace("-", "_")
    return _image_model(name, CLASSIC, config, _MINI_CLASSICS[family], params, about, page, mini_image=96)


def _vgg(depth: int, blocks: tuple[int, ...], params: int) -> ModelEntry:
    return _classic(f"vgg{depth}", "vgg", blocks, params, f"VGG-{depth}, 3x3 convolutions only")


def _densenet(depth: int, blocks: tuple[int, ...], params: int) -> ModelEntry:
    return _classic(f"densenet{depth}", "densenet", blocks, params, f"DenseNet-{depth}, growth 32")


# Each stage of an EfficientNet-V2: fused?, expansion, stride, width, blocks.
_V2_SMALL = {
    "stem": 24,
    "dropout": 0.2,
    "parts": (
        (True, 1, 1, 24, 2),
        (True, 4, 2, 48, 4),
        (True, 4, 2, 64, 4),
        (False, 4, 2, 128, 6),
        (False, 6, 1, 160, 9),
        (False, 6, 2, 256, 15),
    ),
}
_MINI_V2_SMALL = {
    "stem": 8,
    "head": 256,
    "parts": (
        (True, 1, 1, 8, 1),
        (True, 4, 2, 16, 1),
        (True, 4, 2, 24, 2),
        (False, 4, 2, 32, 2),
        (False, 6, 1, 40, 2),
        (False, 6, 2, 64, 3),
    ),
}
_V2_LARGE = {
    "stem": 32,
    "dropout": 0.4,
    "parts": (
        (True, 1, 1, 32, 4),
        (True, 4, 2, 64, 7),
        (True, 4, 2, 96, 7),
        (False, 4, 2, 192, 10),
        (False, 6, 1, 224, 19),
        (False, 6, 2, 384, 25),
        (False, 6, 1, 640, 7),
    ),
}
_MINI_V2_LARGE = {
    "stem": 8,
    "head": 256,
    "parts": (
        (True, 1, 1, 8, 1),
        (True, 4, 2, 16, 2),
        (True, 4, 2, 24, 2),
        (False, 4, 2, 32, 2),
        (False, 6, 1, 40, 3),
        (False, 6, 2, 64, 3),
        (False, 6, 1, 96, 2),
    ),
}

_YOLOS_SMALL = ModelEntry(
    name="yolos-small",
    family="vision",
    about="YOLOS small, a ViT that detects objects; images of 1024x1024, as many pixels as photographs of 800x1333",
    architecture=YOLOS,
    config={
        **shape(384, 12, 6, 1536),
        "num_detection_tokens": 100,
        "image_size": [512, 864],
        "patch_size": 16,
        "use_mid_position_embeddings": True,
        "num_labels": 91,
    },
    mini=shape(96, 3, 3, 384),
    params=30_684_768,
    counted="with its detection heads, as configured (30.7 M by its card)",
    source="huggingface.co/hustvl/yolos-small",
    image=1024,
    mini_image=128,
)

_POINTNET = ModelEntry(
    name="pointnet",
    family="vision",
    about="PointNet classifier with both transforms; the pixels of an image of 32 x 32 are its 1024 points",
    architecture=CLASSIC,
    config={"family": "pointnet", "num_labels": 40},
    mini={"thin": 4},
    params=3_480_049,
    counted="with both transforms and the head for 40 classes, counted from its layers",
    source="arxiv.org/abs/1612.00593",
    image=32,
    mini_image=32,
)

VISION: tuple[ModelEntry, ...] = (
    _resnet(18, [2, 2, 2, 2], 11_689_512, [2, 2, 2, 2]),
    _resnet(34, [3, 4, 6, 3], 21_797_672, [2, 3, 3, 2]),
    _resnet(50, [3, 4, 6, 3], 25_557_032, [2, 2, 2, 2]),
    _resnet(101, [3, 4, 23, 3], 44_549_160, [2, 2, 4, 2]),
    _resnet(152, [3, 8, 36, 3], 60_192_808, [2, 3, 5, 2]),
    _image_model(
        "mobilenet-v2",
        MOBILENET_V2,
        {"depth_multiplier": 1.0, "image_size": 224},
        {"depth_multiplier": 0.35, "image_size": 64},
        3_504_872,
        "MobileNetV2, inverted residuals with depthwise convolutions",
        "mobilenet_v2",
    ),
    _image_model(
        "efficientnet-b0",
        EFFICIENTNET,
        {**scaling(1.0, 1.0, 1280, 224), "dropout_rate": 0.2},
        {"width_coefficient": 0.35, "hidden_dim": 448, "image_size": 64},
        5_288_548,
        "EfficientNet B0, inverted residuals with squeeze and excitation",
        "efficientnet_b0",
    ),
    _efficientnet_v2("s", _V2_SMALL, _MINI_V2_SMALL, 21_458_488, 384),
    _efficientnet_v2("l", _V2_LARGE, _MINI_V2_LARGE, 118_515_272, 480),
    _vgg(11, (1, 1, 2, 2, 2), 132_863_336),
    _vgg(13, (2, 2, 2, 2, 2), 133_047_848),
    _vgg(16, (2, 2, 3, 3, 3), 138_357_544),
    _vgg(19, (2, 2, 4, 4, 4), 143_667_240),
    _densenet(121, (6, 12, 24, 16), 7_978_856),
    _densenet(169, (6, 12, 32, 32), 14_149_480),
    _densenet(201, (6, 12, 48, 32), 20_013_928),
    _classic("inception-v3", "inception", (), 23_834_568, "Inception-v3 without its auxiliary head"),
    _YOLOS_SMALL,
    _POINTNET,
    _vit("b", 16, 86_567_656),
    _vit("b", 32, 88_224_232),
    _vit("l", 16, 304_326_632),
    _vit("l", 32, 306_535_400),
)
