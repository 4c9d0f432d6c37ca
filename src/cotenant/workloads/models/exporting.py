"""Exports a catalogue model as a folder servers can load: configuration, random weights, tokenizer, chat template.

The tokenizer is as simple as possible: a vocabulary with one word for every token the model
can produce, so that each generated token has a text and arrives as one.
"""

import json
from pathlib import Path
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.gguf_export import require_gguf, write_gguf
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers.prompts import WORDS

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)
_TEXT_FAMILIES = ("decoder", "encoder")


def export_model(
    entry: ModelEntry, folder: Path, *, seed: int = 0, dtype: str = "float32", gguf: bool = False
) -> dict[str, Any]:
    """Write it, with ``gguf`` also as one file for llama.cpp; return what was written.

    Raises:
        WorkloadError: It is not a language model, or the folder is not empty.
    """
    if entry.family not in _TEXT_FAMILIES:
        raise WorkloadError(
            f"{entry.name} is not a language model, so it has no tokenizer to export",
            hint="`cotenant workloads decoder` lists those that generate",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorkloadError(f"{folder} is not an empty folder", hint="name a new one")
    if gguf:
        require_gguf(dtype)
    import torch

    from cotenant.workloads.models.building import stand

    spec = WorkloadSpec(name=entry.name, seed=seed)
    model, _ = stand(entry, spec, device="cpu", dtype=getattr(torch, dtype))
    ids = {f"{name}_token_id": place for place, name in enumerate(("pad", "unk", "bos", "eos")) if name != "unk"}
    for holder in (model.config, getattr(model, "generation_config", None)):
        for name, value in ids.items():
            if holder is not None:
                setattr(holder, name, value)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)  # type: ignore[operator]  # transformers' models have it, torch's stubs don't know
    vocabulary = int(model.config.vocab_size)  # type: ignore[union-attr,arg-type]
    write_tokenizer(folder, vocabulary, int(entry.max_seq or 512))
    if gguf:
        write_gguf(folder)
    return {
        "folder": str(folder),
        "model": entry.name,
        "weights": f"random({seed})",
        "dtype": dtype,
        "parameters": sum(one.numel() for one in model.parameters()),
        "vocabulary": vocabulary,
        "files": sorted(path.name for path in folder.iterdir()),
    }


def write_tokenizer(folder: Path, size: int, longest: int) -> None:
    """One word for each of ``size`` tokens, special ones first; unknown words become `<unk>`."""
    words = list(dict.fromkeys((*SPECIAL, "user", "assistant", "system", *WORDS)))[:size]
    words += [f"w{number}" for number in range(len(words), size)]
    special = [
        {
            "id": place,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for place, word in enumerate(SPECIAL)
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(words)}, "unk_token": "<unk>"},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
