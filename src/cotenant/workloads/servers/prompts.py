"""Prompts by length, or from a file: each is new, so that no prefix cache answers for the model.

Words are common and short, so that most tokenizers make each a token; a prompt's actual number of tokens is what
the server counts. Lengths depend on the seed; words also on a salt, so that a second run, or a second
tenant of the same server, never finds the first tenant's prompts in a cache.
"""

import hashlib
import json
import math
import os
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, model_validator

from cotenant import opening
from cotenant.errors import WorkloadError
from cotenant.workloads.recorded_arrivals import BLOCK_TOKENS, RecordedTrace, read_trace
from cotenant.workloads.spec_options import Options

LARGEST_FILE = 64 << 20
_USERS = ("user", "human")
LONGEST_PROMPT = 1 << 20
_TEXT = """
time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work number night point home water room mother area
money story fact month lot right study book eye job word business issue side kind head house service friend
father power hour game line end member law car city name team minute idea kid body back parent face others
level office door health person art war history party result change morning reason research girl guy moment
air teacher force
"""
WORDS = _TEXT.split()
_HASH_BYTES = 64
_BY_BYTE = [WORDS[value % len(WORDS)] for value in range(256)]


class PromptOptions(Options):
    """`prompts: {tokens: 128, cv: 0.5, shared: 0.25}` or `{file: prompts.jsonl}`."""

    tokens: int = Field(default=64, ge=1, le=LONGEST_PROMPT)
    """Mean length; each word counts as a token."""
    cv: float = Field(default=0.0, ge=0, le=3)
    """Coefficient of variation of the lengths (log-normal); 0 for equal lengths."""
    shared: float = Field(default=0.0, ge=0, le=1)
    """The part that is the same in all prompts: what a prefix cache can keep."""
    file: str | None = None
    """JSON lines with `prompt`, `text`, `messages` or ShareGPT's `conversations`, whose first question is used."""
    trace: str | None = None
    """A trace with lengths (`cotenant.workloads.recorded_arrivals`): prompts and answers have the recorded lengths."""
    longest: int = Field(default=LONGEST_PROMPT, ge=1, le=LONGEST_PROMPT)
    """Longer prompts of a trace are cut to this, the model's limit."""
    repeat: bool = False
    """Send the same prompts again in each window, where a cache may answer; False for new ones."""

    @model_validator(mode="after")
    def _either(self) -> "PromptOptions":
        recorded = [name for name in ("file", "trace") if getattr(self, name) is not None]
        if len(recorded) == 2:
            raise ValueError("give `file` or `trace`, not both")
        if recorded and self.model_fields_set & {"tokens", "cv"}:
            raise ValueError(f"a {recorded[0]} has its own lengths: give `{recorded[0]}`, or `tokens` and `cv`")
        return self

    @property
    def generated(self) -> bool:
        """True if their lengths are set here, not by a recording."""
        return self.file is None and self.trace is None


