"""Weights from disk (or a seed), in pieces named by their content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from cotenant.errors import WorkloadError
from cotenant.ranking.candidates import Candidate
from cotenant.ranking.chain import Chain, Weights
from cotenant.ranking.survey import survey
from cotenant.workloads.models import build_skeleton, check_weights, load_and_tell, materialise


@dataclass(frozen=True, slots=True)
class Read:
    """One candidate's weights, split into the pieces of its chain."""

    digests: tuple[str, ...]
    """One for each piece: architecture, position and content."""
    pieces: Mapping[str, Weights]
    """Weights by digest."""

    @property
    def bytes(self) -> int:
        """Total bytes in memory."""
        return sum(piece_bytes(piece) for piece in self.pieces.values())


def piece_bytes(piece: Weights) -> int:
    """Bytes of one piece's weights."""
    return sum(tensor.nbytes for tensor in piece.values())


def read(candidate: Candidate, chain: Chain) -> Read:
    """The candidate's weights, each tensor in its own memory.

    Raises:
        WorkloadError: They are missing, or another model's.
    """
    weights = _weights(candidate, chain)
    pieces: dict[str, Weights] = {}
    digests = []
    for piece in chain.pieces:
        taken = {name: _own(tensor) for name, tensor in piece.take(weights).items()}
        digest = _digest(candidate.architecture, piece.label, taken)
        pieces.setdefault(digest, taken)
        digests.append(digest)
    return Read(tuple(digests), pieces)


def _weights(candidate: Candidate, chain: Chain) -> dict[str, torch.Tensor]:
    entry, mode = candidate.entry, chain.mode
    if candidate.weights is None:
        model = materialise(build_skeleton(entry, mode), device="cpu", dtype=torch.float32, seed=candidate.seed)
    else:
        check_weights(entry, candidate.weights)
        straight = _straight(Path(candidate.weights), chain)
        if straight is not None:
            return straight
        model, lacking = load_and_tell(entry, mode, candidate.weights, dtype=torch.float32, seed=candidate.seed)
        _require_all(candidate, chain, lacking)
    return dict((*model.named_parameters(), *model.named_buffers()))


def _straight(folder: Path, chain: Chain) -> dict[str, torch.Tensor] | None:
    """The weights as stored, if every one is there under its own name and shape.

    The library's loader, which handles older names and other layouts, takes many times as long; siblings are many.
    """
    files = list(folder.glob("*.safetensors"))
    shapes = chain.shapes()
    if len(files) != 1:
        return None
    try:
        tensors = load_file(files[0])
    except (OSError, ValueError, SafetensorError):
        return None  # the library gives the best error message
    if any(name not in tensors for name in shapes):
        return None
    if chain.logits and any(tuple(tensors[name].shape) != shape for name, shape in shapes.items()):
        return None  # a head for another number of classes than the first model of this architecture
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise WorkloadError(
                f"the weights in {folder} don't match the model: {name} is {_times(tensors[name].shape)} in the file, "
                f"and {_times(shape)} by config.json",
                hint="check that config.json belongs to the weights",
            )
    floats = {
        name: tensors[name] if not tensors[name].is_floating_point() else tensors[name].float() for name in shapes
    }
    return {**chain.constants(), **floats}


def _times(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _require_all(candidate: Candidate, chain: Chain, lacking: tuple[str, ...]) -> None:
    """Refuse missing weights: random numbers in their place would be ranked as if learned."""
    needed = {piece.prefix + name for piece in chain.pieces for name in piece.names}
    # Features don't pass through a pooler.
    absent = [name for name in lacking if name in needed and ".pooler." not in f".{name}"]
    if chain.logits and f"{survey(candidate.entry, chain.mode).head}.weight" in absent:
        raise WorkloadError(
            f"the weights of {candidate.name} have no classification head, which this scorer uses",
            hint="--scorer linear, or leave it out",
        )
    if absent:
        raise WorkloadError(
            f"the weights in {candidate.weights} don't match the model: {len(absent)} of {len(needed)} parameters are "
            f"missing, e.g. {absent[0]}",
            hint="check that config.json belongs to the weights",
        )


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in aligned memory: a mapped file may start anywhere, and stays open."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _digest(architecture: str, label: str, weights: Weights) -> str:
    digest = blake2b(f"{architecture}\0{label}\0".encode(), digest_size=16)
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
