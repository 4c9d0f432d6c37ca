"""Parses `layers` and counts the blocks it means. Needs no torch."""

import re

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry

_LAST = re.compile(r"^last\s+(\d+(?:\.\d+)?)\s*(%?)$")
FORMS = "full, last 3 or last 50%"


def kept(layers: str, blocks: int) -> int:
    """Number of a model's blocks that stay."""
    if layers == "full":
        return blocks
    match = _LAST.match(layers)
    if match is None:
        raise WorkloadError(f"layers {layers!r} is invalid", hint=f"write {FORMS}")
    number, percent = float(match.group(1)), match.group(2) == "%"
    if percent and not 0 < number <= 100:
        raise WorkloadError(f"layers {layers!r}: a share is above 0 % and at most 100 %", hint=f"write {FORMS}")
    count = max(1, round(blocks * number / 100)) if percent else int(number)
    if not percent and (count != number or not 1 <= count <= blocks):
        raise WorkloadError(f"layers {layers!r}: the model has {blocks} blocks", hint=f"keep from 1 to {blocks}")
    return count


def block_count(entry: ModelEntry) -> int | None:
    """Number of blocks in a model, from its configuration; None if it has no chain of them."""
    for key in ("num_hidden_layers", "n_layer", "n_layers"):
        if key in entry.config:
            return int(entry.config[key])
    if "depths" in entry.config:
        return int(sum(entry.config["depths"]))
    if "parts" in entry.config:
        return int(sum(blocks for *_, blocks in entry.config["parts"]))
    return entry.architecture.blocks
