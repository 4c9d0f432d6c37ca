"""Decoder language models. Figures: the configuration files and model cards of the named hub repositories."""

from collections.abc import Mapping
from typing import Any

from cotenant.workloads.models.entry import DECODER_MODES, Architecture, ModelEntry, shape


def _causal(stem: str, model_type: str, *, config: str | None = None) -> Architecture:
    """A transformers decoder whose classes are named after this stem."""
    head = "LMHeadModel" if stem == "GPT2" else "ForCausalLM"
    classes = dict.fromkeys(DECODER_MODES, f"{stem}{head}")
    return Architecture("transformers", config or f"{stem}Config", classes, trains="forward", model_type=model_type)


GPT2 = _causal("GPT2", "gpt2")
LLAMA = _causal("Llama", "llama")
MISTRAL = _causal("Mistral", "mistral")
QWEN2 = _causal("Qwen2", "qwen2")
QWEN3 = _causal("Qwen3", "qwen3")
DEEPSEEK_V2 = _causal("DeepseekV2", "deepseek_v2")
PHI = _causal("Phi", "phi")
PHI3 = _causal("Phi3", "phi3")
GEMMA3 = _causal("Gemma3", "gemma3_text", config="Gemma3TextConfig")
GPT_OSS = _causal("GptOss", "gpt_oss")
DEEPSEEK_V3 = _causal("DeepseekV3", "deepseek_v3")

