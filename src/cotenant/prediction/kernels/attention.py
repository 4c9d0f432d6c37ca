"""Attention of language-model engines: prompts in chunks, and one token per sequence over its cached context.

Both are one launch over many sequences of different lengths. A prompt attends causally, so tiles above the diagonal are
skipped. Decoding reads every sequence's keys and values once and has a floor: starts, splits of long contexts, their
sum.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.kernels.cost import overlapped

_SHORT, _LONG = 64, 128
"""Rows of a tile."""
_HALF_BYTES = 2.0
_SPLIT_FROM = 256.0
"""Tokens of context from which decoding splits them over several thread blocks."""
_LEAST_STREAMED = 64.0
"""Tokens of context that a thread block reads at least."""
_STEEP = 8.0
"""How sharply traffic moves from L2 to DRAM as the cached context outgrows it."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Shape of a model's attention on each GPU."""

    query: float
    """Query heads."""
    cached: float
    """Heads of keys and values."""
    width: float
    bytes_per_value: float = _HALF_BYTES
    """Of cached keys and values."""


@dataclass(frozen=True, slots=True)
class AttentionPart:
    """A part of a GPU that attention runs on."""

    sms: float
    rate: float
    """Dense half-precision operations per nanosecond of an SM on tensor cores, at the boost clock."""
    bandwidth: float
    """Bytes per nanosecond."""
    l2_bytes: float = 0.0
    """L2 that holds the context from the previous run, as in a benchmark's loop; 0 in an engine."""


@dataclass(frozen=True, slots=True)
class PromptAttention:
    """Constants of prompts' attention. Fractions are relative to the data sheet's peaks."""

    share: float
    """Fraction of the tensor cores' peak in the products."""
    short: float
    """The same for tiles of 64 rows, relative to 128."""
    softmax: float
    """Operations per score besides the products, in those of tensor cores."""
    diagonal: float
    """Work in a tile on the diagonal relative to a full tile."""
    block_us: float
    dram: float
    overlap: float
    """Exponent for combining arithmetic and memory times."""
    floor_us: float
    packed: float
    """Queries up to which the heads of a group share a tile."""


@dataclass(frozen=True, slots=True)
class DecodeAttention:
    """Constants of decoding's attention."""

    floor_us: float
    copy_us: float
    """Added where grouped heads are regrouped in memory first: several sequences, several heads of keys."""
    split_us: float
    """Added where contexts are split and summed."""
    dram: float
    l2: float
    """Bandwidth of the L2 relative to DRAM."""
    hot: float
    """Fraction of the L2 up to which a benchmark's loop finds its context there."""
    block_us: float
    head_us: float
    """Added to a block per query head of its group."""
    streamed_gb_s: float
    """Keys and values that a thread block reads."""
    overlap: float
    spread: float
    """Thread blocks per SM that splits aim at."""
    splits_all: bool
    """Whether contexts are also split where every query head has its own keys."""


@dataclass(frozen=True, slots=True)
class Attended:
    """Time of launches of attention and what they hold; an entry per launch."""

    duration_ns: Floats
    fixed_ns: Floats
    compute_ns: Floats
    memory_ns: Floats
    dram_bytes: Floats
    blocks: Floats


def prompts(
    law: PromptAttention, heads: Heads, part: AttentionPart, *, queries: Floats, contexts: Floats, count: Floats
) -> Floats:
    """Work of groups of equal prompts in columns: block time (sum), the longest block, bytes, blocks.

    Args:
        law: Constants.
        heads: The model's heads.
        part: The part of the GPU.
        queries: Tokens of each prompt in this step.
        contexts: Tokens of each prompt computed before.
        count: Prompts per group.
    """
    grouped = queries <= law.packed
    rows = np.where(grouped, queries * heads.query / heads.cached, queries)
    launched = np.where(grouped, heads.cached, heads.query)
    best: Floats | None = None
    for tile, share in ((_LONG, law.share), (_SHORT, law.share * law.short)):
        across = np.ceil(rows / tile)
        before, along = contexts / tile, np.ceil(queries / tile)
        inside = np.where(grouped, across * along, across * (across - 1) / 2 + across * law.diagonal)
        score_ns = tile * tile * (4 * heads.width + law.softmax) / (part.rate * share)
        work_ns = (inside + across * before) * score_ns + across * law.block_us * 1e3
        longest = (along + before) * score_ns + law.block_us * 1e3
        blocks = count * launched * across
        columns = np.stack([count * launched * work_ns, longest, blocks])
        total = np.maximum(columns[0] / np.minimum(part.sms, np.maximum(blocks, 1.0)), longest)
        if best is None:
            best, least = columns, total
        else:
            best = np.where(total < least, columns, best)
    assert best is not None
    moved = count * (
        2 * queries * heads.query * heads.width * _HALF_BYTES
        + 2 * (queries + contexts) * heads.cached * heads.width * heads.bytes_per_value
    )
    return np.concatenate([best, moved[None]])


def prompts_launched(law: PromptAttention, part: AttentionPart, work: Floats) -> Attended:
    """Launches over groups of prompts, whose columns (see `prompts`) are summed except for the longest block."""
    total, longest, blocks, moved = work
    compute = np.maximum(total / part.sms, longest)
    memory = moved / (part.bandwidth * law.dram)
    busy = overlapped(law.overlap, compute, memory)
    fixed = np.full_like(busy, law.floor_us * 1e3)
    return Attended(busy + fixed, fixed, compute, memory, moved, blocks)


def decoding(law: DecodeAttention, heads: Heads, part: AttentionPart, sequences: Floats, contexts: Floats) -> Attended:
    """Launches over sequences that each attend with one token to their context.

    Args:
        law: Constants.
        heads: The model's heads.
        part: The part of the GPU.
        sequences: Sequences per launch.
        contexts: Mean tokens of context.
    """
    cached = 2 * sequences * contexts * heads.cached * heads.width * heads.bytes_per_value
    moved = cached + 2 * sequences * heads.query * heads.width * _HALF_BYTES
    memory = moved / (part.bandwidth * law.dram)
    if part.l2_bytes:
        outgrown = 1 / (1 + (np.maximum(cached, 1.0) / (law.hot * part.l2_bytes)) ** -_STEEP)
        memory = memory * outgrown + moved / (part.bandwidth * law.l2) * (1 - outgrown)
    grid = sequences * heads.cached
    may_split = (contexts > _SPLIT_FROM) & (law.splits_all or heads.query > heads.cached)
    parts = np.maximum(1.0, np.minimum(np.floor(law.spread * part.sms / grid), np.ceil(contexts / _LONG)))
    parts = np.where(may_split, parts, 1.0)
    waves = np.maximum(1.0, grid * parts / part.sms)
    streamed = np.maximum(contexts / parts, _LEAST_STREAMED) * 2 * heads.width * heads.bytes_per_value
    block_us = law.block_us + law.head_us * heads.query / heads.cached
    compute = waves * block_us * 1e3 + streamed / law.streamed_gb_s
    regrouped = (sequences > 1) & (heads.query > heads.cached > 1)
    fixed = (law.floor_us + law.copy_us * regrouped + law.split_us * (parts > 1)) * 1e3
    return Attended(overlapped(law.overlap, compute, memory) + fixed, fixed, compute, memory, moved, grid * parts)
