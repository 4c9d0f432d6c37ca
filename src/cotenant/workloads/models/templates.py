"""Descriptions that ship with the package: shapes and costs of a model's operators by batch and length.

A model runs the same operators whatever the batch and the length, and their shapes, FLOPs and bytes are polynomials
of both. `make figures` fits them to dry runs and keeps those that give other dry runs exactly; `templates.json.gz` has
them, so that models of the catalogue can be simulated without torch.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.protocol import Operator, Properties

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
