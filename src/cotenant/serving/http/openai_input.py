"""What completions, chats and embeddings may ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.codec import Codec
from cotenant.serving.http.request_options import (
    MOST_LOGPROBS,
    SAMPLING,
    Off,
    Sampling,
    check_options,
    read_sampling,
    switch,
    whole,
)
from cotenant.serving.service import ServedModel

MOST_PROMPTS = 64
MOST_TEXTS = 2048
"""Of a request for embeddings, as at OpenAI."""
MOST_ANSWERS = 64
_NOTES = ("user", "metadata", "safety_identifier", "prompt_cache_key", "request_id")
"""What a client says about itself; it has no influence on an answer."""
_COMMON = ("model", "stream", "stream_options", "n", "logprobs", "priority", *SAMPLING, *_NOTES)
_TAKEN = {
    "/v1/completions": ("prompt", "echo", "best_of", *_COMMON),
    "/v1/chat/completions": ("messages", "top_logprobs", *_COMMON),
    "/v1/embeddings": ("model", "input", "encoding_format", "dimensions", "priority", *_NOTES),
}
_OFF: Off = {
    "store": (False,),
    "service_tier": ("auto", "default"),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "prompt_logprobs": (),
    "truncate_prompt_tokens": (),
    "add_special_tokens": (True,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "use_beam_search": (False,),
    "length_penalty": (1.0,),
}
_OFF_AT: Mapping[str, Off] = {
    "/v1/completions": {**_OFF, "suffix": ("",), "add_special_tokens": (True,)},
    "/v1/chat/completions": {
        **_OFF,
        "add_special_tokens": (False,),
        "tools": ([],),
        "tool_choice": ("auto", "none"),
        "parallel_tool_calls": (True, False),
        "functions": ([],),
        "function_call": ("auto", "none"),
        "modalities": (["text"],),
        "audio": (),
        "prediction": (),
        "reasoning_effort": ("none",),
        "verbosity": (),
        "web_search_options": (),
        "echo": (False,),
        "documents": ([],),
        "chat_template": (),
        "chat_template_kwargs": ({},),
        "add_generation_prompt": (True,),
        "continue_final_message": (False,),
    },
    "/v1/embeddings": {"truncate_prompt_tokens": (), "add_special_tokens": (True,)},
}
_STREAM_OPTIONS = ("include_usage", "continuous_usage_stats")


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    """The options of a completion or chat."""

    sampling: Sampling
    answers: int
    """For each prompt."""
    logprobs: int | None
    """Report log probabilities, with those of this many most likely tokens; None: don't."""
    echo: bool
    stream: bool
    usage: bool
    usage_each: bool
    """Usage so far with every event."""
    priority: Any


def read_asked(body: Mapping[str, Any], served: ServedModel, path: str) -> CompletionOptions:
    """Read and check the options of a completion or chat. Raises BadInput."""
    refuse_unknown(body, path)
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadInput("`stream_options` must be an object.", param="stream_options")
    check_options(options, _STREAM_OPTIONS, {"include_obfuscation": (False,)}, where="`stream_options`")
    answers = whole(body, "n", 1, least=1, most=MOST_ANSWERS) or 1
    if body.get("best_of") not in (None, answers):
        raise BadInput("`best_of` other than `n` isn't supported.", hint="Leave it out.", param="best_of")
    sampling = read_sampling(body, served.signature)
    if answers > 1 and not sampling.prompt.temperature:
        raise BadInput("With `temperature` 0 all `n` answers would be the same.", hint="Ask for one.", param="n")
    each = switch(options, "continuous_usage_stats")
    return CompletionOptions(
        sampling,
        answers,
        _chat_logprobs(body) if "messages" in body else _logprobs(body),
        switch(body, "echo"),
        switch(body, "stream"),
        switch(options, "include_usage") or each,
        each,
        body.get("priority"),
    )


def refuse_unknown(body: Mapping[str, Any], path: str) -> None:
    """Refuse options that an endpoint would ignore. Raises BadInput."""
    check_options(body, _TAKEN[path], _OFF_AT[path], where=path)


def prompts_of(prompt: Any, codec: Codec | None) -> list[tuple[int, ...]]:
    """Token ids of one or several texts or lists of ids. Raises BadInput."""
    return texts_of(prompt, codec, name="prompt", most=MOST_PROMPTS)


def echoes_of(prompt: Any, prompts: Sequence[Sequence[int]], codec: Codec) -> list[str]:
    """Texts as they were sent, and the texts of token ids."""
    sent = prompt if isinstance(prompt, list) else [prompt]
    return [text if isinstance(text, str) else codec.decode(ids) for text, ids in zip(sent, prompts, strict=False)]


def texts_of(value: Any, codec: Codec | None, *, name: str, most: int) -> list[tuple[int, ...]]:
    """The same for any field. Raises BadInput."""
    several = value if isinstance(value, list) and value and isinstance(value[0], list | str) else [value]
    if len(several) > most:
        raise BadInput(f"`{name}` has at most {most} texts, not {len(several)}.", param=name)
    return [_ids(prompt, codec, name) for prompt in several]


def conversation_of(messages: Any) -> list[dict[str, Any]]:
    """The messages of a chat, for the model's template. Raises BadInput."""
    if not isinstance(messages, list) or not messages:
        raise BadInput("`messages` must be a list of messages.", param="messages")
    return [_message(place, message) for place, message in enumerate(messages)]


_ROLES = ("system", "developer", "user", "assistant", "tool")
_KEPT = ("name", "tool_calls", "tool_call_id")


def _message(place: int, message: Any) -> dict[str, Any]:
    param = f"messages[{place}]"
    role = message.get("role") if isinstance(message, dict) else None
    if role not in _ROLES:
        known = f"{', '.join(_ROLES[:-1])} or {_ROLES[-1]}"
        raise BadInput(f"A message's role is {known}, not {str(role)[:40]!r}.", param=f"{param}.role")
    kept = {name: message[name] for name in _KEPT if message.get(name) is not None}
    calls = kept.get("tool_calls", [])
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise BadInput("`tool_calls` is a list of objects.", param=f"{param}.tool_calls")
    return {"role": role, "content": _content(message.get("content"), role, param), **kept}


def _content(content: Any, role: str, param: str) -> str:
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":  # it called a tool
        return ""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise BadInput("A message's content is text.", param=f"{param}.content")


def _logprobs(body: Mapping[str, Any]) -> int | None:
    """Of a completion: the number of most likely tokens."""
    if body.get("logprobs") is False:
        return None
    return whole(body, "logprobs", None, most=MOST_LOGPROBS)


def _chat_logprobs(body: Mapping[str, Any]) -> int | None:
    """Of a chat: whether, and the number of most likely tokens."""
    top = whole(body, "top_logprobs", 0, most=MOST_LOGPROBS)
    if switch(body, "logprobs"):
        return top
    if top:
        raise BadInput("`top_logprobs` needs `logprobs: true`.", param="top_logprobs")
    return None


def _ids(value: Any, codec: Codec | None, name: str) -> tuple[int, ...]:
    if isinstance(value, str):
        if codec is None:
            raise BadInput("This model has no tokenizer; send token ids.", param=name)
        ids: Sequence[int] = codec.encode(value)
    elif isinstance(value, list) and all(type(token) is int for token in value):
        ids = value
    else:
        raise BadInput(f"`{name}` is a text, a list of texts or token ids.", param=name)
    if not ids:
        raise BadInput(f"`{name}` is empty.", param=name)
    return tuple(ids)
