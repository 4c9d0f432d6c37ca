"""The cost of a search pipeline's request, from a dry run of one batch on `meta`."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from cotenant.ranking.candidates import kind_of
from cotenant.ranking.pipeline.extractor import Extractor, assemble
from cotenant.ranking.pipeline.options import HEAD, SearchOptions
from cotenant.ranking.pipeline.stages import cuts, feature_width
from cotenant.ranking.scorers.classifiers import BATCH, PASSES, STEPS
from cotenant.workloads.models import ModelEntry, Watch, make_inputs, materialise
from cotenant.workloads.protocol import Operator, Properties, StageCost, WorkloadSpec

DEFAULT_DTYPE = "float32"


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch, traced in a dry run."""

    params: int
    weight_bytes: int
    input_bytes: int
    peak_bytes: int
    width: int
    moved_in: tuple[Operator, ...]
    inference: tuple[Operator, ...]
    moved_out: tuple[Operator, ...]


def describe(entry: ModelEntry, spec: WorkloadSpec, options: SearchOptions) -> Properties:
    """Parameters, FLOPs, bytes, memory and operators of a complete request."""
    batch = _dry_run(entry, spec, options)
    operators = tuple(operator for cost in _costs(entry, spec, options, batch) for operator in cost.operators)
    by_operator: dict[str, float] = defaultdict(float)
    by_dtype: dict[str, float] = defaultdict(float)
    for operator in operators:
        if operator.flops:
            by_operator[operator.name] += operator.flops
            by_dtype[operator.dtype] += operator.flops
    features = spec.batch * options.batches * batch.width * options.heads * 4
    return Properties(
        params=batch.params,
        weight_bytes=batch.weight_bytes,
        flops=sum(by_operator.values()),
        bytes_moved=sum(operator.bytes_read + operator.bytes_written for operator in operators),
        peak_memory_bytes=batch.peak_bytes + features,
        flops_by_operator=dict(by_operator),
        flops_by_dtype=dict(by_dtype),
        operators=operators,
    )


def stage_costs(
    entry: ModelEntry, spec: WorkloadSpec, options: SearchOptions, whole: Properties
) -> tuple[StageCost, ...]:
    """The stages of a request with their operators and host time, from its description."""
    count = (len(whole.operators) - 1) // options.batches
    per_batch = whole.operators[1 : 1 + count]  # the very first operator moves the weights
    (moved_in, *inference, moved_out) = per_batch
    batch = _Batch(
        params=whole.params or 0,
        weight_bytes=whole.weight_bytes or 0,
        input_bytes=int(moved_in.bytes_read),
        peak_bytes=whole.peak_memory_bytes or 0,
        width=moved_out.shapes[0][-1],
        moved_in=(moved_in,),
        inference=tuple(inference),
        moved_out=(moved_out,),
    )
    return _costs(entry, spec, options, batch)


def _costs(entry: ModelEntry, spec: WorkloadSpec, options: SearchOptions, batch: _Batch) -> tuple[StageCost, ...]:
    cold = options.start == "cold"
    items = spec.batch * options.batches
    load_s = (
        load_data_s(spec.batch, images=kind_of(entry) == "image", workers=options.workers)
        if spec.layers == "full"
        else read_hidden_s(batch.input_bytes, cold=cold)
    )
    ahead = spec.mode == "pipelined"
    per_batch = (
        StageCost("load_data", host_s=load_s, beside=ahead),
        StageCost("data_to_device", batch.moved_in),
        StageCost("inference", batch.inference),
        StageCost("to_host", batch.moved_out),
    )
    once = batch.moved_in + batch.inference + batch.moved_out
    # The first batch waits for a single worker to load it, however many there are.
    first_s = load_s * (options.workers if spec.layers == "full" else 1)
    classes = options.classes or 10
    return (
        StageCost("load_model", host_s=load_model_s(batch.weight_bytes, cold=cold)),
        StageCost("model_to_device", (_copy(batch.weight_bytes),)),
        StageCost("first_batch", once, host_s=first_s, beside=ahead, first_output=True),
        *per_batch * (options.batches - 1),
        StageCost("score", host_s=score_s(items, batch.width, classes, options.heads)),
    )


