"""Models that map a sequence to another. Figures: configuration files of the named hub repositories."""

from cotenant.workloads.models.entry import Architecture, ModelEntry


def _pair(stem: str, model_type: str) -> Architecture:
    built = f"{stem}ForConditionalGeneration"
    return Architecture("transformers", f"{stem}Config", {"forward": built}, trains="forward", model_type=model_type)


def _sizes(*, width: int, layers: int, heads: int) -> dict[str, int]:
    """An encoder and a decoder of the same size, with feed-forward layers four times as wide."""
    both = {"layers": layers, "attention_heads": heads, "ffn_dim": 4 * width}
    return {"d_model": width} | {f"{part}_{name}": n for name, n in both.items() for part in ("encoder", "decoder")}


WHISPER = _pair("Whisper", "whisper")
PEGASUS_X = _pair("PegasusX", "pegasus_x")

WRITTEN = 128
"""Tokens a request writes, all at once as in training."""

SEQ2SEQ: tuple[ModelEntry, ...] = (
    ModelEntry(
        name="whisper-large-v3",
        family="seq2seq",
        about="Whisper large v3, 32 + 32 layers, width 1280; 30 s of sound, `seq` tokens written",
        architecture=WHISPER,
        config={"vocab_size": 51866, "num_mel_bins": 128, **_sizes(width=1280, layers=32, heads=20)},
        mini={
            "vocab_size": 2048,
            "num_mel_bins": 16,
            **_sizes(width=128, layers=2, heads=4),
            "max_source_positions": 256,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        params=1_543_490_560,
        counted="language head tied to the token embeddings, counted once",
        source="huggingface.co/openai/whisper-large-v3",
        seq=WRITTEN,
        max_seq=448,
        mini_seq=32,
    ),
    ModelEntry(
        name="pegasus-x-base",
        family="seq2seq",
        about="PEGASUS-X base, 12 + 12 layers, local attention in blocks with global tokens; `seq` tokens read",
        architecture=PEGASUS_X,
        config={"vocab_size": 96103, "num_global_tokens": 128, "block_size": 512}
        | _sizes(width=768, layers=12, heads=12),
        mini={"vocab_size": 2048, "num_global_tokens": 16, "block_size": 64} | _sizes(width=128, layers=2, heads=4),
        params=272_292_096,
        counted="language head tied to the token embeddings, counted once",
        source="huggingface.co/google/pegasus-x-base",
        seq=512,
        max_seq=16384,
        mini_seq=64,
    ),
)
