"""Kernels of a model's layers on a part of a GPU, tabulated by number of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from cotenant.prediction.engines.language_model import LanguageModel, Product
from cotenant.prediction.gpu import GpuSpec, KernelKind, KernelScale
from cotenant.prediction.kernels.columns import Floats, Ints, Kernels
from cotenant.prediction.kernels.cost import Costs, solo_costs
from cotenant.prediction.kernels.efficiency import FITTED, Efficiency
from cotenant.prediction.kernels.families import Format, KernelFamily, kernel_kind
from cotenant.prediction.kernels.layers import HALF_BYTES, expert_matrices, matrix, passing, summed
from cotenant.prediction.kernels.operators import Row, columns
from cotenant.workloads.protocol import Quantised

_BITS: dict[Quantised, float] = {"fp8": 8.0, "int8": 8.0, "int4": 4.5}


AS_IS = KernelScale()


@dataclass(frozen=True, slots=True)
class EnginePart:
    """The part of a GPU an engine runs on, and the form its weights have."""

    gpu: GpuSpec
    sms: int | None = None
    bandwidth_share: float = 1.0
    clock_mhz: float | None = None
    quantised: Quantised | None = None
    cached_bytes: float = HALF_BYTES
    """Bytes per cached value."""
    gpus: int = 1
    """GPUs that every layer is split over."""
    graphs: bool = True

    @property
    def format(self) -> Format:
        """Format of the products: 8 bits where the tensor cores have them."""
        eight = self.gpu.capability >= (8, 9) and self.gpu.tensor_rate("int8") is not None
        return "fp8" if eight and self.quantised in ("fp8", "int8") else "half"

    @property
    def weight_bytes(self) -> float:
        """Bytes per weight of a layer."""
        return HALF_BYTES if self.quantised is None else _BITS[self.quantised] / 8


def token_grid(most: int, graph_tokens: int) -> Ints:
    """Numbers of tokens that are tabulated: the sizes that engines capture graphs for, then wider steps."""
    captured = [1, 2, 4, *range(8, graph_tokens + 1, 8)]
    wider: list[int] = []
    size = graph_tokens
    while size < most:
        size += max(64, size // 8 // 64 * 64)
        wider.append(min(size, most))
    return np.array(captured + wider, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Kernels of a layer (or of the ends of a step) by number of tokens."""

    kernels: Kernels
    costs: Costs
    width: int
    """Kernels per number of tokens."""
    attention_at: int
    """Kernels before attention; -1 without."""

    @property
    def sum_ns(self) -> Floats:
        """Time of all kernels by number of tokens."""
        return np.asarray(self.costs.duration_ns.reshape(-1, self.width).sum(axis=1))


class _Listed:
    """Kernels of one layer after another, each with its law or a stated time."""

    def __init__(self, part: EnginePart, family: KernelFamily) -> None:
        self.part, self.family = part, family
        self.rows: list[Row] = []
        self.laws: list[Efficiency] = []
        self.stated_ns: list[float] = []
        self.scales: list[KernelScale] = []
        self._plain = replace(FITTED, launch_us=family.products["half"].launch_us)

    def add(self, row: Row, law: Efficiency | None = None, stated_ns: float = 0.0, scale: KernelScale = AS_IS) -> None:
        self.rows.append(row)
        self.laws.append(law or self._plain)
        self.stated_ns.append(stated_ns)
        self.scales.append(scale)

    def scale(self, kind: KernelKind) -> KernelScale:
        return self.part.gpu.kernels.get(kind, AS_IS)

    def products(self, listed: Sequence[Product], tokens: float) -> None:
        form = self.part.format
        scale = self.scale(kernel_kind("products", form))
        for product in listed:
            self.add(_product(product, tokens, self.part), self.family.products[form], scale=scale)
            if product.by_rows:
                self.summed(tokens * product.outer * HALF_BYTES)

    def summed(self, moved: float) -> None:
        """The sum over GPUs behind a product that is split by rows."""
        if self.part.gpus > 1:
            time = self.family.sums.ns(np.asarray(moved), self.part.gpus, graphs=self.part.graphs)
            self.add(summed(moved), stated_ns=float(time), scale=self.scale("sums"))

    def experts(self, model: LanguageModel, tokens: float) -> None:
        mixture, law = model.mixture, self.family.experts[self.part.format]
        scale = self.scale(kernel_kind("experts", self.part.format))
        assert mixture is not None
        touched = max(1.0, mixture.touched(tokens))
        assigned = tokens * mixture.active
        inner = mixture.inner / self.part.gpus
        for row in expert_matrices(
            model.width,
            inner,
            touched=touched,
            tokens=max(1.0, assigned / touched),
            weight_bytes=self.part.weight_bytes,
            rounded=self.part.format != "half",
        ):
            self.add(row, law.products, scale=scale.model_copy(update={"added_us": 0.0}))  # added once, by routing
        bandwidth = self.part.gpu.bandwidth_gb_s * self.part.bandwidth_share
        routed = law.routed_ns(np.asarray(assigned), np.asarray(model.width), np.asarray(inner), bandwidth)
        self.add(passing("route", assigned, model.width, reads=1.0, writes=1.0), stated_ns=float(routed), scale=scale)
        self.summed(tokens * model.width * HALF_BYTES)


