"""Exports a catalogue model as a folder servers can load: configuration, random weights, tokenizer, chat template.

The tokenizer is as simple as possible: a vocabulary with a word for every token the model
can produce, so that each generated token has a text and arrives as a unit.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry
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
    """Write it, with ``gguf`` also as a file for llama.cpp; return what was written.

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
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
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


ARCHITECTURE = "llama"
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
"""GGUF's token types."""
_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def require_gguf(dtype: str) -> None:
    """Check before anything is written.

    Raises:
        WorkloadError: The library is missing, or the number format is not supported.
    """
    if importlib.util.find_spec("gguf") is None:
        raise WorkloadError("writing GGUF files needs the package gguf", hint='pip install "cotenant[gguf]"')
    if dtype != "float32":
        raise WorkloadError(f"GGUF is written in float32, not {dtype}", hint="leave --dtype out")


def write_gguf(folder: Path) -> Path:
    """Write `model.gguf` beside the other files of an exported folder.

    Raises:
        WorkloadError: The model is not of the Llama family.
    """
    from gguf import GGUFWriter

    config = json.loads((folder / "config.json").read_text())
    if config.get("model_type") != ARCHITECTURE:
        raise WorkloadError(
            f"only models of the Llama family are written as GGUF, not {config.get('model_type')}",
            hint="for example llama-3.2-1b-mini",
        )
    path = folder / "model.gguf"
    writer = GGUFWriter(str(path), ARCHITECTURE)
    _write_shape(writer, config)
    _write_vocabulary(writer, folder)
    for name, values in _tensors(folder, config):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_shape(writer: Any, config: dict[str, Any]) -> None:
    writer.add_name(str(config.get("_name_or_path") or "exported"))
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(float(config.get("rope_parameters", {}).get("rope_theta", 10_000.0)))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(0)  # 32-bit floats


def _write_vocabulary(writer: Any, folder: Path) -> None:
    """Tokens as in WordPiece: each a complete word, with the word-start mark."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    unknown = vocabulary[tokenizer["model"]["unk_token"]]
    words = sorted(vocabulary, key=lambda word: vocabulary[word])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([word if at in special else f"\u2581{word}" for at, word in enumerate(words)])
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types(
        [_UNKNOWN if at == unknown else _CONTROL if at in special else _NORMAL for at in range(len(words))]
    )
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    for name in ("bos", "eos", "unk", "pad"):
        getattr(writer, f"add_{name}_token_id")(vocabulary[settings[f"{name}_token"]])
    writer.add_sep_token_id(vocabulary[settings["eos_token"]])
    writer.add_add_bos_token(value=False)
    writer.add_add_eos_token(value=False)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def _tensors(folder: Path, config: dict[str, Any]) -> list[tuple[str, np.ndarray]]:
    from safetensors.numpy import load_file

    heads = {"self_attn.q_proj": config["num_attention_heads"], "self_attn.k_proj": config["num_key_value_heads"]}
    tensors = []
    for file in sorted(folder.glob("*.safetensors")):
        for name, stored in load_file(file).items():
            values = stored.astype(np.float32)
            if name in _NAMES:
                tensors.append((_NAMES[name], values))
                continue
            layer, part = name.removeprefix("model.layers.").split(".", 1)
            part = part.removesuffix(".weight")
            if part in heads:
                values = _interleaved(values, heads[part])
            tensors.append((f"blk.{layer}.{_LAYER_NAMES[part]}.weight", values))
    return tensors


def _interleaved(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rotary positions pair adjacent rows in GGUF, but the two halves of a head in transformers."""
    rows, columns = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
