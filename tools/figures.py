"""Writes what ships of the workloads, from dry runs with the installed torch and transformers.

    .venv/bin/python tools/figures.py

`figures.json` has the main figures of every model at its defaults, `models/describing.json.gz` its operators by batch
and length. A template is fitted to dry runs at six sizes and kept if it gives dry runs at other sizes exactly.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from cotenant.study.files import load_study
from cotenant.workloads.catalogue import find, model_entries
from cotenant.workloads.models import describing
from cotenant.workloads.models.building import dry_run
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.protocol import Dtype, Figures, Operator, Properties, WorkloadSpec
from cotenant.workloads.shipped import FILE, written

PEAK_OFF = 0.01
"""A template's peak of memory may be off by this share: it is the largest of several sums."""
MANY = 1 << 20


def specs() -> list[WorkloadSpec]:
    """Every model at its defaults, and the tenants of the largest built-in study."""
    models = [WorkloadSpec(name=entry.name) for entry in model_entries()]
    tenants = [tenant.spec() for tenant in load_study("search-bottlenecks").tenants.values()]
    return list({spec.model_dump_json(): spec for spec in (*models, *tenants)}.values())


def computed() -> str:
    """The text of `figures.json`, from dry runs."""
    return written([(spec, _figures(spec)) for spec in specs()])


def _figures(spec: WorkloadSpec) -> Figures:
    found = find(spec.name).properties(spec)
    return Figures(found.params, found.weight_bytes, found.flops, found.bytes_moved, found.peak_memory_bytes)


def templates_of(entry: ModelEntry) -> dict[str, list[dict[str, Any]]]:
    """Templates of all modes and number formats of a model."""
    result = {}
    for mode in entry.modes:
        if mode == "generate":
            continue  # a prefill and decode steps
        for bits, dtype, same in (("float32", "float32", None), ("half", "float16", "bfloat16")):
            fitted = [part for part in _parts(entry, mode, dtype, same) if part is not None]
            if fitted:
                result[f"{mode} {bits}"] = fitted
    return result


def _parts(entry: ModelEntry, mode: str, dtype: Dtype, same: Dtype | None) -> Iterator[dict[str, Any] | None]:
    """One template for all sizes; else one for a batch of 1, and one for each stretch of lengths."""
    if entry.seq is None:
        whole = _fitted(entry, mode, dtype, same, (1, MANY), (0, 0))
        yield whole
        if whole is None:
            yield _fitted(entry, mode, dtype, same, (1, 1), (0, 0))
            yield _fitted(entry, mode, dtype, same, (2, MANY), (0, 0))
        return
    longest = (entry.max_seq or 2048) - (1 if mode == "decode" else 0)
    stretches = [(8, longest)]
    window = entry.config.get("sliding_window")
    if isinstance(window, int) and 8 < window < longest - 8:
        stretches = [(8, window - 1), (window + 1, longest)]
    for lengths in stretches:
        whole = _fitted(entry, mode, dtype, same, (1, MANY), lengths)
        yield whole
        if whole is None:
            yield _fitted(entry, mode, dtype, same, (1, 1), lengths)
            yield _fitted(entry, mode, dtype, same, (2, MANY), lengths)


