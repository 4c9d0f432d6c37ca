"""Synthetic siblings: one model with its last blocks changed, many times. Shows the savings of sharing."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from cotenant.ranking.survey import mode_for, survey
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.skeleton import build_skeleton, materialise


def write_siblings(folder: Path, entry: ModelEntry, count: int, *, changed: int, seed: int = 0) -> list[Path]:
    """Directories of weights: the first is a model with random weights, the others differ in their last blocks.

    Args:
        folder: Parent of the directories.
        entry: The model.
        count: Number of directories.
        changed: Number of last blocks (besides the tail) specific to each sibling.
        seed: Seed of the weights.
    """
    mode = mode_for(entry, logits=False)
    model = materialise(build_skeleton(entry, mode), device="cpu", dtype=torch.float32, seed=seed)
    own = survey(entry, mode).pieces[-changed - 1 :]
    names = [piece.prefix + name for piece in own for name in piece.names]
    kind = getattr(model, "config", None)
    settings = dict(kind.to_dict()) | {"architectures": [type(model).__name__]} if kind is not None else {}
    state = model.state_dict()
    made = []
    for number in range(count):
        generator = torch.Generator().manual_seed(seed + number)
        weights = dict(state)
        for name in names if number else []:
            tensor = state.get(name)
            if tensor is not None and tensor.is_floating_point():
                weights[name] = tensor + 0.02 * torch.randn(tensor.shape, generator=generator)
        target = folder / f"sibling-{number:02d}"
        target.mkdir(parents=True)
        (target / "config.json").write_text(json.dumps(settings, default=str), encoding="utf-8")
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, target / "model.safetensors")
        made.append(target)
    return made
