"""Decoder language models. Figures: the configuration files and model cards of the named hub repositories."""

from collections.abc import Mapping
from typing import Any

from cotenant.workloads.models.entry import DECODER_MODES, Architecture, ModelEntry


def causal(stem: str, model_type: str, *, config: str | None = None) -> Architecture:
    """A transformers decoder whose classes are named after this stem."""
    head = "LMHeadModel" if stem == "GPT2" else "ForCausalLM"
    classes = dict.fromkeys(DECODER_MODES, f"{stem}{head}")
    return Architecture("transformers", config or f"{stem}Config", classes, trains="forward", model_type=model_type)


GPT2 = causal("GPT2", "gpt2")
LLAMA = causal("Llama", "llama")
MISTRAL = causal("Mistral", "mistral")
QWEN2 = causal("Qwen2", "qwen2")
QWEN3 = causal("Qwen3", "qwen3")
DEEPSEEK_V2 = causal("DeepseekV2", "deepseek_v2")

TIED = "language head tied to the token embeddings, counted once"
UNTIED = "with its own language head"
_MINI_GPT2 = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 512, "vocab_size": 2048}
MINI_LLAMA: Mapping[str, Any] = {
    "vocab_size": 2048,
    "hidden_size": 128,
    "intermediate_size": 448,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}


def _gpt2(name: str, width: int, layers: int, heads: int, *, params: int, hub_id: str, mini_layers: int) -> ModelEntry:
    return ModelEntry(
        name=name,
        family="decoder",
        about=f"{'DistilGPT2' if name == 'distilgpt2' else 'GPT-2'}, {layers} layers, width {width}",
        architecture=GPT2,
        config={"n_embd": width, "n_layer": layers, "n_head": heads},
        mini={**_MINI_GPT2, "n_layer": mini_layers},
        params=params,
        counted=TIED,
        source=f"huggingface.co/{hub_id}",
        seq=128,
        max_seq=1024,
        mini_seq=64,
    )


def modern(
    name: str,
    architecture: Architecture,
    config: Mapping[str, Any],
    mini: Mapping[str, Any],
    *,
    params: int,
    counted: str,
    hub_id: str,
    about: str,
    max_seq: int,
) -> ModelEntry:
    """A decoder whose configuration states its number of positions."""
    return ModelEntry(
        name=name,
        family="decoder",
        about=about,
        architecture=architecture,
        config={**config, "max_position_embeddings": max_seq},
        mini=mini,
        params=params,
        counted=counted,
        source=f"huggingface.co/{hub_id}",
        seq=128,
        max_seq=max_seq,
        mini_seq=64,
    )


_LLAMA_ROPE = {
    "rope_theta": 500000.0,
    "rope_type": "llama3",
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
}
_LLAMA = {
    "vocab_size": 128256,
    "intermediate_size": 8192,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_parameters": _LLAMA_ROPE,
    "tie_word_embeddings": True,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}

_LLAMA_2 = {
    "vocab_size": 32000,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "tie_word_embeddings": False,
}
_LLAMA_31 = {**_LLAMA, "rope_parameters": {**_LLAMA_ROPE, "factor": 8.0}, "tie_word_embeddings": False}


def _llama(name: str, generation: str, sizes: tuple[int, int, int, int, int], params: int, hub_id: str) -> ModelEntry:
    width, inner, layers, heads, shared = sizes
    config = {
        **(_LLAMA_2 if generation == "2" else _LLAMA_31),
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": width // heads,
    }
    return modern(
        name,
        LLAMA,
        config,
        {**MINI_LLAMA, "head_dim": 32},
        params=params,
        counted=UNTIED,
        hub_id=hub_id,
        about=f"Llama {generation}, {layers} layers, width {width}",
        max_seq=4096 if generation == "2" else 131072,
    )


def _qwen3(size: str, sizes: tuple[int, int, int, int], params: int, *, tied: bool) -> ModelEntry:
    width, inner, layers, heads = sizes
    config = {
        "vocab_size": 151936,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        "tie_word_embeddings": tied,
    }
    return modern(
        f"qwen3-{size}",
        QWEN3,
        config,
        {**MINI_LLAMA, "head_dim": 32},
        params=params,
        counted=TIED if tied else UNTIED,
        hub_id=f"Qwen/Qwen3-{size.upper()}",
        about=f"Qwen3 {size.upper()}, {layers} layers, width {width}, grouped-query attention",
        max_seq=40960,
    )


