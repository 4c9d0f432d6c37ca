"""The cost of a model's request: of its dry run on `meta`, or without torch from a template that ships.

Steps of a generation and requests of several lengths are put together from descriptions of a pass each.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from cotenant import extras
from cotenant.workloads.models.entry import ModelEntry, mode_of
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


# --- descriptions that ship with the package: shapes and costs of a model's operators by batch and length

FILE = Path(__file__).with_name("templates.json.gz")
Polynomial = int | list[int | str]
"""Coefficients of `monomials`, up to the last that isn't 0; fractions as text. An integer: a constant."""


def monomials(batch: int, seq: int) -> tuple[int, ...]:
    """What coefficients belong to."""
    return 1, batch, seq, batch * seq, seq * seq, batch * seq * seq


def value(polynomial: Polynomial, terms: Sequence[int]) -> int:
    """The polynomial there, rounded."""
    if isinstance(polynomial, int):
        return polynomial
    total = sum(
        (Fraction(factor) if isinstance(factor, str) else factor) * term
        for factor, term in zip(polynomial, terms, strict=False)
    )
    return round(total)


@dataclass(frozen=True, slots=True)
class Template:
    """A mode of a model in a number format, for some batches and lengths."""

    data: Mapping[str, Any]
    dtype: str

    def holds(self, batch: int, seq: int) -> bool:
        """Whether it was found right for such a batch and length."""
        first, last = self.data["batches"]
        shortest, longest = self.data["lengths"]
        return bool(first <= batch <= last and shortest <= seq <= longest)

    def at(self, batch: int, seq: int, *, preparation: bool) -> tuple[Properties, tuple[Operator, ...]]:
        """The description without its sums, and the operators."""
        terms = monomials(batch, seq)
        peak = self.data["peak"] if preparation else self.data.get("peak_of_step", self.data["peak"])
        different = [self._operator(line, terms) for line in self.data["operators"]]
        base = Properties(
            params=self.data["params"],
            weight_bytes=self.data["weight_bytes"],
            flops=None,
            bytes_moved=None,
            peak_memory_bytes=value(peak, terms),
            input_bytes=value(self.data["input_bytes"], terms),
        )
        return base, tuple(different[number] for number in self.data["order"])

    def _operator(self, line: Sequence[Any], terms: Sequence[int]) -> Operator:
        name, dtype, shapes, out_shapes, flops, read, written = line
        return Operator(
            name=name,
            dtype=self.dtype if dtype is None else dtype,
            shapes=_shapes(shapes, terms),
            out_shapes=_shapes(out_shapes, terms),
            flops=float(value(flops, terms)),
            bytes_read=float(value(read, terms)),
            bytes_written=float(value(written, terms)),
        )


def _shapes(shapes: Sequence[Sequence[Polynomial]], terms: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(value(size, terms) for size in shape) for shape in shapes)


def find_template(entry: ModelEntry, mode: str, dtype: str, batch: int, seq: int) -> Template | None:
    """The template of a model of the catalogue; None if there is none for this size."""
    for data in _shipped().get(entry.name, {}).get(f"{mode} {BITS.get(dtype, dtype)}", ()):
        template = Template(data, dtype)
        if template.holds(batch, seq):
            return template
    return None


BITS = {"float16": "half", "bfloat16": "half"}
"""Number formats whose operators differ in their names only."""


@cache
def _shipped() -> Mapping[str, Any]:
    if not FILE.exists():
        return {}
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        models: Mapping[str, Any] = json.load(file)
    return models
