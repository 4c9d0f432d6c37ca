"""Weights from a directory or the hub, read as data: safetensors only, never code."""

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.weights_folder import is_path


def load(entry: ModelEntry, mode: str, weights: str, *, dtype: torch.dtype, seed: int) -> nn.Module:
    """The entry's model with these weights, on the host."""
    return load_and_tell(entry, mode, weights, dtype=dtype, seed=seed)[0]


def load_and_tell(
    entry: ModelEntry, mode: str, weights: str, *, dtype: torch.dtype, seed: int
) -> tuple[nn.Module, tuple[str, ...]]:
    """The entry's model with these weights, and the names of parameters missing from them."""
    local = is_path(weights)
    source = str(Path(weights).expanduser()) if local else weights
    library = importlib.import_module(entry.architecture.module)
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    model_class: Any = getattr(library, entry.architecture.classes[mode])
    try:
        with torch.random.fork_rng(devices=[]):  # a head missing from the weights is drawn from the seed
            torch.manual_seed(seed)
            model, info = model_class.from_pretrained(
                source,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=local,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as error:
        where = f"the weights in {weights}" if local else f"{weights} from the hub"
        hint = "check the files" if local else "check the network and the id; a directory needs no network"
        raise WorkloadError(f"{entry.name} can't use {where}: {_first_line(error)}", hint=hint) from error
    loaded: nn.Module = model.eval()
    return loaded, tuple(sorted(info["missing_keys"]))


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
