"""Encoder language models. Figures: the configuration files and model cards of the named hub repositories."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cotenant.workloads.models.entry import Architecture, ModelEntry

BERT = Architecture(
    "transformers",
    "BertConfig",
    {"embed": "BertModel", "classify": "BertForSequenceClassification"},
    trains="classify",
    model_type="bert",
)
DISTILBERT = Architecture(
    "transformers",
    "DistilBertConfig",
    {"embed": "DistilBertModel", "classify": "DistilBertForSequenceClassification"},
    trains="classify",
    model_type="distilbert",
)
ROBERTA = Architecture(
    "transformers",
    "RobertaConfig",
    {"embed": "RobertaModel", "classify": "RobertaForSequenceClassification"},
    trains="classify",
    model_type="roberta",
)
XLM_ROBERTA = Architecture(
    "transformers",
    "XLMRobertaConfig",
    {"embed": "XLMRobertaModel", "classify": "XLMRobertaForSequenceClassification"},
    trains="classify",
    model_type="xlm-roberta",
)
RERANKER = replace(BERT, classes={"classify": BERT.classes["classify"]})
XLM_RERANKER = replace(XLM_ROBERTA, classes={"classify": XLM_ROBERTA.classes["classify"]})
DEBERTA = Architecture(
    "transformers",
    "DebertaV2Config",
    {"embed": "DebertaV2Model", "classify": "DebertaV2ForSequenceClassification"},
    trains="classify",
    model_type="deberta-v2",
)

_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_MINI_BASE = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
_MINI_LARGE = {"hidden_size": 160, "num_hidden_layers": 6, "num_attention_heads": 5, "intermediate_size": 640}
_MINI_LM = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536}
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


def _encoder(
    name: str,
    architecture: Architecture,
    config: Mapping[str, Any],
    mini: Mapping[str, Any],
    *,
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


ENCODERS: tuple[ModelEntry, ...] = (
    _encoder(
        "distilbert",
        DISTILBERT,
        {"dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072},
        {"dim": 128, "n_layers": 3, "n_heads": 4, "hidden_dim": 512},
        params=66_362_880,
        hub_id="distilbert/distilbert-base-uncased",
        about="DistilBERT base, 6 layers",
        counted="encoder without heads (it has no pooler)",
    ),
    _encoder(
        "bert-base",
        BERT,
        _BASE,
        _MINI_BASE,
        params=109_482_240,
        hub_id="google-bert/bert-base-uncased",
        about="BERT base, 12 layers",
    ),
    _encoder(
        "bert-large",
        BERT,
        _LARGE,
        _MINI_LARGE,
        params=335_141_888,
        hub_id="google-bert/bert-large-uncased",
        about="BERT large, 24 layers",
    ),
    _encoder(
        "roberta-base",
        ROBERTA,
        {**_BASE, **_ROBERTA},
        _MINI_BASE,
        params=124_645_632,
        hub_id="FacebookAI/roberta-base",
        about="RoBERTa base, 12 layers",
    ),
    _encoder(
        "roberta-large",
        ROBERTA,
        {**_LARGE, **_ROBERTA},
        _MINI_LARGE,
        params=355_359_744,
        hub_id="FacebookAI/roberta-large",
        about="RoBERTa large, 24 layers",
    ),
    _encoder(
        "deberta-v3-base",
        DEBERTA,
        {**_BASE, **_DEBERTA},
        {**_MINI_BASE, "num_hidden_layers": 2},
        params=183_831_552,
        hub_id="microsoft/deberta-v3-base",
        about="DeBERTa v3 base, 12 layers, disentangled attention",
        counted="encoder without heads (it has no pooler)",
    ),
    _encoder(
        "deberta-v3-large",
        DEBERTA,
        {**_LARGE, **_DEBERTA},
        {**_MINI_BASE, "num_hidden_layers": 3},
        params=434_012_160,
        hub_id="microsoft/deberta-v3-large",
        about="DeBERTa v3 large, 24 layers, disentangled attention",
        counted="encoder without heads (it has no pooler)",
    ),
    _encoder(
        "bge-small",
        BERT,
        _MINI_LM,
        _MINI_BASE,
        params=33_360_000,
        hub_id="BAAI/bge-small-en-v1.5",
        about="BGE small v1.5, an embedder; BERT of 12 layers, width 384",
    ),
    _encoder(
        "bge-base",
        BERT,
        _BASE,
        _MINI_BASE,
        params=109_482_240,
        hub_id="BAAI/bge-base-en-v1.5",
        about="BGE base v1.5, an embedder; BERT base (E5 base v2 has the same shape)",
    ),
    _encoder(
        "e5-large",
        BERT,
        _LARGE,
        _MINI_LARGE,
        params=335_141_888,
        hub_id="intfloat/e5-large-v2",
        about="E5 large v2, an embedder; BERT large (BGE large v1.5 has the same shape)",
    ),
    _encoder(
        "ms-marco-minilm",
        RERANKER,
        {**_MINI_LM, **_SCORE, "num_hidden_layers": 6},
        {**_MINI_BASE, "num_hidden_layers": 3},
        params=22_713_601,
        hub_id="cross-encoder/ms-marco-MiniLM-L6-v2",
        about="MiniLM cross-encoder for reranking; BERT of 6 layers, width 384",
        counted=_SCORED,
    ),
    _encoder(
        "bge-reranker-base",
        XLM_RERANKER,
        {**_BASE, **_XLM, **_SCORE},
        _MINI_BASE,
        params=278_044_417,
        hub_id="BAAI/bge-reranker-base",
        about="BGE reranker base, a cross-encoder; XLM-RoBERTa base",
        counted=_SCORED,
    ),
)
