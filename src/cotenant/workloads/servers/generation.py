"""Reads a streamed answer of the OpenAI API: which of its chunks carry tokens, and how many there are."""

import json
from collections.abc import Callable
from typing import Any

from cotenant.errors import RequestFailed
from cotenant.workloads.protocol import Answer
from cotenant.workloads.servers.events import Events

_END = b"[DONE]"


class Generation:
    """One answer as it comes. A chunk that only names the role, or only counts, is not a token."""

    def __init__(self, token: Callable[[int], None]) -> None:
        self._token = token
        """Told the number of each chunk that carries text, as it comes."""
        self._events = Events()
        self._usage: dict[str, Any] = {}
        self._ended = False
        self.chunks = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes of the body."""
        for data in self._events.feed(piece):
            if data == _END:
                self._ended = True
            else:
                self._chunk(data)

    def answer(self) -> Answer:
        """What it came to.

        Raises:
            RequestFailed: The stream ended without an end, or without a single token.
        """
        if not self._ended:
            raise RequestFailed("broken off", "the stream ended without a `finish_reason` or `[DONE]`")
        if not self.chunks:
            raise RequestFailed("no tokens", "the stream held no token")
        return answer_of(self._usage, self.chunks)

    def _chunk(self, data: bytes) -> None:
        chunk = _object(data)
        if "error" in chunk:
            raise RequestFailed("error in stream", f"the server ended the stream with an error: {said(chunk['error'])}")
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        for choice in chunk.get("choices") or ():
            if carries_text(choice):
                self._token(self.chunks)
                self.chunks += 1
            if choice.get("finish_reason"):
                self._ended = True  # some servers say this and leave out `[DONE]`


def carries_text(choice: Any) -> bool:
    """A choice of a chunk with some of the answer or of the reasoning in it, and not only a role or an end."""
    if not isinstance(choice, dict):
        raise RequestFailed("bad stream", "a chunk of the stream has choices that are not objects")
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(delta.get(key) for key in ("content", "reasoning_content", "reasoning", "tool_calls"))
    return bool(choice.get("text"))


def answer_of(usage: dict[str, Any], chunks: int | None) -> Answer:
    """Tokens as the server counts them; where it does not, each chunk with text is one."""
    counted = usage.get("completion_tokens")
    prompt = usage.get("prompt_tokens")
    return Answer(
        tokens_in=prompt if isinstance(prompt, int) else None,
        tokens_out=counted if isinstance(counted, int) and counted > 0 else chunks,
    )


def whole_answer(body: bytes) -> Answer:
    """Of an answer that was not streamed: embeddings, or `stream: false`."""
    document = _object(body)
    if "error" in document:
        raise RequestFailed("error in answer", f"the server answered with an error: {said(document['error'])}")
    usage = document.get("usage")
    return answer_of(usage if isinstance(usage, dict) else {}, None)


def said(error: Any) -> str:
    """What a server says of an error, on one line."""
    message = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(message).split())[:200]


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        raise RequestFailed("bad stream", f"the answer holds {data[:60]!r}, which is not JSON") from None
    if not isinstance(found, dict):
        raise RequestFailed("bad stream", f"the answer holds {data[:60]!r}, which is not an object")
    return found
