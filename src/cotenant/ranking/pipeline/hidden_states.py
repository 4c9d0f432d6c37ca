"""Input of a slice instead of data: one batch of hidden states in a file, read again for each batch."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.cache import cache_folder
from cotenant.errors import WorkloadError
from cotenant.ranking.pipeline.loading import Batch

if TYPE_CHECKING:
    import torch


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