def _fitted(  # noqa: PLR0917
    entry: ModelEntry, mode: str, dtype: Dtype, same: Dtype | None, batches: tuple[int, int], lengths: tuple[int, int]
) -> dict[str, Any] | None:
    shortest, longest = lengths
    few = [1] if batches == (1, 1) else [2, 3]
    stretch = longest - shortest
    some = sorted({shortest + stretch * part // 16 for part in (1, 2, 5)}) if longest else [0]
    at = [(batch, seq) for batch in few for seq in some]
    passes = [_pass(entry, mode, dtype, batch, seq) for batch, seq in at]
    if any(_kinds(one) != _kinds(passes[0]) for one in passes):
        return None
    inverse = _inverse(at)
    rows = [_numbers(one) for one in passes]
    known: dict[tuple[float, ...], describing.Polynomial] = {}
    fitted = []
    for column in zip(*rows, strict=True):
        if column not in known:
            known[column] = _polynomial(inverse, column)
        fitted.append(known[column])
    data = _data(passes[0], fitted, inverse, passes, dtype) | {"batches": batches, "lengths": lengths}
    if mode == "decode":
        steps = [_pass(entry, mode, dtype, batch, seq, preparation=False) for batch, seq in at]
        data["peak_of_step"] = _polynomial(inverse, [one.peak_memory_bytes or 0 for one in steps])
    middle = shortest + stretch // 3
    sizes = [(batches[0], longest), (5, shortest), (16, middle)] if len(few) > 1 else [(1, shortest), (1, longest)]
    checks = [(dtype, *size) for size in sizes] + ([(same, few[-1], middle)] if same else [])
    if not all(_same(data, entry, mode, *check) for check in checks):
        return None
    return data


def _same(  # noqa: PLR0917
    data: dict[str, Any], entry: ModelEntry, mode: str, dtype: Dtype, batch: int, seq: int
) -> bool:
    base, operators = describing.Template(data, dtype).at(batch, seq, preparation=True)
    real = _pass(entry, mode, dtype, batch, seq)
    assert base.peak_memory_bytes is not None
    assert real.peak_memory_bytes is not None
    off = abs(base.peak_memory_bytes / real.peak_memory_bytes - 1)
    return (
        operators == real.operators
        and off < PEAK_OFF
        and (base.params, base.weight_bytes, base.input_bytes) == (real.params, real.weight_bytes, real.input_bytes)
    )


def _pass(entry: ModelEntry, mode: str, dtype: Dtype, batch: int, seq: int, *, preparation: bool = True) -> Properties:
    spec = WorkloadSpec(name=entry.name, batch=batch, seq=seq or None, dtype=dtype, mode=mode)
    return dry_run(entry, spec, preparation=preparation)


def _kinds(one: Properties) -> list[Any]:
    return [(op.name, op.dtype, [len(s) for s in op.shapes], [len(s) for s in op.out_shapes]) for op in one.operators]


def _numbers(one: Properties) -> list[float]:
    return [number for operator in one.operators for number in _of_operator(operator)]


def _of_operator(operator: Operator) -> list[float]:
    sizes = [size for shape in (*operator.shapes, *operator.out_shapes) for size in shape]
    return [*sizes, operator.flops, operator.bytes_read, operator.bytes_written]


def _inverse(at: Sequence[tuple[int, int]]) -> list[tuple[int, list[Fraction]]]:
    """Rows of the inverse of the monomials at these sizes, and which monomial each belongs to."""
    terms = [describing.monomials(batch, seq) for batch, seq in at]
    used = [0] if len(at) == 1 else [0, 2, 4] if len({b for b, _ in at}) == 1 else [0, 1] if len(at) == 2 else range(6)
    matrix = [[Fraction(row[number]) for number in used] for row in terms]
    size = len(matrix)
    whole = [row + [Fraction(int(here == there)) for there in range(size)] for here, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(row for row in range(column, size) if whole[row][column])
        whole[column], whole[pivot] = whole[pivot], whole[column]
        whole[column] = [number / whole[column][column] for number in whole[column]]
        for row in range(size):
            if row != column and whole[row][column]:
                factor = whole[row][column]
                whole[row] = [mine - factor * its for mine, its in zip(whole[row], whole[column], strict=True)]
    return [(number, row[size:]) for number, row in zip(used, whole, strict=True)]


def _polynomial(inverse: Sequence[tuple[int, list[Fraction]]], values: Sequence[float]) -> describing.Polynomial:
    if len(set(values)) == 1:
        return int(values[0])
    factors = [Fraction(0)] * 6
    for number, row in inverse:
        factors[number] = sum((part * int(v) for part, v in zip(row, values, strict=True) if part), Fraction(0))
    while factors and not factors[-1]:
        factors.pop()
    return [int(factor) if factor.denominator == 1 else str(factor) for factor in factors]


def _data(
    first: Properties,
    fitted: Sequence[describing.Polynomial],
    inverse: Sequence[tuple[int, list[Fraction]]],
    passes: Sequence[Properties],
    dtype: Dtype,
) -> dict[str, Any]:
    numbers = iter(fitted)
    known: dict[str, int] = {}
    order = []
    for operator in first.operators:
        shapes, outs = (
            [[next(numbers) for _ in s] for s in shapes] for shapes in (operator.shapes, operator.out_shapes)
        )
        costs = [next(numbers) for _ in range(3)]
        line = [operator.name, None if operator.dtype == dtype else operator.dtype, shapes, outs, *costs]
        order.append(known.setdefault(json.dumps(line), len(known)))
    return {
        "params": first.params,
        "weight_bytes": first.weight_bytes,
        "input_bytes": _polynomial(inverse, [one.input_bytes or 0 for one in passes]),
        "peak": _polynomial(inverse, [one.peak_memory_bytes or 0 for one in passes]),
        "operators": [json.loads(line) for line in known],
        "order": order,
    }


def main() -> None:
    """Write both files; names of models as arguments: only their templates, to look at."""
    models: dict[str, Any] = {}
    for entry in model_entries():
        if len(sys.argv) > 1 and entry.name not in sys.argv[1:]:
            continue
        models[entry.name] = templates_of(entry)
        modes = len([mode for mode in entry.modes if mode != "generate"])
        print(entry.name, f"{len(models[entry.name])} of {2 * modes}", flush=True)
    text = json.dumps(models, separators=(",", ":"))
    if len(sys.argv) == 1:
        FILE.write_text(computed(), encoding="utf-8")
        describing.FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
