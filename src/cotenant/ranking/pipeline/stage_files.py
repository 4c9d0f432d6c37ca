"""Files that stages read: weights, made once, and one batch of hidden states as the input of a slice."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.cache import cache_folder
from cotenant.errors import WorkloadError
from cotenant.ranking.pipeline.extractor import Batch

if TYPE_CHECKING:
    import torch
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


def weights_file(key: dict[str, Any]) -> Path:
    """Where the weights of this module are."""
    name = hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:24]
    return cache_folder("search") / f"{name}.safetensors"


def write_once(file: Path, model: "nn.Module") -> None:
    """Write a module's state atomically, and wait until it is on disk."""
    if file.is_file():
        return
    from safetensors.torch import save_file

    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: value.contiguous().clone() for name, value in model.state_dict().items()}, part)
        with part.open("rb") as handle:
            os.fsync(handle.fileno())
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise WorkloadError(
            f"the weights can't be written to {file.parent}: {error.strerror or error}",
            hint="free some space, or set XDG_CACHE_HOME to a folder on another disk",
        ) from error


def read_state(file: Path) -> dict[str, "torch.Tensor"]:
    """Read all of it into our own memory: a mapped file would be read later, in another stage."""
    from safetensors.torch import load_file

    return {name: value.clone() for name, value in load_file(file).items()}


def forget(files: Iterable[Path]) -> None:
    """Drop these files from the page cache, so that the next read comes from disk."""
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """One batch in a file."""

    file: Path
    shape: tuple[int, ...]
    dtype: "torch.dtype"

    @property
    def name(self) -> str:
        """Description for the records."""
        return f"hidden states {'x'.join(map(str, self.shape))}, one batch read again each time"

    @classmethod
    def of(cls, shape: tuple[int, ...], *, dtype: "torch.dtype", seed: int) -> "HiddenStates":
        """Normal hidden states of this shape, written once."""
        import torch
        from safetensors.torch import save_file

        name = hashlib.sha256(repr((shape, str(dtype), seed)).encode()).hexdigest()[:24]
        file = cache_folder("search") / f"hidden-{name}.safetensors"
        if not file.is_file():
            hidden = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                save_file({"hidden": hidden}, file)
            except OSError as error:
                file.unlink(missing_ok=True)
                size = math.prod(shape) * hidden.element_size() / 1e6
                raise WorkloadError(
                    f"{size:.0f} MB of hidden states can't be written to {file.parent}: {error.strerror or error}",
                    hint="free some space, or set XDG_CACHE_HOME to a folder on another disk",
                ) from error
        return cls(file, shape, dtype)

    def load(self, _: int) -> Batch:
        """Read the batch."""
        from safetensors.torch import load_file

        return {"hidden": load_file(self.file)["hidden"].clone()}
