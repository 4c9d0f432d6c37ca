"""A step of an engine on a part of a GPU: its kernels, and their time alone.

The products of a step depend on its number of tokens alone, and are tabulated once. Attention depends on every
sequence's context, and is computed for each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from cotenant.prediction.engines.language_model import LanguageModel, Product
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.attention import (
    Attended,
    AttentionPart,
    Heads,
    decoding,
    prompts,
    prompts_launched,
)
from cotenant.prediction.kernels.columns import Floats, Ints, Kernels
from cotenant.prediction.kernels.cost import Costs, solo_costs
from cotenant.prediction.kernels.efficiency import FITTED, Efficiency
from cotenant.prediction.kernels.families import Format, KernelFamily, family_of
from cotenant.prediction.kernels.layers import HALF_BYTES, expert_matrices, matrix, passing, summed
from cotenant.prediction.kernels.operators import Row, columns
from cotenant.workloads.protocol import Quantised

_CONTEXTS = 24
"""Lengths for which attention is tabulated."""
_BITS: dict[Quantised, float] = {"fp8": 8.0, "int8": 8.0, "int4": 4.5}


@dataclass(frozen=True, slots=True)
class StepShape:
    """The work of a step."""

    decoding: int = 0
    """Sequences that generate one token each."""
    decoding_context: float = 0.0
    """Sum of their contexts, tokens."""
    queries: tuple[float, ...] = ()
    """Tokens of each prompt in this step."""
    contexts: tuple[float, ...] = ()
    """Tokens of each prompt that were computed before."""

    @property
    def tokens(self) -> float:
        """All tokens of the step."""
        return self.decoding + sum(self.queries)

    @property
    def sequences(self) -> int:
        """Sequences with a token in this step."""
        return self.decoding + len(self.queries)


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
        new = tuple(int(part) for part in self.gpu.compute_capability.split(".")) >= (8, 9)
        if self.quantised in ("fp8", "int8") and new and self.gpu.tensor_rate("int8") is not None:
            return "fp8"
        return "half"

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


class StepTimes:
    """Times of a model's steps on a part of a GPU."""

    def __init__(
        self,
        model: LanguageModel,
        part: EnginePart,
        *,
        most_tokens: int,
        graph_tokens: int = 512,
        attention: float = 1.0,
    ) -> None:
        self.model, self.part = model, part
        self._family = family_of(part.gpu.architecture)
        self._attention = attention
        self._captured = graph_tokens if part.graphs else 0
        self.grid = token_grid(max(most_tokens, graph_tokens), graph_tokens)
        gpu = part.gpu
        clock = (part.clock_mhz or gpu.clocks_mhz.under_load) / gpu.clocks_mhz.under_load
        self._room = AttentionPart(
            sms=float(part.sms or gpu.sms),
            rate=(gpu.tensor_rate("bfloat16") or gpu.tensor_rate("float16") or gpu.vector_rate("float16"))
            / gpu.sms
            * clock
            * 1e-9,
            bandwidth=gpu.bandwidth_gb_s * part.bandwidth_share,
        )
        ways = part.gpus
        self.heads = Heads(
            max(1.0, model.heads.query / ways),
            max(1.0, model.heads.cached / ways),
            model.heads.width,
            model.heads.bytes_per_value * part.cached_bytes / HALF_BYTES,
        )
        self.layer = _table(model, part, self._family, self.grid, mlp=model.mlp, mixed=model.mixture is not None)
        self.dense = (
            _table(model, part, self._family, self.grid, mlp=model.dense_mlp, mixed=False)
            if model.dense_layers
            else None
        )
        self.ends = _ends(model, part, self._family, self.grid)
        mixed = model.layers - model.dense_layers
        self._layers_ns = self.layer.sum_ns * mixed + (self.dense.sum_ns * model.dense_layers if self.dense else 0.0)

    @property
    def kernels(self) -> int:
        """Kernels of a step, with one launch of attention per layer."""
        return (self.layer.width + 1) * self.model.layers + self.ends.width

    def device_ns(self, step: StepShape) -> float:
        """Time of a step's kernels alone, one after another."""
        at, upper, weight = self.row(step.tokens, graphs=True)
        layers = self._layers_ns[at] * (1 - weight) + self._layers_ns[upper] * weight
        at, upper, weight = self.row(step.sequences, graphs=False)
        ends = self.ends.sum_ns[at] * (1 - weight) + self.ends.sum_ns[upper] * weight
        attention = sum(float(kernel.duration_ns[0]) for kernel in self.attended(step))
        return float(layers + ends + attention * self.model.layers)

    def row(self, tokens: float, *, graphs: bool) -> tuple[int, int, float]:
        """The rows of the table around a number of tokens, and the weight of the upper row."""
        grid = self.grid
        upper = int(np.searchsorted(grid, tokens))
        if upper >= grid.size:
            return grid.size - 1, grid.size - 1, 0.0
        if upper == 0 or grid[upper] == tokens or (graphs and tokens <= self._captured):
            return upper, upper, 0.0
        return upper - 1, upper, float((tokens - grid[upper - 1]) / (grid[upper] - grid[upper - 1]))

    def attended(self, step: StepShape) -> list[Attended]:
        """Launches of attention of a layer: of prompts, of decoding; an average over layers with a window."""
        launched = []
        if step.queries:
            queries, contexts = np.array(step.queries), np.array(step.contexts)
            launched.append(self._prompts(queries, contexts))
        if step.decoding:
            mean = step.decoding_context / step.decoding
            launched.append(self._decoding(np.array([float(step.decoding)]), np.array([mean])))
        return [_scaled(kernel, self._attention) for kernel in launched]

    def tabulated(self, most_sequences: int, longest: int) -> "StepTable":
        """Times of steps in tables that compiled code reads.

        Args:
            most_sequences: Of a step.
            longest: Tokens of the longest request.
        """
        law = self._family.prompts
        tokens = self.grid.astype(float)
        sequences = np.append(tokens[tokens < most_sequences], float(most_sequences))
        contexts = np.geomspace(1.0, max(longest, 2), _CONTEXTS)
        counts, lengths = (axis.ravel() for axis in np.meshgrid(sequences, contexts, indexing="ij"))
        decoded = _scaled(self._decoding(counts, lengths), self._attention).duration_ns
        queries = np.unique(np.geomspace(1.0, min(float(tokens[-1]), max(longest, 2)), _CONTEXTS).round())
        before = np.append(0.0, contexts)
        chunks, known = (axis.ravel() for axis in np.meshgrid(queries, before, indexing="ij"))
        work = prompts(law, self.heads, self._room, queries=chunks, contexts=known, count=np.ones(chunks.size))
        read = _scaled(prompts_launched(law, self._room, work), self._attention)
        layers = float(self.model.layers)
        return StepTable(
            tokens=tokens,
            captured=float(self._captured),
            layers_ns=self._layers_ns,
            ends_ns=self.ends.sum_ns,
            sequences=sequences,
            contexts=contexts,
            decoding_ns=decoded.reshape(sequences.size, -1) * layers,
            queries=queries,
            before=before,
            prompts_ns=(read.duration_ns - read.fixed_ns).reshape(queries.size, -1) * layers,
            prompt_floor_ns=float(read.fixed_ns[0]) * layers,
        )

    def _prompts(self, queries: Floats, contexts: Floats) -> Attended:
        law = self._family.prompts
        work = prompts(law, self.heads, self._room, queries=queries, contexts=contexts, count=np.ones(queries.size))
        summed = np.array([work[0].sum(), work[1].max(), work[2].sum(), work[3].sum()])[:, None]
        return prompts_launched(law, self._room, summed)

    def _decoding(self, sequences: Floats, contexts: Floats) -> Attended:
        law, window = self._family.decoding, self.model.window
        full = decoding(law, self.heads, self._room, sequences, contexts)
        if window is None or not (contexts > window).any():
            return full
        near = decoding(law, self.heads, self._room, sequences, np.minimum(contexts, window))
        share = np.where(contexts > window, self.model.windowed, 0.0)
        return Attended(
            *(
                getattr(full, column.name) * (1 - share) + getattr(near, column.name) * share
                for column in fields(Attended)
            )
        )