DECODERS: tuple[ModelEntry, ...] = (
    _gpt2("gpt2", 768, 12, 12, params=124_439_808, hub_id="openai-community/gpt2", mini_layers=4),
    _gpt2("gpt2-medium", 1024, 24, 16, params=354_823_168, hub_id="openai-community/gpt2-medium", mini_layers=5),
    _gpt2("gpt2-large", 1280, 36, 20, params=774_030_080, hub_id="openai-community/gpt2-large", mini_layers=6),
    _gpt2("gpt2-xl", 1600, 48, 25, params=1_557_611_200, hub_id="openai-community/gpt2-xl", mini_layers=7),
    _gpt2("distilgpt2", 768, 6, 12, params=81_912_576, hub_id="distilbert/distilgpt2", mini_layers=2),
    modern(
        "llama-3.2-1b",
        LLAMA,
        {**_LLAMA, "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64},
        {**MINI_LLAMA, "head_dim": 32},
        params=1_235_814_400,
        counted=TIED,
        hub_id="meta-llama/Llama-3.2-1B",
        about="Llama 3.2 1B, 16 layers, grouped-query attention",
        max_seq=131072,
    ),
    modern(
        "llama-3.2-3b",
        LLAMA,
        {**_LLAMA, "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24, "head_dim": 128},
        {**MINI_LLAMA, "head_dim": 32, "num_hidden_layers": 5},
        params=3_212_749_824,
        counted=TIED,
        hub_id="meta-llama/Llama-3.2-3B",
        about="Llama 3.2 3B, 28 layers, grouped-query attention",
        max_seq=131072,
    ),
    modern(
        "mistral-7b",
        MISTRAL,
        {
            "vocab_size": 32768,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
            "sliding_window": None,
        },
        {**MINI_LLAMA, "head_dim": 32, "num_hidden_layers": 5},
        params=7_248_023_552,
        counted=UNTIED,
        hub_id="mistralai/Mistral-7B-v0.3",
        about="Mistral 7B v0.3, 32 layers, grouped-query attention, no sliding window",
        max_seq=32768,
    ),
    modern(
        "deepseek-r1-distill-qwen-1.5b",
        QWEN2,
        {
            "vocab_size": 151936,
            "hidden_size": 1536,
            "intermediate_size": 8960,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
            "tie_word_embeddings": False,
        },
        {**MINI_LLAMA, "num_hidden_layers": 5},
        params=1_777_088_000,
        counted=UNTIED,
        hub_id="deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        about="DeepSeek R1 distilled into Qwen2 1.5B, 28 layers",
        max_seq=131072,
    ),
    modern(
        "deepseek-v2-lite",
        DEEPSEEK_V2,
        {
            "vocab_size": 102400,
            "hidden_size": 2048,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "n_shared_experts": 2,
            "n_routed_experts": 64,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 512,
            "q_lora_rank": None,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "n_group": 1,
            "topk_group": 1,
            "topk_method": "greedy",
            "norm_topk_prob": False,
            "routed_scaling_factor": 1.0,
            "rms_norm_eps": 1e-6,
        },
        {
            "vocab_size": 2048,
            "hidden_size": 128,
            "intermediate_size": 512,
            "moe_intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "kv_lora_rank": 64,
            "qk_rope_head_dim": 16,
            "qk_nope_head_dim": 32,
            "v_head_dim": 32,
            "max_position_embeddings": 512,
        },
        params=15_706_484_224,
        counted=UNTIED,
        hub_id="deepseek-ai/DeepSeek-V2-Lite",
        about="DeepSeek V2 Lite, 27 layers, latent attention, 64 experts of which 6 are active",
        max_seq=163840,
    ),
    _llama("llama-2-7b", "2", (4096, 11008, 32, 32, 32), 6_738_415_616, "meta-llama/Llama-2-7b-hf"),
    _llama("llama-2-13b", "2", (5120, 13824, 40, 40, 40), 13_015_864_320, "meta-llama/Llama-2-13b-hf"),
    _llama("llama-2-70b", "2", (8192, 28672, 80, 64, 8), 68_976_648_192, "meta-llama/Llama-2-70b-hf"),
    _llama("llama-3.1-8b", "3.1", (4096, 14336, 32, 32, 8), 8_030_261_248, "meta-llama/Llama-3.1-8B"),
    _llama("llama-3.1-70b", "3.1", (8192, 28672, 80, 64, 8), 70_553_706_496, "meta-llama/Llama-3.1-70B"),
    _qwen3("0.6b", (1024, 3072, 28, 16), 596_049_920, tied=True),
    _qwen3("1.7b", (2048, 6144, 28, 16), 1_720_574_976, tied=True),
    _qwen3("4b", (2560, 9728, 36, 32), 4_022_468_096, tied=True),
    _qwen3("8b", (4096, 12288, 36, 32), 8_190_735_360, tied=False),
    _qwen3("14b", (5120, 17408, 40, 40), 14_768_307_200, tied=False),
    _qwen3("32b", (5120, 25600, 64, 64), 32_762_123_264, tied=False),
)
