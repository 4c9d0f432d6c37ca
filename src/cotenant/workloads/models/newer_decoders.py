"""Gemma, Phi, and mixtures of experts. Figures: the configuration files and model cards of the named repositories."""

from collections.abc import Mapping
from typing import Any

from cotenant.workloads.models.decoders import MINI_LLAMA, TIED, UNTIED, causal, modern
from cotenant.workloads.models.entry import ModelEntry

PHI = causal("Phi", "phi")
PHI3 = causal("Phi3", "phi3")
GEMMA3 = causal("Gemma3", "gemma3_text", config="Gemma3TextConfig")
GPT_OSS = causal("GptOss", "gpt_oss")
DEEPSEEK_V3 = causal("DeepseekV3", "deepseek_v3")

_MINI = {**MINI_LLAMA, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_MINI_EXPERTS = {**_MINI, "intermediate_size": 128, "num_hidden_layers": 2}


def _phi3(
    name: str, sizes: tuple[int, int, int, int, int], params: int, *, vocabulary: int, hub_id: str, max_seq: int
) -> ModelEntry:
    width, inner, layers, heads, shared = sizes
    config = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    about = f"{name.replace('phi', 'Phi')}, {layers} layers, width {width}"
    return modern(name, PHI3, config, _MINI, params=params, counted=UNTIED, hub_id=hub_id, about=about, max_seq=max_seq)


def _gemma3(size: str, sizes: tuple[int, int, int, int, int], params: int, *, window: int, max_seq: int) -> ModelEntry:
    width, inner, layers, heads, shared = sizes
    config = {
        "vocab_size": 262144,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": 256,
        "sliding_window": window,
        "tie_word_embeddings": True,
    }
    return modern(
        f"gemma-3-{size}",
        GEMMA3,
        config,
        {**_MINI, "head_dim": 32, "sliding_window": 64},
        params=params,
        counted=f"language model alone; {TIED}",
        hub_id=f"google/gemma-3-{size}-pt",
        about=f"Gemma 3 {size.upper()}, {layers} layers, width {width}, five of six attend to {window} tokens",
        max_seq=max_seq,
    )


_GPT_OSS: Mapping[str, Any] = {
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "tie_word_embeddings": False,
}
_DEEPSEEK_V3: Mapping[str, Any] = {
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "n_group": 8,
    "topk_group": 4,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "tie_word_embeddings": False,
}
_MINI_DEEPSEEK: Mapping[str, Any] = {
    **_MINI_EXPERTS,
    "moe_intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "n_routed_experts": 128,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "n_group": 8,
    "topk_group": 4,
    "kv_lora_rank": 64,
    "q_lora_rank": 64,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
}

NEWER_DECODERS: tuple[ModelEntry, ...] = (
    modern(
        "phi-2",
        PHI,
        {
            "vocab_size": 51200,
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "tie_word_embeddings": False,
        },
        {**_MINI, "num_key_value_heads": 4},
        params=2_779_683_840,
        counted=UNTIED,
        hub_id="microsoft/phi-2",
        about="Phi-2, 32 layers, width 2560, attention and MLP side by side",
        max_seq=2048,
    ),
    _phi3(
        "phi-3-3.8b",
        (3072, 8192, 32, 32, 32),
        3_821_079_552,
        vocabulary=32064,
        hub_id="microsoft/Phi-3-mini-4k-instruct",
        max_seq=4096,
    ),
    _phi3(
        "phi-4",
        (5120, 17920, 40, 40, 10),
        14_659_507_200,
        vocabulary=100352,
        hub_id="microsoft/phi-4",
        max_seq=16384,
    ),
    _gemma3("1b", (1152, 6912, 26, 4, 1), 999_885_952, window=512, max_seq=32768),
    _gemma3("4b", (2560, 10240, 34, 8, 4), 3_880_099_328, window=1024, max_seq=131072),
    _gemma3("12b", (3840, 15360, 48, 16, 8), 11_765_788_416, window=1024, max_seq=131072),
    modern(
        "gpt-oss-20b",
        GPT_OSS,
        _GPT_OSS,
        {**_MINI_EXPERTS, "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 64},
        params=20_914_757_184,
        counted=f"{UNTIED}, all 32 experts",
        hub_id="openai/gpt-oss-20b",
        about="gpt-oss 20B, 24 layers, 32 experts of which 4 are active",
        max_seq=131072,
    ),
    modern(
        "deepseek-v3",
        DEEPSEEK_V3,
        _DEEPSEEK_V3,
        _MINI_DEEPSEEK,
        params=671_026_404_352,
        counted=f"{UNTIED}, all 256 experts, without the multi-token prediction layer and the router's biases",
        hub_id="deepseek-ai/DeepSeek-V3",
        about="DeepSeek V3, 61 layers, latent attention, 256 experts of which 8 are active",
        max_seq=163840,
    ),
)
