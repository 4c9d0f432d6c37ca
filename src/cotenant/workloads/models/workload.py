"""A model as a workload: checked, described, built."""

from dataclasses import replace
from typing import Any

from cotenant import extras
from cotenant.errors import WorkloadError
from cotenant.text import did_you_mean
from cotenant.workloads.descriptions import remembered
from cotenant.workloads.models.describing import describe, describe_by_template
from cotenant.workloads.models.entry import Family, ModelEntry, block_count, kept
from cotenant.workloads.models.libraries import LIBRARIES, check_library, described_without
from cotenant.workloads.models.recommender import DEFAULT_LOOKUPS
from cotenant.workloads.models.seq2seq import WRITTEN
from cotenant.workloads.models.weights_folder import check_weights
from cotenant.workloads.protocol import Built, Place, Properties, WorkloadSpec


class ModelWorkload:
    """One model: from the catalogue, a library, or a user's directory."""

    def __init__(self, entry: ModelEntry) -> None:
        self.entry = entry
        self.name = entry.name
        self.family: str = entry.family
        self.about = entry.about

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse what can't run; nothing is built and torch is not imported."""
        check_model(self.entry, spec)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """The cost of a request, from a dry run on `meta`; float32 unless the spec says otherwise."""
        self.check(spec)
        entry = self._describable(self.sized(spec))
        if not (extras.installed("torch") and extras.installed("transformers")):
            return describe_by_template(entry, spec)

        return remembered(spec, {**entry.config, "described_image": entry.image}, lambda: describe(entry, spec))

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """The model on the place, ready to serve."""
        for package in ("torch", "transformers"):
            extras.require(package, f"building {self.name}")
        from cotenant.workloads.models.building import build_model

        self.check(spec)
        if self.entry.weights is not None and spec.weights is None:
            spec = spec.model_copy(update={"weights": self.entry.weights})
        return build_model(self.sized(spec), spec, place)

    def _describable(self, entry: ModelEntry) -> ModelEntry:
        """A library's model by the catalogue's definition if any: the same with or without the library."""
        known = described_without(entry) if entry.architecture.module in LIBRARIES else None
        return known or entry

    def sized(self, spec: WorkloadSpec) -> ModelEntry:
        """The entry with the spec's tables or image size."""
        if "rows" in spec.params:
            tables = (spec.params["rows"],) * len(self.entry.config["tables"])
            return replace(self.entry, config={**self.entry.config, "tables": tables})
        if "image" in spec.params:
            side = int(spec.params["image"])
            # Models with positions have them per image patch: the configuration must match.
            known = {"image_size": side} if isinstance(self.entry.config.get("image_size"), int) else {}
            return replace(self.entry, image=side, config={**self.entry.config, **known})
        return self.entry

    def inputs_asked(self, spec: WorkloadSpec) -> dict[str, Any]:
        """What a client of its server has to know of its inputs: sizes that metadata leaves open, and a limit."""
        entry = self.sized(spec)
        seq = spec.seq or entry.seq or 1
        if entry.family == "recommender":  # integers are drawn for all tables, so the shortest limits them
            tables = entry.config["tables"]
            lookups = int(spec.params.get("lookups", DEFAULT_LOOKUPS))
            return {"largest": min(tables), "shapes": {"categories": [len(tables), spec.batch, lookups]}}
        if entry.family == "seq2seq" and "num_mel_bins" not in entry.config:
            return {"shapes": {"input_ids": [spec.batch, seq], "decoder_input_ids": [spec.batch, min(seq, WRITTEN)]}}
        return {"shapes": {"input_ids": [spec.batch, seq]}} if entry.family in ("encoder", "decoder") else {}


# What can't run is refused before anything is built, without torch.

