"""Answers of completions and chats in OpenAI's form, whole or as events."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from cotenant.serving.engines.protocol import Prompt, Scored
from cotenant.serving.http.openai_input import Asked
from cotenant.serving.models.text import Codec


class Piece(NamedTuple):
    """One token of an answer."""

    place: int
    """The answer's index."""
    token: int
    text: str
    """What it adds to the text; nothing while that may still become a stop text or another character."""
    scored: Scored | None
    before: Sequence[Scored]
    """With the first token: the scores of the prompt's, from its second on, if requested."""
    reason: str | None
    """Why the answer is over; None: it isn't."""
    stopped_by: str | int | None


class Completion:
    """One request for completions or a chat, and the form of its answers."""

    def __init__(self, model: str, codec: Codec, asked: Asked, works: Sequence[Prompt], *, chat: bool) -> None:
        self.model = model
        self.codec = codec
        self.asked = asked
        self.works = works
        self._chat = chat
        self._id = f"{'chatcmpl' if chat else 'cmpl'}-{time.monotonic_ns():x}"
        self._created = int(time.time())
        self._begun: set[int] = set()
        self._offsets = [0] * len(works)
        self._made = 0

    def whole(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """The complete answer."""
        own: list[list[Piece]] = [[] for _ in self.works]
        for piece in pieces:
            own[piece.place].append(piece)
        self._made = len(pieces)
        choices = [self._choice(place, some) for place, some in enumerate(own)]
        return {**self._head(piece=False), "choices": choices, "usage": self._usage()}

    def event(self, piece: Piece) -> dict[str, Any]:
        """The event of a token."""
        first = piece.place not in self._begun
        self._begun.add(piece.place)
        self._made += 1
        text = self._echoed(piece.place) + piece.text if first else piece.text
        content: dict[str, Any] = {"text": text}
        if self._chat:
            content = {"delta": {"role": "assistant", "content": text} if first else {"content": text}}
        choice = {
            "index": piece.place,
            **content,
            "logprobs": self._logprobs([piece]),
            "finish_reason": piece.reason,
            "stop_reason": piece.stopped_by,
        }
        usage = {"usage": self._usage() if self.asked.usage_each else None} if self.asked.usage else {}
        return {**self._head(piece=True), "choices": [choice], **usage}

    def last(self) -> dict[str, Any]:
        """The event with the usage."""
        return {**self._head(piece=True), "choices": [], "usage": self._usage()}

    def _head(self, *, piece: bool) -> dict[str, Any]:
        kind = ("chat.completion" + (".chunk" if piece else "")) if self._chat else "text_completion"
        return {"id": self._id, "object": kind, "created": self._created, "model": self.model}

    def _choice(self, place: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        text = self._echoed(place) + "".join(piece.text for piece in pieces)
        return {
            "index": place,
            **({"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}),
            "logprobs": self._logprobs(pieces),
            "finish_reason": pieces[-1].reason,
            "stop_reason": pieces[-1].stopped_by,
        }

    def _echoed(self, place: int) -> str:
        return self.codec.decode(self.works[place].ids) if self.asked.echo else ""

    def _usage(self) -> dict[str, int]:
        prompt = sum(len(work.ids) for work in self.works[:: self.asked.answers])
        return {"prompt_tokens": prompt, "completion_tokens": self._made, "total_tokens": prompt + self._made}

    def _logprobs(self, pieces: Sequence[Piece]) -> dict[str, Any] | None:
        if self.asked.logprobs is None:
            return None
        scored = [(piece.token, piece.scored) for piece in pieces if piece.scored is not None]
        if self._chat:
            return {"content": [self._token(token, score) for token, score in scored], "refusal": None}
        if pieces[0].before:
            ids = self.works[pieces[0].place].ids
            known: list[tuple[int, Scored | None]] = [(ids[0], None), *zip(ids[1:], pieces[0].before, strict=True)]
            return self._columns(pieces[0].place, [*known, *scored])
        return self._columns(pieces[0].place, scored)

    def _columns(self, place: int, scored: Sequence[tuple[int, Scored | None]]) -> dict[str, Any]:
        """The form of completions."""
        tokens, offsets = [self.codec.piece(token) for token, _ in scored], []
        for text in tokens:
            offsets.append(self._offsets[place])
            self._offsets[place] += len(text)
        return {
            "tokens": tokens,
            "token_logprobs": [None if score is None else score.logprob for _, score in scored],
            "top_logprobs": [None if score is None else self._top(token, score) for token, score in scored],
            "text_offset": offsets,
        }

    def _top(self, token: int, score: Scored) -> dict[str, float]:
        """The most likely tokens, and the chosen one."""
        return {self.codec.piece(one): chance for one, chance in (*score.top, (token, score.logprob))}

    def _token(self, token: int, score: Scored) -> dict[str, Any]:
        """The form of chats."""
        top = [_chance(self.codec.piece(one), chance) for one, chance in score.top]
        return {**_chance(self.codec.piece(token), score.logprob), "top_logprobs": top}


def _chance(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
