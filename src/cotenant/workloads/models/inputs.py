"""Requests' inputs: made once, from the seed, on the host; each request takes the next one."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.protocol import WorkloadSpec

SAMPLED = 8
"""How many lengths are drawn when lengths are sampled; requests go round them."""

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs that requests take in turn, and what is to be recorded of them."""

    ring: tuple[Tensors, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def turns(self) -> Iterator[Tensors]:
        """Endlessly, one request's input after the other."""
        return itertools.cycle(self.ring)


def make_inputs(entry: ModelEntry, spec: WorkloadSpec, *, dtype: torch.dtype, device: str = "cpu") -> Inputs:
    """The inputs of a spec; on `meta` only their shapes."""
    if device == "meta":
        with torch.device("meta"):
            return _make(entry, spec, dtype, None)
    return _make(entry, spec, dtype, torch.Generator().manual_seed(spec.seed))


def lengths_of(entry: ModelEntry, spec: WorkloadSpec) -> tuple[int, ...]:
    """Tokens per item of each request in turn: one length, or several drawn evenly from an eighth of it up."""
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
    vocabulary = entry.config.get("vocab_size", 30522 if entry.family == "encoder" else 50257)
    lengths = lengths_of(entry, spec)
    ring = tuple(
        # Low numbers are special tokens (padding above all), which some models treat differently.
        {"input_ids": torch.randint(8, vocabulary, (spec.batch, length), generator=generator)}
        for length in lengths
    )
    facts = {"input": "uniform tokens", "lengths": list(lengths) if len(lengths) > 1 else "fixed"}
    return Inputs(ring, facts)