LENGTHS = ("fixed", "sampled")
OPTIONS: dict[Family, tuple[str, ...]] = {
    "encoder": ("lengths",),
    "decoder": ("lengths",),
    "seq2seq": (),
    "vision": ("image",),
    "recommender": ("rows", "skew", "lookups"),
}
"""Options in `params`, by family."""
SMALLEST_IMAGE, LARGEST_IMAGE = 32, 2048


def check_model(entry: ModelEntry, spec: WorkloadSpec) -> None:
    """Raise a `WorkloadError` for the first thing this model can't do."""
    if entry.architecture.module in LIBRARIES:
        check_library(entry)
    _check_mode(entry, spec)
    _check_software(entry, spec)
    _check_size(entry, spec)
    _check_params(entry, spec)
    if spec.dtype == "int8":
        raise WorkloadError(
            f"{entry.name} does not run in int8", hint="use float32, bfloat16 or float16; int8 is for GEMMs"
        )
    _check_layers(entry, spec)
    if spec.weights is not None:
        check_weights(entry, spec.weights)


def _check_layers(entry: ModelEntry, spec: WorkloadSpec) -> None:
    if spec.layers == "full":
        return
    blocks = block_count(entry)
    if blocks is None:
        raise WorkloadError(f"{entry.name} has no chain of blocks, so it can't be sliced", hint="leave `layers` out")
    kept(spec.layers, blocks)
    if spec.mode in ("decode", "generate"):
        raise WorkloadError(
            f"{entry.name}: a slice can't {spec.mode}, since only complete models produce tokens",
            hint="use mode forward or prefill, or leave `layers` out",
        )
    if spec.params.get("lengths") == "sampled":
        raise WorkloadError(
            f"{entry.name}: a slice takes a hidden state of one length, so `lengths: sampled` does not apply",
            hint="leave one of the two out",
        )


def _check_mode(entry: ModelEntry, spec: WorkloadSpec) -> None:
    if spec.mode is not None and spec.mode not in entry.modes:
        raise WorkloadError(
            f"{entry.name} has no mode {spec.mode!r}; it has {', '.join(entry.modes)}",
            hint=did_you_mean(spec.mode, entry.modes, cutoff=0.5),
        )
    if spec.train and entry.architecture.trains is None:
        raise WorkloadError(f"{entry.name} has no training step", hint="encoders, decoders and vision models have one")
    if spec.train and spec.mode is not None:
        raise WorkloadError(
            f"{entry.name} can't train in mode {spec.mode!r}: a mode is for inference", hint="leave out one of the two"
        )
    if spec.tokens is not None and (spec.mode != "generate" or spec.train):
        raise WorkloadError(
            f"{entry.name}: `tokens` is for mode generate only", hint="set `mode: generate` or leave `tokens` out"
        )


def _check_software(entry: ModelEntry, spec: WorkloadSpec) -> None:
    if spec.tf32 and spec.dtype != "float32":
        raise WorkloadError(f"{entry.name}: `tf32` rounds products of float32", hint="add `dtype: float32`")
    if spec.channels_last and entry.family != "vision":
        raise WorkloadError(f"{entry.name}: `channels_last` is for images", hint="leave it out here")
    if spec.software == "vllm" and entry.family not in ("decoder", "encoder"):
        raise WorkloadError(f"{entry.name}: vLLM serves models of text", hint="leave `software` out, or use `compile`")
    if spec.train and spec.software in ("graphs", "onnxruntime", "tensorrt", "vllm"):
        raise WorkloadError(
            f"{entry.name}: `software: {spec.software}` runs inference, not training", hint="use eager or compile"
        )
    if spec.train and (spec.quantised or spec.parallel > 1):
        raise WorkloadError(
            f"{entry.name}: `quantised` and `parallel` are for inference", hint="leave them out of a training step"
        )
    if (spec.quantised or spec.parallel > 1) and entry.family not in ("encoder", "decoder", "seq2seq"):
        raise WorkloadError(
            f"{entry.name}: `quantised` and `parallel` are for language models", hint="leave them out here"
        )
    if spec.prefix_hits and (spec.software != "vllm" or spec.mode != "generate"):
        raise WorkloadError(
            f"{entry.name}: `prefix_hits` is for engines", hint="use software: vllm and mode: generate, or leave it out"
        )
    if spec.mode in ("decode", "generate") and spec.software in ("onnxruntime", "tensorrt"):
        raise WorkloadError(
            f"{entry.name}: `software: {spec.software}` has no KV cache for mode {spec.mode}",
            hint="use eager, compile, graphs or vllm",
        )


