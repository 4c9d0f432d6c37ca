"""What can be ranked: image classifiers and text encoders, of the catalogue or in a directory, and what they read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.ranking.protocol import Kind
from cotenant.workloads.models.entry import ModelEntry

FAMILIES: Mapping[str, Kind] = {"vision": "image", "encoder": "text"}
DEFAULT_DATA: Mapping[Kind, str] = {"image": "embedded:fashion@{image}", "text": "embedded:glosses"}


def find_candidate(name: str) -> ModelEntry:
    """The model of that name. Raises WorkloadError where it gives no features."""
    from cotenant.workloads.catalogue import find
    from cotenant.workloads.models.workload import ModelWorkload

    workload = find(name)
    if not isinstance(workload, ModelWorkload) or workload.family not in FAMILIES:
        raise WorkloadError(
            f"{name} is no candidate of a search: it is neither an image classifier nor a text encoder",
            hint="take a vision or encoder model of `cotenant workloads`, or a directory with weights",
        )
    return workload.entry


def kind_of(entry: ModelEntry) -> Kind:
    """Which data it reads."""
    return FAMILIES[entry.family]


def feature_mode(entry: ModelEntry) -> str:
    """The mode whose class gives features: images by their classifier without its head, texts by the encoder."""
    return "classify" if entry.family == "vision" else "embed"


def input_shape(entry: ModelEntry, *, seq: int | None = None) -> dict[str, Any]:
    """What `Data.load` is to make for this model."""
    if kind_of(entry) == "image":
        return {"image": entry.image or 224, **_pixels(entry.folder)}
    folder = entry.folder if entry.folder and _has_vocabulary(entry.folder) else None
    return {"tokens": seq or entry.seq or 128, "vocabulary": folder, "size": entry.config.get("vocab_size", 30522)}


def default_data(entry: ModelEntry) -> str:
    """What comes with cotenant and suits this model."""
    return DEFAULT_DATA[kind_of(entry)].format(image=entry.image or 224)


def _has_vocabulary(folder: str) -> bool:
    return any((Path(folder) / name).is_file() for name in ("tokenizer.json", "vocab.txt"))


def _pixels(folder: str | None) -> dict[str, Any]:
    """How the weights in a directory want their pixels normalised; ImageNet's way unless they say otherwise."""
    if folder is None:
        return {}
    try:
        said = json.loads((Path(folder) / "preprocessor_config.json").read_text())
        return {"mean": tuple(map(float, said["image_mean"])), "std": tuple(map(float, said["image_std"]))}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
