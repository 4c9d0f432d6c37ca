"""Where weights come from: a directory, checked from names and `config.json` before anything is read, or the hub."""

import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from cotenant import opening
from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry

_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


def is_path(weights: str) -> bool:
    """True for a path on this machine rather than a hub id: it exists, or looks like a path."""
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
    model_type = config.get("model_type")
    if model_type != entry.architecture.model_type:
        raise WorkloadError(
            f"{weights} holds a model of type {model_type!r}, but {entry.name} is {entry.architecture.model_type!r}",
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


_ID = re.compile(r"^[\w.-]+(/[\w.-]+)?$")
_PATIENCE_S = 3.0


def check_hub_id(weights: str) -> None:
    """Refuse a malformed id, or an id neither cached here nor reachable."""
    if not _ID.match(weights):
        raise WorkloadError(f"weights {weights!r} is neither a directory nor a hub id", hint="a hub id is owner/name")
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(weights, "config.json"), str) or _by_proxy():
        return
    address = urlparse(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    host = address.hostname or "huggingface.co"
    try:
        socket.create_connection((host, address.port or 443), timeout=_PATIENCE_S).close()
    except OSError as error:
        raise WorkloadError(
            f"weights {weights!r} are neither a directory nor in the local cache, and {host} can't be reached",
            hint="copy the weights here and give their directory, or leave `weights` out for random ones",
        ) from error


def _by_proxy() -> bool:
    """Behind a proxy a direct connection proves nothing."""
    return any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"))