def _check_size(entry: ModelEntry, spec: WorkloadSpec) -> None:
    if entry.max_seq is None:
        if spec.seq is not None:
            raise WorkloadError(f"{entry.name} takes no sequence, so `seq` does not apply", hint="leave `seq` out")
        return
    seq = spec.seq or entry.seq or 1
    if seq > entry.max_seq:
        raise WorkloadError(
            f"{entry.name} takes at most {entry.max_seq} tokens, not {seq}",
            hint=f"set `seq` to {entry.max_seq} or less",
        )
    made = (spec.tokens or 1) if spec.mode == "generate" else int(spec.mode == "decode")
    if seq + made > entry.max_seq and made:
        raise WorkloadError(
            f"{entry.name} takes at most {entry.max_seq} tokens, but {seq} of context plus {made} new are more",
            hint=f"set `seq` to {max(1, entry.max_seq - made)} or less",
        )


def _check_params(entry: ModelEntry, spec: WorkloadSpec) -> None:
    known = OPTIONS[entry.family]
    for key in spec.params:
        if key not in known:
            raise WorkloadError(
                f"{entry.name} has no option {key!r}" + (f"; it has {', '.join(known)}" if known else ""),
                hint=did_you_mean(key, known, cutoff=0.5) or "leave it out of `params`",
            )
    if entry.family == "recommender":
        _check_access(entry, spec)
    if entry.family == "vision":
        _check_image(entry, spec)
    lengths = spec.params.get("lengths", "fixed")
    if lengths not in LENGTHS:
        raise WorkloadError(
            f"{entry.name}: `lengths` is fixed or sampled, not {lengths!r}",
            hint=did_you_mean(str(lengths), LENGTHS, cutoff=0.5),
        )
    if lengths == "sampled" and spec.mode == "decode":
        raise WorkloadError(
            f"{entry.name}: mode decode keeps one context length, so `lengths: sampled` does not apply",
            hint="set `seq` to the context length",
        )


def _check_image(entry: ModelEntry, spec: WorkloadSpec) -> None:
    side = spec.params.get("image", entry.image or 224)
    if not isinstance(side, int) or isinstance(side, bool) or not SMALLEST_IMAGE <= side <= LARGEST_IMAGE:
        raise WorkloadError(
            f"{entry.name}: `image` is a side length of {SMALLEST_IMAGE} to {LARGEST_IMAGE} pixels, not {side!r}",
            hint=f"e.g. `image: {entry.image or 224}`",
        )
    if "image" in spec.params and (entry.folder is not None or spec.weights is not None):
        raise WorkloadError(
            f"{entry.name}: weights fix the image size, so `image` can't be set with them",
            hint="leave `image` out",
        )


def _check_access(entry: ModelEntry, spec: WorkloadSpec) -> None:
    for key in ("rows", "lookups"):
        value = spec.params.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise WorkloadError(
                f"{entry.name}: `{key}` is a whole number from 1, not {value!r}", hint=f"e.g. `{key}: 4`"
            )
    skew = spec.params.get("skew", 0)
    if not isinstance(skew, int | float) or isinstance(skew, bool) or not 0 <= skew <= 4:
        raise WorkloadError(
            f"{entry.name}: `skew` is the exponent of a Zipf law, from 0 (even) to 4, not {skew!r}",
            hint="e.g. `skew: 1.05`",
        )
