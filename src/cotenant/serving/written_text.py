"""Text from a stream of tokens: complete characters only, cut at a stop text."""

from collections.abc import Sequence

from cotenant.serving.engines.protocol import Prompt
from cotenant.serving.models.text import Codec

_UNFINISHED = "\ufffd"
_LONGEST_UNFINISHED = 3
"""Bytes of an unfinished UTF-8 character, which some tokenizers replace one by one; more are invalid and stay so."""

WINDOW = 32
"""Tokens whose text is final at the latest then."""


class Writer:
    """Assembles the text of one answer."""

    def __init__(self, codec: Codec, prompt: Prompt, stops: Sequence[str] = ()) -> None:
        self._codec = codec
        self._prompt = prompt
        self._stops = tuple(stops)
        self._ids: list[int] = []
        self._said = 0
        self._settled = ""
        self._unsearched = 0
        """Where the part of the text begins that stop texts are searched in."""
        self._from = self._read = self._context = 0
        self.count = 0
        self.stopped = False
        """Whether a stop text was met: what follows isn't wanted."""
        self.reason: str | None = None
        """Why the answer is over: `stop` or `length`; None: it isn't."""
        self.stopped_by: str | int | None = None
        """The stop text or, apart from the model's own end, the stop token."""

    def put(self, token: int) -> str:
        """The text added by a token; a possible beginning of a stop text is held back until it is none."""
        self.count += 1
        early = self.count <= self._prompt.min_tokens
        if token in self._prompt.stop and not early:
            self.reason = "stop"
            self.stopped_by = None if token in self._codec.stops else token
            return self._rest()
        self._ids.append(token)
        text = self._text()
        if early:
            self._unsearched = len(text)
        found = [(at, stop) for stop in self._stops if (at := text.find(stop, self._unsearched)) >= 0]
        if found:
            at, self.stopped_by = min(found)
            self.stopped, self.reason = True, "stop"
            return self._say(text[:at])
        if self.count >= self._prompt.tokens:
            self.reason = "length"
            return self._rest()
        return self._say(text[: len(text) - self._held(text)])

    def _rest(self) -> str:
        return self._say(self._text())

    def _text(self) -> str:
        """All text so far. Only the last tokens are decoded again, those before them once more as their context."""
        text = self._settled + self._codec.decode(self._ids[self._from :])[self._context :]
        if len(self._ids) - self._read >= WINDOW and not text.endswith(_UNFINISHED):
            self._settled, self._from, self._read = text, self._read, len(self._ids)
            self._context = len(self._codec.decode(self._ids[self._from :]))
        return text

    def _say(self, text: str) -> str:
        new = text[self._said :]
        self._said = max(self._said, len(text))
        return new

    def _held(self, text: str) -> int:
        held = min(len(text) - len(text.rstrip(_UNFINISHED)), _LONGEST_UNFINISHED)
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(text)), 0, -1):
                if text.endswith(stop[:length]):
                    held = max(held, length)
                    break
        return held
