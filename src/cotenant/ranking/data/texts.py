"""Texts with labels."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cotenant.ranking.data.tokens import tokens_of
from cotenant.ranking.protocol import Labels

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Texts:
    """A set of labelled texts. ``load`` gives `input_ids` and `attention_mask`, items x tokens."""

    name: str
    texts: tuple[str, ...]
    classes: tuple[str, ...]
    labels: Labels
    fingerprint: str
    skipped: int = 0
    """Rows and classes skipped because they can't be used."""
    kind: Literal["text"] = "text"

    def __len__(self) -> int:
        return len(self.texts)

    def load(self, indices: Sequence[int], shape: Mapping[str, Any]) -> Mapping[str, "torch.Tensor"]:
        """As tokens of the vocabulary in the directory `vocabulary`.

        Without one, words are hashed to numbers below `size` (default 4096): enough to time a model with random
        weights, but nothing else.
        """
        texts = [self.texts[index] for index in indices]
        return tokens_of(texts, int(shape["tokens"]), shape.get("vocabulary"), int(shape.get("size", 4096)))


def fingerprint_of(texts: Sequence[str | bytes], labels: Labels) -> str:
    """Hash of every item's content and label."""
    digest = hashlib.sha256(labels.tobytes())
    for text in texts:
        content = text.encode() if isinstance(text, str) else text
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()
