"""A step of an engine on a part of a GPU: its kernels, and their time alone.

The products of a step depend on its number of tokens alone, and are tabulated once. Attention depends on every
sequence's context, and is computed for each step.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from cotenant.prediction.engines.language_model import LanguageModel
from cotenant.prediction.engines.layer_tables import AS_IS, EnginePart, ends_table, layer_table, token_grid
from cotenant.prediction.gpu import KernelKind, KernelScale
from cotenant.prediction.kernels.attention import (
    Attended,
    AttentionPart,
    Heads,
    decoding,
    prompts,
    prompts_launched,
)
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.kernels.families import family_of
from cotenant.prediction.kernels.layers import HALF_BYTES

_CONTEXTS = 24
"""Lengths for which attention is tabulated."""


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


def prompt_step(prompt: float, hits: float) -> StepShape:
    """A step with one prompt, of which this share is in the cache."""
    return StepShape(queries=(prompt * (1 - hits),), contexts=(prompt * hits,))


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
        self.layer = layer_table(model, part, self._family, self.grid, mlp=model.mlp, mixed=model.mixture is not None)
        self.dense = (
            layer_table(model, part, self._family, self.grid, mlp=model.dense_mlp, mixed=False)
            if model.dense_layers
            else None
        )
        self.ends = ends_table(model, part, self._family, self.grid)
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
            launched.append(_scaled(self._prompts(queries, contexts), self._scale("prompts"), self._attention))
        if step.decoding:
            mean = step.decoding_context / step.decoding
            decoded = self._decoding(np.array([float(step.decoding)]), np.array([mean]))
            launched.append(_scaled(decoded, self._scale("decoding"), self._attention))
        return launched

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
        decoded = _scaled(self._decoding(counts, lengths), self._scale("decoding"), self._attention).duration_ns
        queries = np.unique(np.geomspace(1.0, min(float(tokens[-1]), max(longest, 2)), _CONTEXTS).round())
        before = np.append(0.0, contexts)
        chunks, known = (axis.ravel() for axis in np.meshgrid(queries, before, indexing="ij"))
        work = prompts(law, self.heads, self._room, queries=chunks, contexts=known, count=np.ones(chunks.size))
        read = _scaled(prompts_launched(law, self._room, work), self._scale("prompts"), self._attention)
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

    def _scale(self, kind: KernelKind) -> KernelScale:
        return self.part.gpu.kernels.get(kind, AS_IS)

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


def _scaled(kernel: Attended, scale: KernelScale, factor: float) -> Attended:
    """As tables of the GPU have it, and slower in an engine by a factor, except for its floor."""
    fixed, whole = scale.ns(kernel.fixed_ns), scale.ns(kernel.duration_ns)
    times = {name: getattr(kernel, name) * scale.times for name in ("compute_ns", "memory_ns")}
    return replace(kernel, duration_ns=fixed + (whole - fixed) * factor, fixed_ns=fixed, **times)
