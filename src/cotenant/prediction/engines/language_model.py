"""A language model as an engine runs it: the products of a layer, the heads of its attention, its cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.errors import WorkloadError
from cotenant.prediction.kernels.attention import Heads

_GPT2_NAMES = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
_GPT2_VOCABULARY = 50257


@dataclass(frozen=True, slots=True)
class Product:
    """A product with weights: tokens times ``inner`` in, ``outer`` out."""

    name: str
    outer: int
    inner: int
    by_rows: bool = False
    """Split over GPUs by rows, with a sum behind it; else by columns."""
    whole: bool = False
    """On every GPU in full."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """The experts of a layer."""

    experts: int
    active: int
    """Experts per token."""
    inner: int
    """Width of an expert."""

    def touched(self, tokens: float) -> float:
        """Distinct experts that this many tokens need if each chooses at random."""
        return float(self.experts * (1.0 - (1.0 - self.active / self.experts) ** tokens))


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Dimensions of a decoder."""

    layers: int
    width: int
    heads: Heads
    vocabulary: int
    before: tuple[Product, ...]
    """Products of a layer before attention."""
    after: tuple[Product, ...]
    """Products of a layer between attention and its MLP."""
    mlp: tuple[Product, ...]
    """Of layers without experts, and of experts that every token passes."""
    mixture: Mixture | None = None
    dense_layers: int = 0
    """First layers of a mixture that have a plain MLP."""
    dense_mlp: tuple[Product, ...] = ()
    tied: bool = False
    max_context: int | None = None
    window: int | None = None
    """Tokens that layers with a sliding window attend to."""
    windowed: float = 0.0
    """Fraction of such layers."""

    @property
    def cached_bytes(self) -> float:
        """Keys and values of a token in half precision, all layers."""
        return 2.0 * self.layers * self.heads.cached * self.heads.width * self.heads.bytes_per_value

    @property
    def layer_weights(self) -> float:
        """Parameters of all layers."""
        common = sum(product.outer * product.inner for product in (*self.before, *self.after))
        plain = sum(product.outer * product.inner for product in self.mlp)
        experts = 3.0 * self.mixture.experts * self.mixture.inner * self.width if self.mixture else 0.0
        dense = sum(product.outer * product.inner for product in self.dense_mlp)
        mixed = self.layers - self.dense_layers
        return self.layers * common + mixed * (plain + experts) + self.dense_layers * dense

    @property
    def table_weights(self) -> float:
        """Parameters of the embeddings and the language head."""
        return self.vocabulary * self.width * (1.0 if self.tied else 2.0)


def language_model(name: str, config: Mapping[str, Any]) -> LanguageModel:
    """Read the dimensions from a configuration as transformers writes it.

    Raises:
        WorkloadError: A dimension is missing.
    """

    def value(key: str, default: Any = None) -> Any:
        value = config.get(key, config.get(_GPT2_NAMES.get(key, key), default))
        if value is None:
            raise WorkloadError(
                f"{name} can't be simulated in an engine: its configuration has no {key}",
                hint="use software eager, or a model from `cotenant workloads`",
            )
        return value

    width, heads, layers = int(value("hidden_size")), int(value("num_attention_heads")), int(value("num_hidden_layers"))
    gpt2 = "n_embd" in config
    inner = int(config.get("intermediate_size") or config.get("n_inner") or 4 * width)
    gated = not gpt2 and config.get("hidden_act") not in ("gelu_new", "gelu", "relu") and not _plain_mlp(config)
    before, after, attention = _attention(config, width, heads)
    mixture = _mixture(config)
    shared = int(config.get("n_shared_experts") or 0)
    plain = _mlp(width, inner, gated=gated)
    always = _mlp(width, shared * mixture.inner, gated=True) if mixture and shared else ()
    window = config.get("sliding_window")
    return LanguageModel(
        layers=layers,
        width=width,
        heads=attention,
        vocabulary=int(value("vocab_size", _GPT2_VOCABULARY if gpt2 else None)),
        before=before,
        after=after,
        mlp=always if mixture else plain,
        mixture=mixture,
        dense_layers=int(config.get("first_k_dense_replace") or 0) if mixture else 0,
        dense_mlp=plain if mixture else (),
        tied=bool(config.get("tie_word_embeddings", gpt2)),
        max_context=config.get("max_position_embeddings") or config.get("n_positions"),
        window=int(window) if window else None,
        windowed=_windowed(config) if window else 0.0,
    )


def _plain_mlp(config: Mapping[str, Any]) -> bool:
    """Phi-2's MLP has no gate; no other configuration has a partial rotation and no key heads."""
    return "num_key_value_heads" not in config and config.get("rms_norm_eps") is None and "n_embd" not in config


def _windowed(config: Mapping[str, Any]) -> float:
    """Gemma 3 alternates five with one; others that state a window use it in every second layer."""
    return 5 / 6 if config.get("head_dim") == 256 else 0.5


def _attention(
    config: Mapping[str, Any], width: int, heads: int
) -> tuple[tuple[Product, ...], tuple[Product, ...], Heads]:
    if "kv_lora_rank" in config:
        return _latent(config, width, heads)
    head = int(config.get("head_dim") or width // heads)
    cached = int(config.get("num_key_value_heads") or heads)
    before = (Product("qkv", (heads + 2 * cached) * head, width),)
    return before, (Product("output", width, heads * head, by_rows=True),), Heads(heads, cached, head)


def _latent(
    config: Mapping[str, Any], width: int, heads: int
) -> tuple[tuple[Product, ...], tuple[Product, ...], Heads]:
    """Keys and values are a compressed vector per token, which all heads share."""
    rank, rotated = int(config["kv_lora_rank"]), int(config["qk_rope_head_dim"])
    query = heads * (int(config["qk_nope_head_dim"]) + rotated)
    narrow = config.get("q_lora_rank")
    queries = (
        (Product("query down", int(narrow), width, whole=True), Product("query", query, int(narrow)))
        if narrow
        else (Product("query", query, width),)
    )
    value = int(config["v_head_dim"])
    before = (*queries, Product("key value down", rank + rotated, width, whole=True))
    after = (
        Product("values", heads * value, rank),
        Product("output", width, heads * value, by_rows=True),
    )
    # The vector serves as key and value: half the bytes of two.
    return before, after, Heads(heads, 1, rank + rotated, bytes_per_value=1.0)


def _mixture(config: Mapping[str, Any]) -> Mixture | None:
    experts = config.get("n_routed_experts") or config.get("num_local_experts") or config.get("num_experts")
    if not experts:
        return None
    inner = config.get("moe_intermediate_size") or config["intermediate_size"]
    return Mixture(int(experts), int(config["num_experts_per_tok"]), int(inner))


def _mlp(width: int, inner: int, *, gated: bool) -> tuple[Product, ...]:
    return (
        Product("gate and up" if gated else "up", (2 if gated else 1) * inner, width),
        Product("down", width, inner, by_rows=True),
    )
