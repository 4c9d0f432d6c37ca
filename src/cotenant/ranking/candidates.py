"""Candidates of a search: image classifiers and text encoders, from the catalogue or a directory, and their inputs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.ranking.pretrained import PRETRAINED, fetched
from cotenant.ranking.protocol import Kind
from cotenant.workloads.models import ModelEntry, directory_entry

FAMILIES: Mapping[str, Kind] = {"vision": "image", "encoder": "text"}
DEFAULT_DATA: Mapping[Kind, str] = {"image": "embedded:fashion@{image}", "text": "embedded:glosses"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be ranked."""

    name: str
    entry: ModelEntry
    weights: str | None
    """The directory with its weights; None for random ones from ``seed``."""
    seed: int = 0

    @property
    def pretrained(self) -> bool:
        """True if its weights were given: only such candidates are ranked."""
        return self.weights is not None

    @property
    def kind(self) -> Kind:
        """The kind of data it reads."""
        return "image" if self.entry.family == "vision" else "text"

    @property
    def shape(self) -> Mapping[str, Any]:
        """The form of its inputs; a decoder reads like an encoder."""
        return input_shape(replace(self.entry, family="encoder") if self.entry.family == "decoder" else self.entry)

    @property
    def shape_key(self) -> str:
        """Equal for candidates with identical inputs."""
        shape = dict(self.shape)
        if shape.get("vocabulary") is not None:
            shape["vocabulary"] = _content(Path(shape["vocabulary"]))
        return json.dumps(shape, sort_keys=True)

    @property
    def architecture(self) -> str:
        """Equal for candidates that differ only in their weights."""
        settings = {key: value for key, value in self.entry.config.items() if key not in _NAMES_ONLY}
        shared = self.entry.architecture
        mode = self.entry.modes[0]
        return json.dumps([_family_class(self.entry, mode), shared.model_type, settings], sort_keys=True, default=str)


_NAMES_ONLY = frozenset({
    "_name_or_path", "architectures", "auto_map", "classifier_dropout", "dtype", "finetuning_task",
    "gradient_checkpointing", "id2label", "label2id", "license", "model_type", "num_labels", "problem_type",
    "return_dict", "torch_dtype", "transformers_version", "use_cache",
})  # fmt: skip
"""Settings that are only names or only matter in training: they don't affect the input of the head."""


def resolve(names: Sequence[str], *, seed: int = 0) -> tuple[Candidate, ...]:
    """The candidates with these names: catalogue names, directories of weights, or directories of such directories.

    Raises:
        WorkloadError: One of them is not a model, or is named twice.
    """
    candidates: list[Candidate] = []
    for name in names:
        candidates += _resolved(name, seed)
    if not candidates:
        raise WorkloadError("no candidates were given", hint="cotenant search --data D --models a,b,c DIR...")
    seen: dict[str, Candidate] = {}
    for candidate in candidates:
        if candidate.name in seen:
            raise WorkloadError(f"{candidate.name} is named twice", hint="name each candidate once")
        seen[candidate.name] = candidate
    return tuple(candidates)


def random_sibling(candidate: Candidate) -> Candidate:
    """The same architecture with random weights: the baseline of a ranking."""
    return Candidate(f"random {family_name(candidate)}", candidate.entry, None, candidate.seed)


def family_name(candidate: Candidate) -> str:
    """Name of the architecture."""
    entry = candidate.entry
    if entry.folder is None:
        return entry.name
    return str(entry.config.get("model_type", entry.name))


def _resolved(name: str, seed: int) -> list[Candidate]:
    from cotenant.workloads import find
    from cotenant.workloads.models import ModelWorkload

    folder = Path(name).expanduser()
    if folder.is_dir() and not (folder / "config.json").exists():
        inner = sorted(child for child in folder.iterdir() if (child / "config.json").exists())
        if not inner:
            raise WorkloadError(
                f"{folder} does not contain a model", hint="a model's directory has config.json and model.safetensors"
            )
        return [candidate for child in inner for candidate in _resolved(str(child), seed)]
    there = fetched(name) if name in PRETRAINED else None
    if there is not None:
        return [Candidate(name, directory_entry(str(there)), str(there), seed)]
    try:
        workload = find(name)
    except WorkloadError:
        if name not in PRETRAINED:
            raise
        raise WorkloadError(
            f"the weights of {name} are not here", hint=f"fetch them with --fetch, {PRETRAINED[name].megabytes:g} MB"
        ) from None
    if not isinstance(workload, ModelWorkload) or workload.family == "recommender":
        raise WorkloadError(
            f"{name} is not a model for images or texts, so it has no features to rank",
            hint="`cotenant workloads` lists encoders, decoders and vision models",
        )
    entry = workload.entry
    if entry.weights is None:
        return [Candidate(name, entry, None, seed)]
    candidate = Candidate(folder.name, entry, entry.weights, seed)
    if candidate.kind == "text" and candidate.shape["vocabulary"] is None:
        raise WorkloadError(
            f"{folder} has no vocabulary, so the model can't read texts",
            hint="put tokenizer.json or vocab.txt next to the weights",
        )
    return [candidate]


