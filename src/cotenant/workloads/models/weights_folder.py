"""Requirements on a directory of weights: checked from names and `config.json`, before anything is read."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.hub import check_hub_id

_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


def is_path(weights: str) -> bool:
    """True for a path on this machine rather than a hub id: it exists, or looks like one."""
    return Path(weights).expanduser().exists() or weights.startswith((".", "~", os.sep))


def check_weights(entry: ModelEntry, weights: str) -> None:
    """Refuse weights that are missing, not safetensors, or of another model."""
    if entry.architecture.model_type is None:
        raise WorkloadError(f"{entry.name} takes no weights, only random ones", hint="leave `weights` out")
    if not is_path(weights):
        check_hub_id(weights)
        return
    folder = Path(weights).expanduser()
    config = read_config(folder)
    _require_safetensors(folder)
    found = config.get("model_type")
    if found != entry.architecture.model_type:
        raise WorkloadError(
            f"{weights} holds a model of type {found!r}, but {entry.name} is {entry.architecture.model_type!r}",
            hint="name the directory itself as the workload, or give the weights of this model",
        )
    for key, value in entry.config.items():
        if isinstance(value, int) and key in config and config[key] != value:
            raise WorkloadError(
                f"{weights} has {key} {config[key]}, but {entry.name} has {value}",
                hint="name the directory itself as the workload, or give the weights of this size",
            )


def read_config(folder: Path) -> Mapping[str, Any]:
    """The `config.json` of a directory."""
    if not folder.is_dir():
        raise WorkloadError(f"there is no directory {folder}", hint="give a directory with config.json and safetensors")
    try:
        config = json.loads(opening.read_text(folder / "config.json"))
    except FileNotFoundError:
        raise WorkloadError(
            f"{folder} has no config.json", hint="a Hugging Face directory has config.json and model.safetensors"
        ) from None
    except (OSError, ValueError) as error:
        raise WorkloadError(f"{folder / 'config.json'} can't be read: {error}") from None
    if not isinstance(config, dict):
        raise WorkloadError(f"{folder / 'config.json'} does not hold a configuration")
    return config


def has_weights(folder: Path) -> bool:
    """True if a directory holds weights; a configuration alone suffices for random ones and simulated GPUs.

    Raises:
        WorkloadError: Its weights are pickled.
    """
    if any(folder.glob("*.safetensors")):
        return True
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLED)
    if pickled:
        raise WorkloadError(
            f"{folder} has its weights as {pickled[0]}, which can run code when it is read",
            hint="convert them to safetensors first; pickled weights are never loaded",
        )
    return False


def _require_safetensors(folder: Path) -> None:
    if not has_weights(folder):
        raise WorkloadError(f"{folder} has no safetensors", hint="it needs model.safetensors, or parts and an index")