TIED = "language head tied to the token embeddings, counted once"
UNTIED = "with its own language head"
_MINI_GPT2 = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 512, "vocab_size": 2048}
_MINI_LLAMA: Mapping[str, Any] = {**shape(128, 4, 4, 448, 2), "vocab_size": 2048, "max_position_embeddings": 512}
_MINI_HEADS = {**_MINI_LLAMA, "head_dim": 32}
_MINI_TOKENS = {**_MINI_LLAMA, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_MINI_EXPERTS = {**_MINI_TOKENS, "intermediate_size": 128, "num_hidden_layers": 2}


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


def _modern(  # noqa: PLR0917 - a row of the table
    name: str,
    architecture: Architecture,
    config: Mapping[str, Any],
    mini: Mapping[str, Any],
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


Sizes = tuple[int, int, int, int, int]
"""Arguments of `shape`."""


def _rope(theta: float) -> dict[str, Any]:
    return {"rope_theta": theta, "rope_type": "default"}


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
    "rms_norm_eps": 1e-5,
    "rope_parameters": _LLAMA_ROPE,
    "tie_word_embeddings": True,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
_LLAMA_2 = {
    "vocab_size": 32000,
    "rms_norm_eps": 1e-5,
    "rope_parameters": _rope(10000.0),
    "tie_word_embeddings": False,
}
_LLAMA_31 = {**_LLAMA, "rope_parameters": {**_LLAMA_ROPE, "factor": 8.0}, "tie_word_embeddings": False}


def _llama(name: str, generation: str, sizes: Sizes, params: int, hub_id: str) -> ModelEntry:
    width, layers, heads, *_ = sizes
    config = {**(_LLAMA_2 if generation == "2" else _LLAMA_31), **shape(*sizes), "head_dim": width // heads}
    about = f"Llama {generation}, {layers} layers, width {width}"
    most = 4096 if generation == "2" else 131072
    return _modern(name, LLAMA, config, _MINI_HEADS, params, UNTIED, hub_id, about, most)


def _llama_32(size: str, sizes: Sizes, mini_layers: int, params: int) -> ModelEntry:
    width, layers, heads, *_ = sizes
    config = {**_LLAMA, **shape(*sizes), "head_dim": width // heads}
    mini = {**_MINI_HEADS, "num_hidden_layers": mini_layers}
    about = f"Llama 3.2 {size}, {layers} layers, grouped-query attention"
    name, hub_id = f"llama-3.2-{size.lower()}", f"meta-llama/Llama-3.2-{size}"
    return _modern(name, LLAMA, config, mini, params, TIED, hub_id, about, 131072)


def _qwen3(size: str, sizes: Sizes, params: int, *, tied: bool) -> ModelEntry:
    width, layers, *_ = sizes
    config = {
        **shape(*sizes),
        "vocab_size": 151936,
        "head_dim": 128,
        "rms_norm_eps": 1e-6,
        "rope_parameters": _rope(1000000.0),
        "tie_word_embeddings": tied,
    }
    about = f"Qwen3 {size}, {layers} layers, width {width}, grouped-query attention"
    counted = TIED if tied else UNTIED
    name, hub_id = f"qwen3-{size.lower()}", f"Qwen/Qwen3-{size}"
    return _modern(name, QWEN3, config, _MINI_HEADS, params, counted, hub_id, about, 40960)


def _phi3(name: str, sizes: Sizes, params: int, vocabulary: int, hub_id: str, max_seq: int) -> ModelEntry:  # noqa: PLR0917
    width, layers, *_ = sizes
    config = {
        **shape(*sizes),
        "vocab_size": vocabulary,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    about = f"{name.replace('phi', 'Phi')}, {layers} layers, width {width}"
    return _modern(name, PHI3, config, _MINI_TOKENS, params, UNTIED, hub_id, about, max_seq)


def _gemma3(size: str, sizes: Sizes, params: int, *, window: int, max_seq: int) -> ModelEntry:
    width, layers, *_ = sizes
    attention = {"head_dim": 256, "sliding_window": window, "tie_word_embeddings": True}
    config = {**shape(*sizes), "vocab_size": 262144, **attention}
    mini = {**_MINI_TOKENS, "head_dim": 32, "sliding_window": 64}
    about = f"Gemma 3 {size.upper()}, {layers} layers, width {width}, five of six attend to {window} tokens"
    name, counted = f"gemma-3-{size}", f"language model alone; {TIED}"
    return _modern(name, GEMMA3, config, mini, params, counted, f"google/{name}-pt", about, max_seq)


_MISTRAL_7B = {
    **shape(4096, 32, 32, 14336, 8),
    "vocab_size": 32768,
    "head_dim": 128,
    "rms_norm_eps": 1e-5,
    "rope_parameters": _rope(1000000.0),
    "sliding_window": None,
}
_DISTILLED_QWEN = {
    **shape(1536, 28, 12, 8960, 2),
    "vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "rope_parameters": _rope(10000.0),
    "tie_word_embeddings": False,
}
_GPT_OSS = {
    **shape(2880, 24, 64, 2880, 8),
    "vocab_size": 201088,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "tie_word_embeddings": False,
}
_LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
_MINI_LATENT = {"kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32}
_DEEPSEEK_V2 = {
    **shape(2048, 27, 16, 10944, 16),
    **_LATENT,
    "vocab_size": 102400,
    "moe_intermediate_size": 1408,
    "n_shared_experts": 2,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "q_lora_rank": None,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "greedy",
    "norm_topk_prob": False,
    "routed_scaling_factor": 1.0,
    "rms_norm_eps": 1e-6,
}
_MINI_DEEPSEEK_V2 = {
    **shape(128, 3, 4, 512, 4),
    **_MINI_LATENT,
    "vocab_size": 2048,
    "moe_intermediate_size": 96,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 512,
}
_DEEPSEEK_V3 = {
    **shape(7168, 61, 128, 18432, 128),
    **_LATENT,
    "vocab_size": 129280,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "n_group": 8,
    "topk_group": 4,
    "q_lora_rank": 1536,
    "tie_word_embeddings": False,
}
_MINI_DEEPSEEK_V3 = {
    **_MINI_EXPERTS,
    **_MINI_LATENT,
    "moe_intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "n_routed_experts": 128,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "n_group": 8,
    "topk_group": 4,
    "q_lora_rank": 64,
}

DECODERS: tuple[ModelEntry, ...] = (
    _gpt2("gpt2", 768, 12, 12, params=124_439_808, hub_id="openai-community/gpt2", mini_layers=4),
    _gpt2("gpt2-medium", 1024, 24, 16, params=354_823_168, hub_id="openai-community/gpt2-medium", mini_layers=5),
    _gpt2("gpt2-large", 1280, 36, 20, params=774_030_080, hub_id="openai-community/gpt2-large", mini_layers=6),
    _gpt2("gpt2-xl", 1600, 48, 25, params=1_557_611_200, hub_id="openai-community/gpt2-xl", mini_layers=7),
    _gpt2("distilgpt2", 768, 6, 12, params=81_912_576, hub_id="distilbert/distilgpt2", mini_layers=2),
    _llama_32("1B", (2048, 16, 32, 8192, 8), 4, 1_235_814_400),
    _llama_32("3B", (3072, 28, 24, 8192, 8), 5, 3_212_749_824),
    _modern(
        "mistral-7b",
        MISTRAL,
        _MISTRAL_7B,
        {**_MINI_HEADS, "num_hidden_layers": 5},
        7_248_023_552,
        UNTIED,
        "mistralai/Mistral-7B-v0.3",
        "Mistral 7B v0.3, 32 layers, grouped-query attention, no sliding window",
        32768,
    ),
    _modern(
        "deepseek-r1-distill-qwen-1.5b",
        QWEN2,
        _DISTILLED_QWEN,
        {**_MINI_LLAMA, "num_hidden_layers": 5},
        1_777_088_000,
        UNTIED,
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        "DeepSeek R1 distilled into Qwen2 1.5B, 28 layers",
        131072,
    ),
    _modern(
        "deepseek-v2-lite",
        DEEPSEEK_V2,
        _DEEPSEEK_V2,
        _MINI_DEEPSEEK_V2,
        15_706_484_224,
        UNTIED,
        "deepseek-ai/DeepSeek-V2-Lite",
        "DeepSeek V2 Lite, 27 layers, latent attention, 64 experts of which 6 are active",
        163840,
    ),
    _llama("llama-2-7b", "2", (4096, 32, 32, 11008, 32), 6_738_415_616, "meta-llama/Llama-2-7b-hf"),
    _llama("llama-2-13b", "2", (5120, 40, 40, 13824, 40), 13_015_864_320, "meta-llama/Llama-2-13b-hf"),
    _llama("llama-2-70b", "2", (8192, 80, 64, 28672, 8), 68_976_648_192, "meta-llama/Llama-2-70b-hf"),
    _llama("llama-3.1-8b", "3.1", (4096, 32, 32, 14336, 8), 8_030_261_248, "meta-llama/Llama-3.1-8B"),
    _llama("llama-3.1-70b", "3.1", (8192, 80, 64, 28672, 8), 70_553_706_496, "meta-llama/Llama-3.1-70B"),
    _qwen3("0.6B", (1024, 28, 16, 3072, 8), 596_049_920, tied=True),
    _qwen3("1.7B", (2048, 28, 16, 6144, 8), 1_720_574_976, tied=True),
    _qwen3("4B", (2560, 36, 32, 9728, 8), 4_022_468_096, tied=True),
    _qwen3("8B", (4096, 36, 32, 12288, 8), 8_190_735_360, tied=False),
    _qwen3("14B", (5120, 40, 40, 17408, 8), 14_768_307_200, tied=False),
    _qwen3("32B", (5120, 64, 64, 25600, 8), 32_762_123_264, tied=False),
    _modern(
        "phi-2",
        PHI,
        {**shape(2560, 32, 32, 10240), "vocab_size": 51200, "tie_word_embeddings": False},
        {**_MINI_TOKENS, "num_key_value_heads": 4},
        2_779_683_840,
        UNTIED,
        "microsoft/phi-2",
        "Phi-2, 32 layers, width 2560, attention and MLP side by side",
        2048,
    ),
    _phi3("phi-3-3.8b", (3072, 32, 32, 8192, 32), 3_821_079_552, 32064, "microsoft/Phi-3-mini-4k-instruct", 4096),
    _phi3("phi-4", (5120, 40, 40, 17920, 10), 14_659_507_200, 100352, "microsoft/phi-4", 16384),
    _gemma3("1b", (1152, 26, 4, 6912, 1), 999_885_952, window=512, max_seq=32768),
    _gemma3("4b", (2560, 34, 8, 10240, 4), 3_880_099_328, window=1024, max_seq=131072),
    _gemma3("12b", (3840, 48, 16, 15360, 8), 11_765_788_416, window=1024, max_seq=131072),
    _modern(
        "gpt-oss-20b",
        GPT_OSS,
        _GPT_OSS,
        {**_MINI_EXPERTS, "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 64},
        20_914_757_184,
        f"{UNTIED}, all 32 experts",
        "openai/gpt-oss-20b",
        "gpt-oss 20B, 24 layers, 32 experts of which 4 are active",
        131072,
    ),
    _modern(
        "deepseek-v3",
        DEEPSEEK_V3,
        _DEEPSEEK_V3,
        _MINI_DEEPSEEK_V3,
        671_026_404_352,
        f"{UNTIED}, all 256 experts, without the multi-token prediction layer and the router's biases",
        "deepseek-ai/DeepSeek-V3",
        "DeepSeek V3, 61 layers, latent attention, 256 experts of which 8 are active",
        163840,
    ),
)
