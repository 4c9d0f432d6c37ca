"""A search pipeline built on its place: the stages of a request, and their shared state."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cotenant.cache import cache_folder
from cotenant.errors import CotenantError, WorkloadError
from cotenant.opening import drafted
from cotenant.ranking.candidates import default_data, feature_mode, input_shape, kind_of
from cotenant.ranking.data import open_data
from cotenant.ranking.pipeline.extractor import (
    Batch,
    BatchesAhead,
    Extractor,
    Inline,
    LoaderTimes,
    assemble,
    cut_of,
    survey,
)
from cotenant.ranking.pipeline.options import HEAD, SearchOptions
from cotenant.ranking.protocol import Data, Labels
from cotenant.ranking.scorers import find_scorer
from cotenant.workloads.models import ModelEntry, Watch, make_inputs, materialise
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.slices import ModelCut


@dataclass(slots=True)
class SearchRequest:
    """One request in progress."""

    loader: BatchesAhead | Inline
    model: nn.Module
    batch: Batch = field(default_factory=dict)
    out: torch.Tensor | None = None
    features: list[torch.Tensor] = field(default_factory=list)


@dataclass(slots=True)
class SearchStages:
    """State shared by the stages of all requests."""

    make: Callable[[], nn.Module]
    """The module without weights."""
    weights: Path
    load: Callable[[int], Batch]
    labels: Labels
    classes: int
    options: SearchOptions
    device: str
    dtype: torch.dtype
    pipelined: bool
    seq: int | None
    cold_files: tuple[Path, ...]
    facts: dict[str, Any]
    seed: int
    rankable: bool
    """True for real weights on real labels: only then a score is worth keeping."""
    times: LoaderTimes = field(default_factory=LoaderTimes)
    running: SearchRequest | None = None

    def load_model(self, _: Any) -> SearchRequest:
        """Build the model and read its weights; the loader starts at the same time."""
        self.close()  # a request that failed may have left its loader running
        if self.options.start == "cold":
            forget(self.cold_files)
        self.running = request = SearchRequest(self._loader(), self.make())
        request.model.load_state_dict(read_state(self.weights), strict=True, assign=True)
        return request

    def model_to_device(self, request: SearchRequest) -> SearchRequest:
        """Copy the weights; on a CPU they are already there."""
        request.model.to(self.device)
        return self._settled(request)

    def first_batch(self, request: SearchRequest) -> SearchRequest:
        """The complete first batch, with everything that happens only once."""
        return self.to_host(self.inference(self.data_to_device(self.load_data(request))))

    def load_data(self, request: SearchRequest) -> SearchRequest:
        """Load a batch, or wait for one loaded ahead."""
        request.batch = request.loader.next()
        return request

    def data_to_device(self, request: SearchRequest) -> SearchRequest:
        """Copy a batch; on a CPU the copy is made too, as for every workload."""
        copies = not self.device.startswith("cuda")
        request.batch = {
            name: value.to(
                self.device, self.dtype if value.is_floating_point() else None, non_blocking=self.pipelined, copy=copies
            )
            for name, value in request.batch.items()
        }
        return self._settled(request)

    def inference(self, request: SearchRequest) -> SearchRequest:
        """Features of a batch."""
        with torch.inference_mode():
            request.out = request.model(**request.batch)
        return self._settled(request)

    def to_host(self, request: SearchRequest) -> SearchRequest:
        """Copy the features back."""
        assert request.out is not None
        request.features.append(request.out.float().to("cpu", copy=True))
        request.out = None
        return request

    def score(self, request: SearchRequest) -> list[float]:
        """The scores, one for each head."""
        request.loader.close()
        self.running = None
        overlap = self.times.overlap()
        if overlap is not None:
            self.facts["overlap"] = round(overlap, 4)
        features = torch.cat(request.features).numpy()
        sets = [features] if features.ndim == 2 else [np.ascontiguousarray(layer) for layer in features.swapaxes(0, 1)]
        scorer = find_scorer(self.options.scorer)
        together = getattr(scorer, "score_many", None)
        scores: list[float] = (
            together(sets, self.labels, classes=self.classes, seed=self.seed)
            if together is not None
            else [scorer.score(layer, self.labels, classes=self.classes, seed=self.seed) for layer in sets]
        )
        if self.rankable:
            self.facts["scores"] = [round(score, 4) for score in scores]
        return scores

    def close(self) -> None:
        """End what a request may have left running."""
        if self.running is not None:
            self.running.loader.close()
            self.running = None

    def _loader(self) -> BatchesAhead | Inline:
        batches = self.options.batches
        if self.pipelined:
            return BatchesAhead(self.load, batches, self.options.workers, self.times)
        return Inline(self.load, batches)

    def _settled(self, request: SearchRequest) -> SearchRequest:
        """Synchronise: nothing continues after its stage has ended."""
        if not self.pipelined and self.device.startswith("cuda"):
            torch.cuda.synchronize(self.device)
        return request


def set_up(entry: ModelEntry, spec: WorkloadSpec, options: SearchOptions, *, device: str, dtype: str) -> SearchStages:
    """Everything requests need, one after another."""
    kind: torch.dtype = getattr(torch, dtype)
    shape = input_shape(entry, seq=spec.seq)
    cut, joined = cuts(entry, spec, options)
    needed = spec.batch * options.batches
    data = None if cut is not None else _data(entry, options)
    labels, classes = _labels(data, options, needed, spec.seed)
    own_labels = _fits(data, options)
    width = feature_width(entry, spec) if joined == HEAD else 0

    def make() -> nn.Module:
        module = assemble(entry, cut=cut, joined=joined, heads=options.heads, width=width, classes=classes)
        if cut is not None:
            assert isinstance(module, Extractor)
            prompt = make_inputs(entry, spec.model_copy(update={"params": {}}), dtype=kind).ring[0]
            module.model.prompt = {name: value.to(device) for name, value in prompt.items()}  # type: ignore[assignment]
        return module

    key = {"spec": spec.model_dump(mode="json"), "dtype": dtype, "config": dict(entry.config), "classes": classes}
    file = weights_file(key)
    if not file.is_file():
        write_once(file, _with_weights(entry, make(), spec.seed, kind))
    load: Callable[[int], Batch]
    more: tuple[Path, ...]
    if cut is not None:
        hidden = HiddenStates.of(cut.hidden_shape, dtype=kind, seed=spec.seed)
        load, source, more = hidden.load, hidden.name, (hidden.file,)
    else:
        assert data is not None
        load, source, more = _batches(data, spec, options, shape), data.name, _files_of(data)
    return SearchStages(
        make=make,
        weights=file,
        load=load,
        labels=labels,
        classes=classes,
        options=options,
        device=device,
        dtype=kind,
        pipelined=spec.mode == "pipelined",
        seq=shape.get("tokens"),
        cold_files=(file, *more),
        facts={
            "candidate": options.candidate,
            "data": source,
            "items": needed,
            "classes": classes,
            "labels": "the data's" if own_labels else "drawn",
            "scorer": options.scorer,
            "mode": spec.mode or "synchronised",
            "start": options.start,
            "heads": options.heads,
            "joined": options.joined,
            "blocks": "all" if cut is None else cut.blocks,
            "weights_bytes": file.stat().st_size,
            "torch": torch.__version__,
        },
        seed=spec.seed,
        rankable=entry.weights is not None and own_labels and spec.layers == "full" and options.joined is None,
    )


def cuts(
    entry: ModelEntry, spec: WorkloadSpec, options: SearchOptions
) -> tuple[ModelCut | None, ModelCut | str | None]:
    """Where the model is sliced, and where heads start."""
    if spec.layers == "full" and options.joined in (None, HEAD):
        return None, options.joined
    blocks = survey(entry, spec.batch, spec.seq)
    if spec.layers != "full":
        return cut_of(entry, blocks, spec.layers), None
    return None, cut_of(entry, blocks, str(options.joined))


def _data(entry: ModelEntry, options: SearchOptions) -> Data:
    try:
        data = open_data(options.data or default_data(entry))
    except CotenantError as error:
        raise WorkloadError(error.message, hint=error.hint) from error
    if data.kind != kind_of(entry):
        raise WorkloadError(
            f"{entry.name} reads {kind_of(entry)}s, but {data.name} contains {data.kind}s", hint="use data of that kind"
        )
    return data


def _fits(data: Data | None, options: SearchOptions) -> bool:
    return data is not None and options.classes in (None, len(data.classes))


def _order(data: Data, needed: int, seed: int) -> Sequence[int]:
    """Items in random order, repeated where there are too few."""
    shuffled = np.random.default_rng(seed).permutation(len(data))
    return [int(item) for item in np.resize(shuffled, needed)]


def _labels(data: Data | None, options: SearchOptions, needed: int, seed: int) -> tuple[Labels, int]:
    if data is not None and _fits(data, options):
        return data.labels[_order(data, needed, seed)], len(data.classes)
    classes = options.classes or 10
    # Scoring cost depends on the number of classes, not on which item is in which.
    return np.random.default_rng(seed).permutation(np.arange(needed, dtype=np.int64) % classes), classes


def _batches(
    data: Data, spec: WorkloadSpec, options: SearchOptions, shape: Mapping[str, Any]
) -> Callable[[int], Batch]:
    order = _order(data, spec.batch * options.batches, spec.seed)

    def load(number: int) -> Batch:
        return data.load(order[number * spec.batch : (number + 1) * spec.batch], shape)

    return load


def _files_of(data: Data) -> tuple[Path, ...]:
    return tuple(source for source in getattr(data, "sources", ()) if isinstance(source, Path))


def feature_width(entry: ModelEntry, spec: WorkloadSpec) -> int:
    """Features per item, from a dry run."""
    module = assemble(entry, cut=None, joined=None, heads=1, width=0, classes=0)
    placed = materialise(module, device="meta", dtype=torch.float32, seed=0)
    asked = WorkloadSpec(name=entry.name, batch=spec.batch, seq=spec.seq)
    inputs = make_inputs(entry, asked, dtype=torch.float32, device="meta")
    with Watch(), torch.inference_mode():
        return int(placed(**inputs.ring[0]).shape[1])


def _with_weights(entry: ModelEntry, module: nn.Module, seed: int, dtype: torch.dtype) -> nn.Module:
    """The module with random weights, or with those in the candidate's directory."""
    materialise(module, device="cpu", dtype=dtype, seed=seed)
    if entry.weights is None:
        return module
    from cotenant.workloads.models import load

    given = load(entry, feature_mode(entry), entry.weights, dtype=dtype, seed=seed).state_dict()
    own = module.state_dict()
    for name, parameter in own.items():
        # Every part (trunk, heads, slice) keeps the full model's names after the last `model.` of its own.
        source = name.rpartition("model.")[2] if name not in given else name
        if source in given:
            parameter.copy_(given[source])
    return module


# --- files that stages read: weights, made once, and one batch of hidden states as the input of a slice


def weights_file(key: dict[str, Any]) -> Path:
    """Where the weights of this module are."""
    name = hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:24]
    return cache_folder("search") / f"{name}.safetensors"


def write_once(file: Path, model: "nn.Module") -> None:
    """Write a module's state atomically, and wait until it is on disk."""
    if file.is_file():
        return
    from safetensors.torch import save_file

    try:
        with drafted(file, on_disk=True) as part:
            save_file({name: value.contiguous().clone() for name, value in model.state_dict().items()}, part)
    except OSError as error:
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