def layer_table(
    model: LanguageModel, part: EnginePart, family: KernelFamily, grid: Ints, *, mlp: Sequence[Product], mixed: bool
) -> KernelTable:
    """A layer without attention, by number of tokens."""
    listed = _Listed(part, family)
    width = attention_at = 0
    for tokens in grid.astype(float):
        begin = len(listed.rows)
        listed.add(passing("norm", tokens, model.width, reads=2.0, writes=2.0))
        listed.products(model.before, tokens)
        listed.add(passing("rotate and cache", tokens, model.before[0].outer / part.gpus, reads=1.0, writes=1.0))
        attention_at = len(listed.rows) - begin
        listed.products(model.after, tokens)
        listed.add(passing("norm", tokens, model.width, reads=2.0, writes=2.0))
        if mixed:
            listed.experts(model, tokens)
        if mlp:
            listed.products(mlp[:1], tokens)
            listed.add(passing("activate", tokens, mlp[1].inner / part.gpus, reads=2.0, writes=1.0))
            listed.products(mlp[1:], tokens)
        width = len(listed.rows) - begin
    return KernelTable(*_costed(listed, part), width, attention_at)


def ends_table(model: LanguageModel, part: EnginePart, family: KernelFamily, grid: Ints) -> KernelTable:
    """Embedding, last norm, language head and sampling, by number of sequences that get a token."""
    plain = replace(part, quantised=None)  # embeddings and the head keep their format
    listed = _Listed(plain, family)
    for sequences in grid.astype(float):
        listed.add(passing("embed", sequences, model.width, reads=1.0, writes=1.0))
        listed.add(passing("norm", sequences, model.width, reads=2.0, writes=2.0))
        listed.products((Product("head", model.vocabulary, model.width),), sequences)
        listed.add(passing("sample", sequences, model.vocabulary, reads=4.0, writes=2.0))
    return KernelTable(*_costed(listed, plain), 4, -1)


def _costed(listed: _Listed, part: EnginePart) -> tuple[Kernels, Costs]:
    """Costs of the kernels; where a time is stated, it is the kernel's."""
    kernels = columns(listed.rows)
    by_law: dict[int, list[int]] = {}
    for index, law in enumerate(listed.laws):
        by_law.setdefault(id(law), []).append(index)
    by_column: dict[str, Any] = {}
    for places in by_law.values():
        at = np.array(places, dtype=np.int64)
        costs = solo_costs(
            kernels.take(at),
            part.gpu,
            sms=part.sms,
            bandwidth_share=part.bandwidth_share,
            l2_share=part.bandwidth_share,
            clock_mhz=part.clock_mhz,
            efficiency=listed.laws[places[0]],
        )
        for column in fields(Costs):
            values = getattr(costs, column.name)
            by_column.setdefault(column.name, np.zeros(len(kernels), values.dtype))[at] = values
    given = np.asarray(listed.stated_ns)
    by_column["duration_ns"] = np.where(given > 0, given, by_column["duration_ns"])
    by_column["fixed_ns"] = np.where(given > 0, given, by_column["fixed_ns"])
    if part.gpu.kernels:
        times = np.array([scale.times for scale in listed.scales])
        added_ns = np.array([scale.added_us * 1e3 for scale in listed.scales])
        for name in ("compute_ns", "memory_ns", "l2_ns"):
            by_column[name] *= times
        for name in ("duration_ns", "fixed_ns"):
            by_column[name] = np.maximum(by_column[name] * times + added_ns, 0.0)
    return kernels, Costs(**by_column)


def _product(product: Product, tokens: float, part: EnginePart) -> Row:
    cut = 1 if product.whole else part.gpus
    outer = product.outer if product.by_rows else product.outer / cut
    inner = product.inner / cut if product.by_rows else product.inner
    size = (tokens, outer, inner, 1.0)
    return matrix(product.name, size, weight_bytes=part.weight_bytes, rounded=part.format != "half")
