"""Encoder language models. Figures: the configuration files and model cards of the named hub repositories."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cotenant.workloads.models.entry import Architecture, ModelEntry, shape


def _heads(stem: str, model_type: str) -> Architecture:
    classes = {"embed": f"{stem}Model", "classify": f"{stem}ForSequenceClassification"}
    return Architecture("transformers", f"{stem}Config", classes, trains="classify", model_type=model_type)


BERT = _heads("Bert", "bert")
DISTILBERT = _heads("DistilBert", "distilbert")
ROBERTA = _heads("Roberta", "roberta")
XLM_ROBERTA = _heads("XLMRoberta", "xlm-roberta")
DEBERTA = _heads("DebertaV2", "deberta-v2")
RERANKER = replace(BERT, classes={"classify": BERT.classes["classify"]})
XLM_RERANKER = replace(XLM_ROBERTA, classes={"classify": XLM_ROBERTA.classes["classify"]})

_BASE, _LARGE, _MINI_LM = shape(768, 12, 12, 3072), shape(1024, 24, 16, 4096), shape(384, 12, 12, 1536)
_MINI_BASE, _MINI_LARGE = shape(128, 4, 4, 512), shape(160, 6, 5, 640)
_SCORE = {"num_labels": 1}
_ROBERTA = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_XLM = {**_ROBERTA, "vocab_size": 250002}
_NO_POOLER = "encoder without heads (it has no pooler)"
_SCORED = "with the head that scores a pair of texts"
_DEBERTA = {
    "vocab_size": 128100,
    "max_position_embeddings": 512,
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "position_biased_input": False,
}


def _encoder(  # noqa: PLR0917 - a row of the table
    name: str,
    architecture: Architecture,
    config: Mapping[str, Any],
    mini: Mapping[str, Any],
    params: int,
    hub_id: str,
    about: str,
    counted: str = "encoder with pooler, without heads",
) -> ModelEntry:
    return ModelEntry(
        name=name,
        family="encoder",
        about=about,
        architecture=architecture,
        config=config,
        mini={**mini, "vocab_size": 4096},
        params=params,
        counted=counted,
        source=f"huggingface.co/{hub_id}",
        seq=128,
        max_seq=512,
        mini_seq=64,
    )


def _roberta(size: str, config: Mapping[str, Any], mini: Mapping[str, Any], params: int) -> ModelEntry:
    about = f"RoBERTa {size}, {config['num_hidden_layers']} layers"
    return _encoder(
        f"roberta-{size}", ROBERTA, {**config, **_ROBERTA}, mini, params, f"FacebookAI/roberta-{size}", about
    )


def _deberta(size: str, config: Mapping[str, Any], mini_layers: int, params: int) -> ModelEntry:
    name, layers = f"deberta-v3-{size}", config["num_hidden_layers"]
    mini = {**_MINI_BASE, "num_hidden_layers": mini_layers}
    about = f"DeBERTa v3 {size}, {layers} layers, disentangled attention"
    return _encoder(name, DEBERTA, {**config, **_DEBERTA}, mini, params, f"microsoft/{name}", about, _NO_POOLER)


def _embedder(  # noqa: PLR0917 - a row of the table
    name: str, config: Mapping[str, Any], mini: Mapping[str, Any], params: int, hub_id: str, title: str, like: str
) -> ModelEntry:
    return _encoder(name, BERT, config, mini, params, hub_id, f"{title}, an embedder; {like}")


ENCODERS: tuple[ModelEntry, ...] = (
    _encoder(
        "distilbert",
        DISTILBERT,
        {"dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072},
        {"dim": 128, "n_layers": 3, "n_heads": 4, "hidden_dim": 512},
        66_362_880,
        "distilbert/distilbert-base-uncased",
        "DistilBERT base, 6 layers",
        _NO_POOLER,
    ),
    _encoder(
        "bert-base", BERT, _BASE, _MINI_BASE, 109_482_240, "google-bert/bert-base-uncased", "BERT base, 12 layers"
    ),
    _encoder(
        "bert-large", BERT, _LARGE, _MINI_LARGE, 335_141_888, "google-bert/bert-large-uncased", "BERT large, 24 layers"
    ),
    _roberta("base", _BASE, _MINI_BASE, 124_645_632),
    _roberta("large", _LARGE, _MINI_LARGE, 355_359_744),
    _deberta("base", _BASE, 2, 183_831_552),
    _deberta("large", _LARGE, 3, 434_012_160),
    _embedder(
        "bge-small",
        _MINI_LM,
        _MINI_BASE,
        33_360_000,
        "BAAI/bge-small-en-v1.5",
        "BGE small v1.5",
        "BERT of 12 layers, width 384",
    ),
    _embedder(
        "bge-base",
        _BASE,
        _MINI_BASE,
        109_482_240,
        "BAAI/bge-base-en-v1.5",
        "BGE base v1.5",
        "BERT base (E5 base v2 has the same shape)",
    ),
    _embedder(
        "e5-large",
        _LARGE,
        _MINI_LARGE,
        335_141_888,
        "intfloat/e5-large-v2",
        "E5 large v2",
        "BERT large (BGE large v1.5 has the same shape)",
    ),
    _encoder(
        "ms-marco-minilm",
        RERANKER,
        {**_MINI_LM, **_SCORE, "num_hidden_layers": 6},
        {**_MINI_BASE, "num_hidden_layers": 3},
        22_713_601,
        "cross-encoder/ms-marco-MiniLM-L6-v2",
        "MiniLM cross-encoder for reranking; BERT of 6 layers, width 384",
        _SCORED,
    ),
    _encoder(
        "bge-reranker-base",
        XLM_RERANKER,
        {**_BASE, **_XLM, **_SCORE},
        _MINI_BASE,
        278_044_417,
        "BAAI/bge-reranker-base",
        "BGE reranker base, a cross-encoder; XLM-RoBERTa base",
        _SCORED,
    ),
)
