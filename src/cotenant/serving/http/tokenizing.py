"""vLLM's interface to tokenizers: text to tokens and back."""

from collections.abc import Mapping
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.http.messages import Reply, Request, in_json
from cotenant.serving.http.openai import find_model
from cotenant.serving.http.openai_input import conversation_of
from cotenant.serving.http.options import Off, check_options, switch
from cotenant.serving.models.text import Codec
from cotenant.serving.service import Served, Service

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


async def tokenize(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
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


async def detokenize(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Text of tokens."""
    del parts
    body = request.json()
    served, codec = _found(service, body)
    check_options(body, ("model", "tokens"), {}, where="/detokenize")
    tokens = body.get("tokens")
    if not isinstance(tokens, list) or not all(type(one) is int for one in tokens):
        raise BadInput("`tokens` is a list of token ids.", param="tokens")
    served.signature.check_ids(tokens, param="tokens")
    return in_json({"prompt": codec.decode(tokens)})


def _found(service: Service, body: Mapping[str, Any]) -> tuple[Served, Codec]:
    """The model, which may be left out where only one has a tokenizer."""
    known = [one for one in service.tenants.values() if one.loaded and one.codec is not None]
    served = known[0] if body.get("model") is None and len(known) == 1 else find_model(service, body.get("model"))
    if served.codec is None:
        raise BadInput(f"{served.name} has no tokenizer here.", param="model")
    return served, served.codec
