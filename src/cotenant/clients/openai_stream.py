"""A streamed answer of the OpenAI API: its events, which of them carry tokens, and how many."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.errors import RequestFailed, WorkloadError

_END = b"[DONE]"
Count = Callable[[str], int]
"""Number of tokens in a text."""


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """A server's report on its answer. None if it has no tokens, or does not count them."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    """Reasoning tokens among `tokens_out`."""


class StreamedAnswer:
    """One answer as it arrives. A chunk with only a role or a count is not a token."""

    def __init__(self, token: Callable[[int], None], *, count: Count | None = None) -> None:
        self._token = token
        """Called with the number of each chunk that carries text, as it arrives."""
        self._count = count
        self._events = Events()
        self._usage: dict[str, Any] = {}
        self._ended = False
        self._said: list[str] = []
        self._reasoned: list[str] = []
        self.chunks = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes of the body."""
        for data in self._events.feed(piece):
            if data == _END:
                self._ended = True
            else:
                self._chunk(data)

    @property
    def text(self) -> str:
        """The answer without its reasoning, with which a conversation continues."""
        return "".join(self._said)

    def answer(self) -> AnswerTokens:
        """The completed answer.

        Raises:
            RequestFailed: The stream ended without a final event, or without a single token.
        """
        if not self._ended:
            raise RequestFailed("broken off", "the stream ended without a `finish_reason` or `[DONE]`")
        if not self.chunks:
            raise RequestFailed("no tokens", "the stream contained no token")
        reasoning = len(self._reasoned) or None
        if self._count is None or _positive(self._usage.get("completion_tokens")):
            return answer_of(self._usage, self.chunks, reasoning)
        thought = "".join(self._reasoned)
        reasoning = self._count(thought) if thought else None
        return answer_of(self._usage, self._count(self.text) + (reasoning or 0), reasoning)

    def _chunk(self, data: bytes) -> None:
        chunk = _object(data)
        if "error" in chunk:
            raise RequestFailed("error in stream", f"the server ended the stream with an error: {said(chunk['error'])}")
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        for choice in chunk.get("choices") or ():
            if self._carries_text(choice):
                self._token(self.chunks)
                self.chunks += 1
            if choice.get("finish_reason"):
                self._ended = True  # some servers send this and omit `[DONE]`

    def _carries_text(self, choice: Any) -> bool:
        """Keep its part of the answer or reasoning; False if it only has a role or an end."""
        if not isinstance(choice, dict):
            raise RequestFailed("bad stream", "a chunk of the stream has choices that are not objects")
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            text, thought, calls = choice.get("text"), None, None
        else:
            text, calls = delta.get("content"), delta.get("tool_calls")
            thought = delta.get("reasoning_content") or delta.get("reasoning")  # vLLM has had both names
        if thought:
            self._reasoned.append(str(thought))
        if text:
            self._said.append(str(text))
        return bool(text or thought or calls)


def answer_of(usage: dict[str, Any], counted_here: int | None, reasoning_here: int | None = None) -> AnswerTokens:
    """Tokens as counted by the server; where it does not, as counted here."""
    counted, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
    details = usage.get("completion_tokens_details")
    reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return AnswerTokens(
        tokens_in=prompt if isinstance(prompt, int) else None,
        tokens_out=counted if _positive(counted) else counted_here,
        tokens_reasoning=reasoning if _positive(reasoning) else reasoning_here,
    )


def whole_answer(body: bytes) -> AnswerTokens:
    """For an answer that was not streamed: embeddings, scores, or `stream: false`."""
    document = _object(body)
    if "error" in document:
        raise RequestFailed("error in answer", f"the server answered with an error: {said(document['error'])}")
    usage = document.get("usage")
    return answer_of(usage if isinstance(usage, dict) else {}, None)


def said(error: Any) -> str:
    """A server's error message, on one line."""
    message = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(message).split())[:200]


def _positive(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data.decode())  # for bytes it would guess the encoding first
    except ValueError:
        raise RequestFailed("bad stream", f"the answer contains {data[:60]!r}, which is not JSON") from None
    if not isinstance(document, dict):
        raise RequestFailed("bad stream", f"the answer contains {data[:60]!r}, which is not an object")
    return document


def counter(name: str) -> Callable[[str], int]:
    """The number of tokens of a text, by a tokenizer.json or its folder.

    Raises:
        WorkloadError: It is missing, or not a tokenizer.
    """
    path = Path(name).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise WorkloadError(
            f"there is no tokenizer at {path}", hint="`tokenizer` names a tokenizer.json, or a folder with one"
        )
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises nothing more specific
        raise WorkloadError(f"{path} is not a tokenizer: {' '.join(str(error).split())[:120]}") from None

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


# Server-sent events, from bytes in arbitrary pieces.

LONGEST_EVENT = 4 << 20


class Events:
    """Feed it bytes; it returns the data of each complete event."""

    def __init__(self) -> None:
        self._pending = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that end in this piece."""
        *lines, self._pending = (self._pending + piece).split(b"\n")
        if len(self._pending) > LONGEST_EVENT:
            raise RequestFailed("bad stream", f"an event of the stream is longer than {LONGEST_EVENT >> 20} MiB")
        complete = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line:
                if self._data:
                    complete.append(b"\n".join(self._data))
                    self._data = []
            elif not line.startswith((b":", b"event:", b"id:", b"retry:")):
                raise RequestFailed("bad stream", f"the stream holds {line[:60]!r}, which is not an event")
        return complete
