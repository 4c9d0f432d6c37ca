"""OpenAI's embeddings, and vLLM's interface to tokenizers."""

import asyncio
import base64
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.errors import BadInput, Refused
from cotenant.serving.codec import Codec
from cotenant.serving.http.messages import HttpRequest, Reply, in_json
from cotenant.serving.http.openai import find_model
from cotenant.serving.http.openai_input import MOST_TEXTS, conversation_of, refuse_unknown, texts_of
from cotenant.serving.http.passing import pass_openai
from cotenant.serving.http.request_options import Off, check_options, switch, whole, wishes_of
from cotenant.serving.http.v2_tensors import numbers_of
from cotenant.serving.service import ServedModel, Service, Wishes
from cotenant.serving.tensors import Parcel, Tensor

AT_ONCE = 16
"""Texts of a request in the scheduler's queue: a long list doesn't crowd out the tenant's other requests."""


async def embeddings(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Vectors of texts."""
    del parts
    body = request.json()
    served = find_model(service, body.get("model"))
    if served.passing is not None:
        return await pass_openai(service, served, request, body)
    if not served.signature.embeds:
        hint = "Serve an encoder with `mode: embed`."
        raise BadInput(f"{served.name} gives no embeddings.", hint=hint, param="model")
    refuse_unknown(body, request.path)
    wishes = wishes_of(request.headers, vllm_priority=body.get("priority"))
    form = body.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise BadInput("`encoding_format` is float or base64.", param="encoding_format")
    size = served.signature.outputs[0].shape[-1]
    if whole(body, "dimensions", size, least=1) != size:
        raise BadInput(f"{served.name} has vectors of {size} `dimensions` only.", param="dimensions")
    texts = texts_of(body.get("input"), served.codec, name="input", most=MOST_TEXTS)
    for ids in texts:
        served.signature.check_ids(ids, param="input")
    vectors = await _embed(service, served, texts, wishes)
    count = sum(len(ids) for ids in texts)
    return in_json(
        {
            "object": "list",
            "model": served.name,
            "data": [
                {"object": "embedding", "index": place, "embedding": _vector(numbers, form)}
                for place, numbers in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


async def _embed(
    service: Service, served: ServedModel, texts: Sequence[tuple[int, ...]], wishes: Wishes
) -> list[list[float]]:
    """Vectors in order. Each text is a request of its own, to be in time by itself."""
    room = asyncio.Semaphore(AT_ONCE)
    # A list longer than that may wait, where a single text would be refused with the advice to come back.
    until = time.monotonic() + (served.contract.objective_s * len(texts) if len(texts) > AT_ONCE else 0.0)

    async def vector_of(ids: tuple[int, ...]) -> list[float]:
        async with room:
            while True:
                try:
                    return await _vector_of(service, served, ids, wishes)
                except Refused as refusal:
                    wait_s = refusal.retry_after_s
                    if wait_s is None or time.monotonic() + wait_s > until:
                        raise
                    await asyncio.sleep(wait_s)

    tasks = [asyncio.ensure_future(vector_of(ids)) for ids in texts]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def _vector_of(service: Service, served: ServedModel, ids: tuple[int, ...], wishes: Wishes) -> list[float]:
    data = struct.pack(f"<{len(ids)}q", *ids)
    parcel = Parcel((Tensor("input_ids", "INT64", (1, len(ids)), data),))
    answer = await service.infer(served.name, parcel, wishes)
    return numbers_of(answer.tensors[0])


def _vector(numbers: list[float], form: str) -> Any:
    if form == "float":
        return numbers
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


# vLLM's interface to tokenizers: text to tokens and back.

_TEXT = ("model", "prompt", "return_token_strs")
_CHAT = ("model", "messages", "return_token_strs")
_OFF: Off = {
    "add_special_tokens": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "tools": ([],),
}


async def tokenize(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Tokens of a text or a conversation."""
    del parts
    body = request.json()
    served, codec = _found(service, body)
    chats = "messages" in body
    check_options(body, _CHAT if chats else _TEXT, _OFF, where="/tokenize")
    if chats:
        ids = codec.chat(conversation_of(body["messages"]))
    elif isinstance(body.get("prompt"), str):
        ids = codec.encode(body["prompt"])
    else:
        raise BadInput("`prompt` is a text.", param="prompt")
    strings = [codec.piece(token) for token in ids] if switch(body, "return_token_strs") else None
    about = {"count": len(ids), "max_model_len": served.signature.longest, "tokens": list(ids)}
    return in_json({**about, "token_strs": strings})


async def detokenize(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Text of tokens."""
    del parts
    body = request.json()
    served, codec = _found(service, body)
    check_options(body, ("model", "tokens"), {}, where="/detokenize")
    tokens = body.get("tokens")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise BadInput("`tokens` is a list of token ids.", param="tokens")
    served.signature.check_ids(tokens, param="tokens")
    return in_json({"prompt": codec.decode(tokens, special=True)})


def _found(service: Service, body: Mapping[str, Any]) -> tuple[ServedModel, Codec]:
    """The model, which may be left out where only one has a tokenizer."""
    known = [model for model in service.tenants.values() if model.loaded and model.codec is not None]
    served = known[0] if body.get("model") is None and len(known) == 1 else find_model(service, body.get("model"))
    if served.codec is None:
        raise BadInput(f"{served.name} has no tokenizer here.", param="model")
    return served, served.codec
