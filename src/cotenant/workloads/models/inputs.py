"""Inputs of requests: made once, from the seed, on the host; each request takes the next."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.recommender import DEFAULT_LOOKUPS, DEFAULT_SKEW
from cotenant.workloads.models.seq2seq import WRITTEN
from cotenant.workloads.protocol import WorkloadSpec

SAMPLED = 8
"""Number of lengths drawn when lengths are sampled; requests cycle through them."""
CLICK_BATCHES = 64
"""Number of batches a recommender's requests cycle through: the rows of a single batch would stay in the cache."""

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs that requests cycle through, and what to record about them."""

    ring: tuple[Tensors, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def turns(self) -> Iterator[Tensors]:
        """Yield the input of each request, endlessly."""
        return itertools.cycle(self.ring)


def make_inputs(entry: ModelEntry, spec: WorkloadSpec, *, dtype: torch.dtype, device: str = "cpu") -> Inputs:
    """The inputs of a spec; on `meta` only their shapes."""
    if device == "meta":
        with torch.device("meta"):
            return _make(entry, spec, dtype, None)
    return _make(entry, spec, dtype, torch.Generator().manual_seed(spec.seed))


def host_of(device: str) -> str:
    """Where inputs wait and results go: the host, or `meta` in a dry run."""
    return "meta" if device == "meta" else "cpu"


def hidden_inputs(shape: tuple[int, ...], *, dtype: torch.dtype, seed: int, device: str) -> Inputs:
    """A hidden state for a slice of a model."""
    generator = None if device == "meta" else torch.Generator().manual_seed(seed)
    hidden = torch.randn(shape, generator=generator, device=device).to(dtype)
    return Inputs(({"hidden": hidden},), {"input": "normal hidden state"})


def lengths_of(entry: ModelEntry, spec: WorkloadSpec) -> tuple[int, ...]:
    """Tokens per item of each request in turn: fixed, or drawn uniformly from an eighth of the length upwards."""
    longest = spec.seq or entry.seq or 1
    if spec.params.get("lengths", "fixed") == "fixed":
        return (longest,)
    generator = torch.Generator().manual_seed(spec.seed)
    shortest = max(1, longest // 8)
    drawn = torch.randint(shortest, longest + 1, (SAMPLED,), generator=generator, device="cpu")
    return tuple(drawn.tolist())


def _make(entry: ModelEntry, spec: WorkloadSpec, dtype: torch.dtype, generator: torch.Generator | None) -> Inputs:
    if entry.family == "vision":
        shape = (spec.batch, 3, entry.image or 224, entry.image or 224)
        pixels = torch.randn(shape, generator=generator).to(dtype)
        return Inputs(({"pixel_values": pixels},), {"input": "normal pixels"})
    if entry.family == "recommender":
        return clicks(entry, spec, dtype, generator)
    if entry.family == "seq2seq":
        return _read_and_written(entry, spec, dtype, generator)
    vocabulary = entry.config.get("vocab_size", 30522 if entry.family == "encoder" else 50257)
    lengths = lengths_of(entry, spec)
    ring = tuple(
        # Low numbers are special tokens (mainly padding), which some models treat differently.
        {"input_ids": torch.randint(8, vocabulary, (spec.batch, length), generator=generator)}
        for length in lengths
    )
    facts = {"input": "uniform tokens", "lengths": list(lengths) if len(lengths) > 1 else "fixed"}
    return Inputs(ring, facts)


def _read_and_written(
    entry: ModelEntry, spec: WorkloadSpec, dtype: torch.dtype, generator: torch.Generator | None
) -> Inputs:
    """The sequence read (a spectrogram, or tokens), and the sequence written."""
    seq = spec.seq or entry.seq or 1
    if "num_mel_bins" in entry.config:
        frames = 2 * int(entry.config.get("max_source_positions", 1500))
        spectrogram = (spec.batch, int(entry.config["num_mel_bins"]), frames)
        read = {"input_features": torch.randn(spectrogram, generator=generator).to(dtype)}
        written = seq
    else:
        shape = (spec.batch, seq)
        read = {"input_ids": torch.randint(8, entry.config["vocab_size"], shape, generator=generator)}
        written = min(seq, WRITTEN)
    tokens = torch.randint(8, entry.config["vocab_size"], (spec.batch, written), generator=generator)
    facts = {"input": "normal spectrogram" if "input_features" in read else "uniform tokens", "written": written}
    return Inputs(({**read, "decoder_input_ids": tokens},), facts)


def clicks(entry: ModelEntry, spec: WorkloadSpec, dtype: torch.dtype, generator: torch.Generator | None) -> Inputs:
    """Numbers and categories; rows follow a Zipf law, with the popular ones spread over the table."""
    skew = float(spec.params.get("skew", DEFAULT_SKEW))
    lookups = int(spec.params.get("lookups", DEFAULT_LOOKUPS))
    tables: tuple[int, ...] = entry.config["tables"]
    ring = []
    for _ in range(1 if generator is None else CLICK_BATCHES):
        shares = torch.rand((len(tables), spec.batch, lookups), generator=generator, dtype=torch.float64)
        rows = [_zipf_rows(share, size, skew) for share, size in zip(shares, tables, strict=True)]
        dense = torch.rand((spec.batch, entry.config["dense"]), generator=generator).to(dtype)
        ring.append({"dense": dense, "categories": torch.stack(rows)})
    return Inputs(tuple(ring), {"input": f"zipf({skew:g}) rows, {lookups} per table and item"})


def _zipf_rows(shares: torch.Tensor, rows: int, skew: float) -> torch.Tensor:
    """Row numbers whose ranks follow a bounded power law (its continuous form, inverted)."""
    if abs(skew - 1) < 1e-9:
        ranks = float(rows) ** shares
    else:
        ranks = ((float(rows) ** (1 - skew) - 1) * shares + 1) ** (1 / (1 - skew))
    numbers = ranks.floor().to(torch.long).clamp(1, rows) - 1
    return numbers * 2654435761 % rows  # a multiplicative hash: neighbours in rank are not neighbours in memory