def _words(name: str, count: int) -> list[str]:
    """As many words, always the same for a name. A hash gives them at a tenth of the cost of seeding a generator."""
    hashes = [hashlib.blake2b(f"{name} {part}".encode()).digest() for part in range(-(-count // _HASH_BYTES))]
    return [_BY_BYTE[value] for value in b"".join(hashes)[:count]]


class Prompts:
    """The prompts of a tenant, by number."""

    def __init__(self, options: PromptOptions, seed: int) -> None:
        self._options, self._seed = options, seed
        self._texts = None if options.file is None else read_prompts(Path(options.file))
        self._salt = "" if options.repeat else os.urandom(6).hex()
        self._prefix = _words(f"prefix {seed}", 4096)
        self._trace = None if options.trace is None else _with_lengths(Path(options.trace))
        self._first_arrival = 0
        self._sent = 0
        self._ahead: tuple[tuple[int, int], str] | None = None

    def begin(self, first_arrival: int) -> None:
        """A window starts, with this arrival of the trace."""
        self._first_arrival = first_arrival
        self.prepare(0)

    def prepare(self, number: int) -> None:
        """Write the prompt of a request before it is due: writing it would delay the request."""
        key = number, self._place(number)
        self._ahead = key, self._text(*key)

    def answer_tokens(self, number: int) -> int | None:
        """Length of the recorded answer there; None without a trace."""
        return None if self._trace is None else self._trace.tokens_out[self._arrival(number)]

    @property
    def longest_answer(self) -> int | None:
        """Longest answer in the trace; None without a trace."""
        return None if self._trace is None else max(self._trace.tokens_out)

    def next(self, number: int) -> str:
        """The prompt of the next request; ``number`` is its position in the window."""
        key = number, self._place(number)
        self._sent += 1
        ahead = self._ahead
        return ahead[1] if ahead is not None and ahead[0] == key else self._text(*key)

    def _place(self, number: int) -> int:
        """Its position among all prompts."""
        return number if self._options.repeat else self._sent

    def _text(self, number: int, place: int) -> str:
        if self._trace is not None:
            return self._recorded(self._trace, self._arrival(number), place)
        if self._texts is not None:
            text = self._texts[place % len(self._texts)]
            return text if self._options.repeat or place < len(self._texts) else f"{self._salt} {place} {text}"
        length = self._length(place)
        shared = round(length * self._options.shared)
        own = _words(f"{self._salt} {self._seed} {place}", length - shared)
        repeats = -(-shared // len(self._prefix))
        return " ".join([*(self._prefix * repeats)[:shared], *own])

    def _arrival(self, number: int) -> int:
        assert self._trace is not None
        return (self._first_arrival + number) % len(self._trace.tokens_in)

    def _recorded(self, trace: RecordedTrace, arrival: int, place: int) -> str:
        """As long as recorded; it shares prefixes with others where the recording does."""
        length = min(trace.tokens_in[arrival], self._options.longest)
        words: list[str] = []
        for block in trace.blocks[arrival] if trace.blocks else ():
            words += _words(f"{self._salt} block {block}", BLOCK_TOKENS)
        shared = words[:length]
        own = _words(f"{self._salt} {self._seed} {place}", length - len(shared))
        return " ".join([*shared, *own])

    def _length(self, place: int) -> int:
        mean, cv = self._options.tokens, self._options.cv
        if cv == 0:
            return mean
        drawn = random.Random(f"{self._seed} {place}")  # noqa: S311 - lengths, not secrets
        sigma = math.sqrt(math.log1p(cv * cv))
        return min(max(round(drawn.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)), 1), LONGEST_PROMPT)


def _with_lengths(path: Path) -> RecordedTrace:
    trace = read_trace(path.expanduser())
    if not trace.tokens_in:
        raise WorkloadError(
            f"the trace {path} has only arrival times, no lengths of prompts and answers",
            hint="give `prompts: {tokens: ...}`, or a trace with lengths",
        )
    return trace


def read_prompts(path: Path) -> Sequence[str]:
    """Read the prompts from a file of JSON lines.

    Raises:
        WorkloadError: It can't be read, or a line has no prompt.
    """
    try:
        lines = opening.read_bytes(path.expanduser(), most=LARGEST_FILE).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = opening.why(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise WorkloadError(f"the prompts in {path} can't be read: {why}") from None
    prompts = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        text = _prompt_of(line)
        if not text:
            raise WorkloadError(
                f"{path}:{number} has no prompt",
                hint="each line is an object with `prompt`, `text`, `messages` or `conversations`",
            )
        prompts.append(text)
    if not prompts:
        raise WorkloadError(f"{path} has no prompts")
    return prompts


def _prompt_of(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, dict):
        return None
    for key in ("prompt", "text"):
        if isinstance(entry.get(key), str):
            return str(entry[key])
    for key, who, content in (("messages", "role", "content"), ("conversations", "from", "value")):
        turns = [turn for turn in entry[key] if isinstance(turn, dict)] if isinstance(entry.get(key), list) else []
        users = [turn for turn in turns if turn.get(who) in _USERS]
        for turn in users or turns[:1]:
            return _text_of(turn.get(content))
    return None


def _text_of(content: object) -> str | None:
    """The text of a message, which may have parts, for example an image beside it."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return " ".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) else None


Message = dict[str, str]


@dataclass(slots=True)
class Conversation:
    """What has been said so far."""

    messages: list[Message] = field(default_factory=list)
    turns: int = 0

    def asked(self, prompt: str) -> list[Message]:
        """The messages of the next turn."""
        self.messages.append({"role": "user", "content": prompt})
        return list(self.messages)

    def answered(self, text: str) -> None:
        """End the turn."""
        self.messages.append({"role": "assistant", "content": text})
        self.turns += 1


class Conversations:
    """The conversations of a tenant: a request continues the longest waiting, or starts another.

    The load decides when requests come, so there are as many conversations as requests in flight, plus those waiting
    for their next turn. A conversation whose turn failed is over.
    """

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._waiting: deque[Conversation] = deque()

    def take(self) -> Conversation:
        """Take a conversation for a request, exclusively until it is returned."""
        return self._waiting.popleft() if self._waiting else Conversation()

    def give_back(self, conversation: Conversation) -> None:
        """Return it after its answer: it waits for its next turn, unless that was the last."""
        if conversation.turns < self._turns:
            self._waiting.append(conversation)