def _family_class(entry: ModelEntry, mode: str) -> str:
    return f"{entry.architecture.module}.{entry.architecture.classes[mode]}"


def _content(folder: Path) -> str:
    """A vocabulary by its content: siblings have a copy each."""
    from hashlib import blake2b

    for name in ("tokenizer.json", "vocab.txt"):
        if (folder / name).is_file():
            return f"{name}:{blake2b((folder / name).read_bytes(), digest_size=16).hexdigest()}"
    return str(folder)


def find_candidate(name: str) -> ModelEntry:
    """The model with that name. Raises WorkloadError if it gives no features."""
    from cotenant.workloads.catalogue import find
    from cotenant.workloads.models import ModelWorkload

    workload = find(name)
    if not isinstance(workload, ModelWorkload) or workload.family not in FAMILIES:
        raise WorkloadError(
            f"{name} can't be a candidate: it is neither an image classifier nor a text encoder",
            hint="use a vision or encoder model from `cotenant workloads`, or a directory with weights",
        )
    return workload.entry


def kind_of(entry: ModelEntry) -> Kind:
    """The kind of data it reads."""
    return FAMILIES[entry.family]


def feature_mode(entry: ModelEntry) -> str:
    """The mode whose class gives features: the classifier without its head for images, the encoder for texts."""
    return "classify" if entry.family == "vision" else "embed"


def input_shape(entry: ModelEntry, *, seq: int | None = None) -> dict[str, Any]:
    """What `Data.load` should make for this model."""
    if kind_of(entry) == "image":
        return {"image": entry.image or 224, **_pixels(entry.folder)}
    folder = entry.folder if entry.folder and _has_vocabulary(entry.folder) else None
    return {"tokens": seq or entry.seq or 128, "vocabulary": folder, "size": entry.config.get("vocab_size", 30522)}


def default_data(entry: ModelEntry) -> str:
    """The embedded data that suits this model."""
    return DEFAULT_DATA[kind_of(entry)].format(image=entry.image or 224)


def _has_vocabulary(folder: str) -> bool:
    return any((Path(folder) / name).is_file() for name in ("tokenizer.json", "vocab.txt"))


def _pixels(folder: str | None) -> dict[str, Any]:
    """How the weights in a directory normalise pixels; as for ImageNet by default."""
    if folder is None:
        return {}
    try:
        settings = json.loads((Path(folder) / "preprocessor_config.json").read_text())
        return {"mean": tuple(map(float, settings["image_mean"])), "std": tuple(map(float, settings["image_std"]))}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def named_models(data: str, models: Sequence[str], *, fetch: bool) -> tuple[str, ...]:
    """The models to rank, downloaded if requested; directories as absolute paths."""
    from cotenant.ranking.pretrained import PRETRAINED
    from cotenant.ranking.pretrained import fetch as get

    names = list(models)
    if not names and fetch:
        from cotenant.ranking.data import open_data

        images = open_data(data).kind == "image"
        names = [name for name, model in PRETRAINED.items() if bool(model.pixels) == images]
    if fetch:
        for name in names:
            if name in PRETRAINED:
                get(name)
    return tuple(str(Path(name).expanduser().resolve()) if Path(name).expanduser().is_dir() else name for name in names)


def absolute_data(data: str) -> str:
    """The data's name with an absolute path: a search may be resumed from another working directory."""
    path, mark, columns = data.partition("?")
    whole = Path(data).expanduser()
    if whole.exists():
        return str(whole.resolve())
    there = Path(path).expanduser()
    return f"{there.resolve()}{mark}{columns}" if there.exists() else data
