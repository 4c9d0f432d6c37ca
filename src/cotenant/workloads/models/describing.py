"""The cost of a model's request: of its dry run on `meta`, or without torch from a template that ships.

Steps of a generation and requests of several lengths are put together from descriptions of a pass each.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from cotenant import extras
from cotenant.workloads.models.entry import ModelEntry, mode_of
from cotenant.workloads.models.templates import find_template
from cotenant.workloads.protocol import DEFAULT_TOKENS, Operator, Properties, WorkloadSpec

DEFAULT_DTYPE = "float32"
"""The dtype described when the spec leaves it to the device."""

Pass = Callable[[ModelEntry, WorkloadSpec, bool], Properties]
"""Describes a pass; the last argument: its peak of memory includes what precedes it (a decode's prompt)."""


def describe(entry: ModelEntry, spec: WorkloadSpec) -> Properties:
    """Parameters, FLOPs, bytes, peak memory and operators of a request, from dry runs."""
    from cotenant.workloads.models.building import dry_run

    return _described(entry, spec, lambda entry, spec, preparation: dry_run(entry, spec, preparation=preparation))


def describe_by_template(entry: ModelEntry, spec: WorkloadSpec) -> Properties:
    """The same from what ships with the package, without torch.

    Raises:
        MissingExtra: No template has this model, mode or size.
    """
    return _described(entry, spec, _from_template)


def _from_template(entry: ModelEntry, spec: WorkloadSpec, preparation: bool) -> Properties:
    template = None
    if spec.layers == "full" and not spec.train and not set(spec.params) - {"lengths"}:
        seq = (spec.seq or entry.seq or 1) if entry.seq is not None else 0
        template = find_template(entry, mode_of(entry, spec), spec.dtype or DEFAULT_DTYPE, spec.batch, seq)
    if template is None:
        raise extras.missing("torch", f"{entry.name} as it is described here")
    return summed(*template.at(spec.batch, seq, preparation=preparation))


def _described(entry: ModelEntry, spec: WorkloadSpec, one_pass: Pass) -> Properties:
    if entry.max_seq is None or spec.params.get("lengths", "fixed") == "fixed":
        return _one_length(entry, spec, one_pass)
    extras.require("torch", "a request of sampled lengths")
    from cotenant.workloads.models.inputs import lengths_of

    lengths = lengths_of(entry, spec)
    fixed = {**spec.params, "lengths": "fixed"}
    by_length = {
        length: _one_length(entry, spec.model_copy(update={"seq": length, "params": fixed}), one_pass)
        for length in set(lengths)
    }
    return _average([by_length[length] for length in lengths])


def _one_length(entry: ModelEntry, spec: WorkloadSpec, one_pass: Pass) -> Properties:
    if mode_of(entry, spec) != "generate":
        return one_pass(entry, spec, True)
    # Steps differ only in context length, and costs are linear in it: the middle step represents all.
    steps = (spec.tokens or DEFAULT_TOKENS) - 1
    context = spec.seq or entry.seq or 1
    first = one_pass(entry, spec.model_copy(update={"mode": "prefill", "tokens": None}), True)
    if steps == 0:
        return first

    def step(length: int) -> Properties:
        return one_pass(entry, spec.model_copy(update={"mode": "decode", "tokens": None, "seq": length}), False)

    middle, last = step(context + steps // 2), step(context + steps - 1)
    whole = summed(first, first.operators + middle.operators * steps)
    assert first.peak_memory_bytes is not None
    assert last.peak_memory_bytes is not None
    return replace(whole, peak_memory_bytes=max(first.peak_memory_bytes, last.peak_memory_bytes))


def summed(base: Properties, operators: tuple[Operator, ...]) -> Properties:
    """The description with the sums over its operators."""
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
