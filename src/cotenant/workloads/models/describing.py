"""The cost of a model's request, from a dry run of the real module on `meta`."""

from collections import defaultdict
from dataclasses import replace

import torch

from cotenant.workloads.models.building import mode_of, stages_of, stand
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.inputs import lengths_of
from cotenant.workloads.models.watching import Watch
from cotenant.workloads.protocol import DEFAULT_TOKENS, Operator, Properties, WorkloadSpec

DEFAULT_DTYPE = "float32"
"""The dtype described when the spec leaves it to the device."""


def describe(entry: ModelEntry, spec: WorkloadSpec) -> Properties:
    """Parameters, FLOPs, bytes, peak memory and operators of one request."""
    lengths = lengths_of(entry, spec) if entry.max_seq is not None else (None,)
    if len(lengths) == 1:
        return _one_length(entry, spec)
    fixed = {**spec.params, "lengths": "fixed"}
    by_length = {n: _one_length(entry, spec.model_copy(update={"seq": n, "params": fixed})) for n in set(lengths)}
    return _average([by_length[length] for length in lengths])


def _one_length(entry: ModelEntry, spec: WorkloadSpec) -> Properties:
    if mode_of(entry, spec) != "generate":
        return _dry_run(entry, spec)
    # Steps differ only in context length, and costs are linear in it: the middle one represents all.
    steps = (spec.tokens or DEFAULT_TOKENS) - 1
    context = spec.seq or entry.seq or 1
    first = _dry_run(entry, spec.model_copy(update={"mode": "prefill", "tokens": None}))
    if steps == 0:
        return first

    def step(length: int) -> Properties:
        at_length = spec.model_copy(update={"mode": "decode", "tokens": None, "seq": length})
        return _dry_run(entry, at_length, preparation=False)

    middle, last = step(context + steps // 2), step(context + steps - 1)
    whole = _summed(first, first.operators + middle.operators * steps)
    assert first.peak_memory_bytes is not None
    assert last.peak_memory_bytes is not None
    return replace(whole, peak_memory_bytes=max(first.peak_memory_bytes, last.peak_memory_bytes))


def _dry_run(entry: ModelEntry, spec: WorkloadSpec, *, preparation: bool = True) -> Properties:
    """One request, traced on `meta`; with ``preparation``, the peak includes what precedes it (a decode's prompt)."""
    dtype: torch.dtype = getattr(torch, spec.dtype or DEFAULT_DTYPE)
    model, inputs = stand(entry, spec, device="meta", dtype=dtype)
    with Watch() as watch:
        watch.hold([*model.parameters(), *model.buffers()])
        weight_bytes = watch.live_bytes
        stages = stages_of(model, entry, spec, inputs, "meta")
        prepared = watch.peak_bytes if preparation else 0
        # The first training step creates the optimiser's state; a later one is described.
        for _ in range(2 if spec.train else 1):
            watch.restart()
            state = None
            for stage in stages:
                for _ in range(stage.repeat):
                    state = stage.run(state)
        peak, operators = max(prepared, watch.peak_bytes), tuple(watch.operators)
    base = Properties(
        params=sum(parameter.numel() for parameter in model.parameters()),
        weight_bytes=weight_bytes,
        flops=None,
        bytes_moved=None,
        peak_memory_bytes=peak,
        input_bytes=sum(value.untyped_storage().nbytes() for tensors in inputs.ring for value in tensors.values()),
    )
    return _summed(base, operators)


def _summed(base: Properties, operators: tuple[Operator, ...]) -> Properties:
    by_operator: dict[str, float] = defaultdict(float)
    by_dtype: dict[str, float] = defaultdict(float)
    moved = 0.0
    for operator in operators:
        moved += operator.bytes_read + operator.bytes_written
        if operator.flops:
            by_operator[operator.name] += operator.flops
            by_dtype[operator.dtype] += operator.flops
    return replace(
        base,
        flops=sum(by_operator.values()),
        bytes_moved=moved,
        flops_by_operator=dict(by_operator),
        flops_by_dtype=dict(by_dtype),
        operators=operators,
    )


def _average(requests: list[Properties]) -> Properties:
    """The mean request of a cycle, with the operators of its middle request and the memory of its largest."""
    ordered = sorted(requests, key=lambda request: request.flops or 0.0)
    middle, largest = ordered[len(ordered) // 2], ordered[-1]
    count = len(requests)

    def mean(tables: list[dict[str, float]]) -> dict[str, float]:
        return {key: sum(table.get(key, 0.0) for table in tables) / count for key in tables[0]}

    return replace(
        middle,
        flops=sum(request.flops or 0.0 for request in requests) / count,
        bytes_moved=sum(request.bytes_moved or 0.0 for request in requests) / count,
        peak_memory_bytes=largest.peak_memory_bytes,
        flops_by_operator=mean([dict(request.flops_by_operator) for request in requests]),
        flops_by_dtype=mean([dict(request.flops_by_dtype) for request in requests]),
    )
