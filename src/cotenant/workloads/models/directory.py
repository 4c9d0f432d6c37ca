"""A user's model: a local Hugging Face directory, named by its path."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import DECODER_MODES, Architecture, Family, ModelEntry
from cotenant.workloads.models.weights_folder import has_weights, read_config

_AUTO = "AutoConfig"
_OWN = {"efficientnet_lite": "cotenant.workloads.models.efficientnet"}
"""Models that transformers lacks, and the module that registers them."""
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert")
"""Families that number positions from 2, so that two of them are unusable."""


def directory_entry(name: str) -> ModelEntry:
    """The model in a directory; its weights are read from there, or random if there are none."""
    folder = Path(name).expanduser()
    config = read_config(folder)
    family = _family(folder, config)
    return ModelEntry(
        name=name,
        family=family,
        about=f"{config.get('model_type', 'a model')} in {folder}",
        architecture=_architecture(family, config),
        config=config,
        source=str(folder),
        seq=None if family == "vision" else min(128, _positions(config)),
        max_seq=None if family == "vision" else _positions(config),
        image=_image(config) if family == "vision" else None,
        folder=str(folder),
        weights=str(folder) if has_weights(folder) else None,
    )


def _family(folder: Path, config: Mapping[str, Any]) -> Family:
    architectures = config.get("architectures") or [""]
    built_as = str(architectures[0])
    if built_as.endswith(("ForCausalLM", "LMHeadModel")):
        return "decoder"
    if built_as.endswith("ForImageClassification"):
        return "vision"
    if "vocab_size" in config and not config.get("is_encoder_decoder", False):
        return "encoder"
    raise WorkloadError(
        f"{folder} holds {built_as or 'a model'}, which is not an encoder, decoder or image classifier",
        hint="write a function that returns your model's call, and name it as package.module:function",
    )


def _architecture(family: Family, config: Mapping[str, Any]) -> Architecture:
    match family:
        case "decoder":
            classes, trains = dict.fromkeys(DECODER_MODES, "AutoModelForCausalLM"), "forward"
        case "vision":
            classes, trains = {"classify": "AutoModelForImageClassification"}, "classify"
        case _:
            classes = {"embed": "AutoModel", "classify": "AutoModelForSequenceClassification"}
            trains = "classify"
    model_type = config.get("model_type")
    module = _OWN.get(str(model_type), "transformers")
    return Architecture(module, _AUTO, classes, trains=trains, model_type=model_type)


def _positions(config: Mapping[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings") or config.get("n_positions") or 512)
    return positions - 2 if config.get("model_type") in _OFFSET_POSITIONS else positions


def _image(config: Mapping[str, Any]) -> int:
    size = config.get("image_size") or 224
    return int(size if isinstance(size, int) else size[0])