@dataclass(frozen=True, slots=True)
class StepTable:
    """Times alone of an engine's steps, for compiled code."""

    tokens: Floats
    captured: float
    """Tokens up to which a step is padded to the next of `tokens`."""
    layers_ns: Floats
    """All layers without attention, by tokens."""
    ends_ns: Floats
    """Embedding, language head and sampling, by sequences (in `tokens`)."""
    sequences: Floats
    contexts: Floats
    decoding_ns: Floats
    """Attention of sequences that decode, all layers: sequences x mean contexts."""
    queries: Floats
    before: Floats
    prompts_ns: Floats
    """Attention of a prompt, all layers, without its floor: tokens x tokens computed before."""
    prompt_floor_ns: float


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
        self._plain = replace(FITTED, launch_us=family.products["half"].launch_us)

    def add(self, row: Row, law: Efficiency | None = None, stated_ns: float = 0.0) -> None:
        self.rows.append(row)
        self.laws.append(law or self._plain)
        self.stated_ns.append(stated_ns)

    def products(self, listed: Sequence[Product], tokens: float) -> None:
        for product in listed:
            self.add(_product(product, tokens, self.part), self.family.products[self.part.format])
            if product.by_rows:
                self.summed(tokens * product.outer * HALF_BYTES)

    def summed(self, moved: float) -> None:
        """The sum over GPUs behind a product that is split by rows."""
        if self.part.gpus > 1:
            time = self.family.sums.ns(np.asarray(moved), self.part.gpus, graphs=self.part.graphs)
            self.add(summed(moved), stated_ns=float(time))

    def experts(self, model: LanguageModel, tokens: float) -> None:
        mixture, law = model.mixture, self.family.experts[self.part.format]
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
            self.add(row, law.products)
        bandwidth = self.part.gpu.bandwidth_gb_s * self.part.bandwidth_share
        routed = law.routed_ns(np.asarray(assigned), np.asarray(model.width), np.asarray(inner), bandwidth)
        self.add(passing("route", assigned, model.width, reads=1.0, writes=1.0), stated_ns=float(routed))
        self.summed(tokens * model.width * HALF_BYTES)


def _table(
    model: LanguageModel, part: EnginePart, family: KernelFamily, grid: Ints, *, mlp: Sequence[Product], mixed: bool
) -> KernelTable:
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


def _ends(model: LanguageModel, part: EnginePart, family: KernelFamily, grid: Ints) -> KernelTable:
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
    return kernels, Costs(**by_column)


def _product(product: Product, tokens: float, part: EnginePart) -> Row:
    cut = 1 if product.whole else part.gpus
    outer = product.outer if product.by_rows else product.outer / cut
    inner = product.inner / cut if product.by_rows else product.inner
    size = (tokens, outer, inner, 1.0)
    return matrix(product.name, size, weight_bytes=part.weight_bytes, rounded=part.format != "half")


def _scaled(kernel: Attended, factor: float) -> Attended:
    extra = (kernel.duration_ns - kernel.fixed_ns) * (factor - 1.0)
    return replace(kernel, duration_ns=kernel.duration_ns + extra)
