"""Text and tokens: a model's tokenizer, or bytes if it has none, and the text of a stream of tokens."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cotenant.errors import BadInput
from cotenant.serving.workers.work import Prompt

FIRST_BYTE = 8
"""Lower ids are unused: models treat some of them as special."""


class Codec(Protocol):
    """Text to tokens and back."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Tokens that end an answer."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a text."""
        ...

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text of tokens, with special ones if asked; the end of an unfinished character is U+FFFD."""
        ...

    def piece(self, token: int) -> str:
        """Text of a single token, special ones included."""
        ...

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Tokens of a conversation, up to where the answer begins."""
        ...


class ByteCodec:
    """One token per byte: for models with random weights, whose answers are meaningless anyway.

    Every token of an answer is a character of its own. As UTF-8, random bytes would rarely form one, and the
    times of streamed text would not be those of the tokens.
    """

    stops: tuple[int, ...] = ()

    def encode(self, text: str) -> tuple[int, ...]:
        """UTF-8 bytes of the text, shifted by ``FIRST_BYTE``."""
        return tuple(byte + FIRST_BYTE for byte in text.encode())

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """An ASCII character for each token."""
        del special
        return bytes((token - FIRST_BYTE) % 128 for token in ids).decode("ascii")

    def piece(self, token: int) -> str:
        """An ASCII character."""
        return self.decode((token,))

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Role and content, a line each."""
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return self.encode("".join(lines) + "assistant: ")


class TokenizerCodec:
    """`tokenizer.json` of a directory with weights, and its chat template where it has one."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = _json(folder / "tokenizer_config.json")
        self._template = config.get("chat_template") or _text(folder / "chat_template.jinja")
        self._special = {
            key: value if isinstance(value, str) else (value or {}).get("content", "")
            for key, value in config.items()
            if key.endswith("_token") and isinstance(value, str | dict)
        }
        ends: Any = _json(folder / "generation_config.json").get("eos_token_id")
        ends = _json(folder / "config.json").get("eos_token_id") if ends is None else ends
        self.stops: tuple[int, ...] = tuple(ends) if isinstance(ends, list) else () if ends is None else (ends,)

    def encode(self, text: str) -> tuple[int, ...]:
        """As in the model's training, with its special tokens."""
        return tuple(self._tokenizer.encode(text).ids)

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Without special tokens, or with them."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=not special))

    def piece(self, token: int) -> str:
        """With special tokens."""
        return self.decode((token,), special=True)

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Apply the model's template, sandboxed since a template is a program."""
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if not isinstance(self._template, str):
            raise BadInput("This model has no chat template.", hint="Send a prompt to /v1/completions.")
        try:
            template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(self._template)
            text = template.render(messages=messages, add_generation_prompt=True, **self._special)
        except TemplateError as error:
            raise BadInput(f"The model's chat template refuses this conversation: {error}.") from None
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)


def find_codec(folder: str | None) -> Codec | None:
    """The codec of a model's directory; bytes without one; None if the directory holds no tokenizer."""
    if folder is None:
        return ByteCodec()
    path = Path(folder).expanduser()
    return TokenizerCodec(path) if (path / "tokenizer.json").is_file() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


# Text from a stream of tokens: complete characters only, cut at a stop text.

_UNFINISHED = "\ufffd"
_LONGEST_UNFINISHED = 3
"""Bytes of an unfinished UTF-8 character, which some tokenizers replace one by one; more are invalid and stay so."""

WINDOW = 32
"""Tokens whose text is final at the latest then."""
CONTEXT = 5
"""Tokens of the prompt that an answer is decoded with: alone, many tokenizers drop the space that it begins with."""


class TextWriter:
    """Assembles the text of an answer."""

    def __init__(self, codec: Codec, prompt: Prompt, stops: Sequence[str] = ()) -> None:
        self._codec = codec
        self._prompt = prompt
        self._stops = tuple(stops)
        self._ids = list(prompt.ids[-CONTEXT:])
        context = codec.decode(self._ids)
        if context.endswith(_UNFINISHED):  # the answer would finish the prompt's last character
            self._ids, context = [], ""
        self._said = 0
        self._settled = ""
        self._unsearched = 0
        """Where the part of the text begins that stop texts are searched in."""
        self._from = self._read = 0
        self._context = len(context)
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
        stops = [(at, stop) for stop in self._stops if (at := text.find(stop, self._unsearched)) >= 0]
        if stops:
            at, self.stopped_by = min(stops)
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
