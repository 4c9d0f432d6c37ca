"""Texts as items and as tokens: by the vocabulary in a model's directory, or by a hash without one."""

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cotenant.errors import DataError
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


_WORD = re.compile(r"\w+|[^\w\s]")
_SPECIAL = 8
"""Numbers below this are special tokens in most vocabularies."""


def tokens_of(texts: Sequence[str], length: int, vocabulary: Any, size: int) -> dict[str, "torch.Tensor"]:
    """Numbers and mask, each text cut or padded to ``length``."""
    import torch

    numbers = _hashed(texts, length, size) if vocabulary is None else _looked_up(texts, length, str(vocabulary))
    ids = np.zeros((len(texts), length), np.int64)
    mask = np.zeros((len(texts), length), np.int64)
    for row, tokens in enumerate(numbers):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


def _hashed(texts: Sequence[str], length: int, size: int) -> list[list[int]]:
    room = size - _SPECIAL
    return [
        [_SPECIAL + zlib.crc32(word.encode()) % room for word in _WORD.findall(text.lower())[:length]] or [_SPECIAL]
        for text in texts
    ]


def _looked_up(texts: Sequence[str], length: int, folder: str) -> list[list[int]]:
    tokenizer = _tokenizer(folder)
    tokenizer.enable_truncation(length)
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]


@lru_cache(maxsize=8)
def _tokenizer(folder: str) -> Any:
    """Read as data: neither file can contain code."""
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    whole, words = Path(folder) / "tokenizer.json", Path(folder) / "vocab.txt"
    try:
        if whole.is_file():
            tokenizer = Tokenizer.from_file(str(whole))
            tokenizer.no_padding()
            return tokenizer
        if words.is_file():
            return BertWordPieceTokenizer(str(words))
    except Exception as error:  # the library raises plain Exceptions
        raise DataError(
            f"the vocabulary in {folder} can't be read: {error}", hint="is tokenizer.json whole?"
        ) from error
    raise DataError(f"{folder} has no vocabulary", hint="it needs tokenizer.json or vocab.txt next to the weights")


# --- turns labels into numbers, and rejects unusable ones

_LEAST = 2


def usable_items(name: str, written: Sequence[Hashable], *, skip_bad: bool) -> list[int]:
    """Positions of usable items; a class with one item can't be both trained and tested on."""
    counts = Counter(written)
    rare = [label for label, count in counts.items() if count < _LEAST]
    if rare and not skip_bad:
        others = f", and so have {len(rare) - 1} others" if len(rare) > 1 else ""
        raise DataError(
            f"{name}: class {rare[0]!r} has only one item{others}, so it can't be both trained and tested on",
            hint="check the label column; or add items, or skip bad ones: --skip-bad",
        )
    classes = len(counts) - len(rare)
    if classes < _LEAST:
        raise DataError(
            f"{name} has {'one usable class' if classes else 'no usable class'}, but a ranking needs two",
            hint="check the folder or label column",
        )
    return [position for position, label in enumerate(written) if counts[label] >= _LEAST]


def numbered(written: Sequence[Any], names: Sequence[str] | None = None) -> tuple[tuple[str, ...], Labels]:
    """Class names in order, and each item's number; ``names`` are those of the numbers in ``written``."""
    kinds = sorted(set(written))
    position = {kind: number for number, kind in enumerate(kinds)}
    titles = tuple(names[kind] if names is not None and 0 <= int(kind) < len(names) else str(kind) for kind in kinds)
    return titles, np.array([position[label] for label in written], np.int64)
