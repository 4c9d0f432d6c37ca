"""Text from a stream of tokens: complete characters only, cut at a stop text."""

from collections.abc import Sequence

from cotenant.serving.models.text import Codec

_UNFINISHED = "\ufffd"
_LONGEST_UNFINISHED = 3
"""Bytes of an unfinished UTF-8 character, which some tokenizers replace one by one; more are invalid and stay so."""


class Writer:
    """Assembles the text of one answer."""

    def __init__(self, codec: Codec, stops: Sequence[str] = ()) -> None:
        self._codec = codec
        self._stops = tuple(stops)
        self._ids: list[int] = []
        self._said = 0
        self._ended = False
        self.count = 0
        self.stopped = False

    def put(self, tokens: Sequence[int]) -> str:
        """The text added by these tokens; a possible beginning of a stop text is held back."""
        self.count += len(tokens)
        kept = [token for token in tokens if token not in self._codec.stops]
        self._ended = self._ended or len(kept) < len(tokens)
        self._ids += kept
        text = self._codec.decode(self._ids)
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self._say(text[: min(found)])
        return self._say(text[: len(text) - self._held(text)])

    def end(self) -> str:
        """The remaining text."""
        return "" if self.stopped else self._say(self._codec.decode(self._ids))

    def why(self, tokens: int) -> str:
        """The finish reason: `stop`, or `length` if all requested tokens were generated."""
        return "stop" if self.stopped or self._ended or self.count < tokens else "length"

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
