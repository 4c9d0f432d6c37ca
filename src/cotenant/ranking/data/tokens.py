"""Texts as tokens: by the vocabulary in a model's directory, or by a hash without one."""

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.errors import DataError

if TYPE_CHECKING:
    import torch

_WORD = re.compile(r"\w+|[^\w\s]")
_SPECIAL = 8
"""Numbers below this are special tokens in most vocabularies."""


def tokens_of(texts: Sequence[str], length: int, vocabulary: Any, size: int) -> dict[str, "torch.Tensor"]:
    """Numbers and mask, each text cut or padded to ``length``."""
    import torch

    numbers = _hashed(texts, length, size) if vocabulary is None else _looked_up(texts, length, str(vocabulary))
    ids = np.zeros((len(texts), length), np.int64)
    mask = np.zeros((len(texts), length), np.int64)
    for row, one in enumerate(numbers):
        ids[row, : len(one)] = one
        mask[row, : len(one)] = 1
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