def _dry_run(entry: ModelEntry, spec: WorkloadSpec, options: SearchOptions) -> _Batch:
    dtype: torch.dtype = getattr(torch, spec.dtype or DEFAULT_DTYPE)
    cut, joined = cuts(entry, spec, options)
    width = feature_width(entry, spec) if joined == HEAD else 0
    module = assemble(entry, cut=cut, joined=joined, heads=options.heads, width=width, classes=options.classes or 10)
    materialise(module, device="meta", dtype=dtype, seed=0)
    plain = spec.model_copy(update={"name": entry.name, "params": {}, "mode": None, "layers": "full"})
    whole: dict[str, Any] = dict(make_inputs(entry, plain, dtype=dtype, device="meta").ring[0])
    if cut is None:
        inputs = whole
    else:
        assert isinstance(module, Extractor)
        module.model.prompt = whole  # type: ignore[assignment]  # a tail's own attribute
        inputs = {"hidden": torch.empty(cut.hidden_shape, dtype=dtype, device="meta")}
    return _watched(module, inputs)


def _watched(module: nn.Module, inputs: dict[str, torch.Tensor]) -> _Batch:
    with Watch() as watch, torch.inference_mode():
        watch.hold([*module.parameters(), *module.buffers()])
        weight_bytes = watch.live_bytes
        batch = {name: value.to("meta", copy=True) for name, value in inputs.items()}
        moved_in = tuple(watch.operators)
        watch.operators.clear()
        out = module(**batch)
        inference = tuple(watch.operators)
        watch.operators.clear()
        out.to("meta", copy=True)
        moved_out = tuple(watch.operators)
        peak = watch.peak_bytes
    return _Batch(
        params=sum(parameter.numel() for parameter in module.parameters()),
        weight_bytes=weight_bytes,
        input_bytes=sum(value.numel() * value.element_size() for value in inputs.values()),
        peak_bytes=peak,
        width=int(out.shape[-1]),
        moved_in=moved_in,
        inference=inference,
        moved_out=moved_out,
    )


def _copy(nbytes: int) -> Operator:
    """Copying the weights to the device."""
    size = (max(1, nbytes // 4),)
    return Operator("_to_copy", "float32", (size,), (size,), 0.0, float(nbytes), float(nbytes))


IMAGE_S = 1 / 282
"""Seconds to read, decode and scale one JPEG photograph with one worker: the original study's data loader on its server
(Imagenette, batch 128, one worker: 282 images a second; 8 workers: 2,329)."""
TEXT_S = 1e-4
"""Seconds to tokenise a text of about 100 tokens; an estimate."""
WARM_BYTES_S = 2e9
"""Reading a file that is already in memory; an estimate."""
COLD_BYTES_S = 200e6
"""Reading it from disk: the original study's assumption."""
BUILD_S = 0.05
"""Building a model's modules; an estimate."""
HOST_FLOPS = 100e9
"""Arithmetic of the scorer on the host; an estimate."""


def load_model_s(weight_bytes: float, *, cold: bool) -> float:
    """Read the weights and build the model."""
    return BUILD_S + weight_bytes / (COLD_BYTES_S if cold else WARM_BYTES_S)


def load_data_s(items: int, *, images: bool, workers: int) -> float:
    """Load one batch, while the other workers load more."""
    return items * (IMAGE_S if images else TEXT_S) / workers


def read_hidden_s(nbytes: float, *, cold: bool) -> float:
    """Read a batch of hidden states."""
    return nbytes / (COLD_BYTES_S if cold else WARM_BYTES_S)


def score_s(items: int, width: int, classes: int, heads: int) -> float:
    """Train one fully connected layer for each head."""
    steps = min(STEPS, PASSES * -(-items // BATCH))
    return heads * steps * 4.0 * min(BATCH, items) * width * classes / HOST_FLOPS
