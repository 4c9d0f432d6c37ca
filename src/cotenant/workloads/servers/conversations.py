"""Conversations: each request is a turn, and carries all that was said before it."""

from collections import deque
from dataclasses import dataclass, field

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
        """The turn is over."""
        self.messages.append({"role": "assistant", "content": text})
        self.turns += 1


class Conversations:
    """Those of one tenant: a request goes on with the one that has waited longest, or begins a new one.

    The load says when requests come, so as many conversations are open as requests are under way, and those that wait
    for their next turn. A conversation whose turn failed is over.
    """

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._waiting: deque[Conversation] = deque()

    def take(self) -> Conversation:
        """For one request; nobody else has it until it is given back."""
        return self._waiting.popleft() if self._waiting else Conversation()

    def give_back(self, conversation: Conversation) -> None:
        """After its answer: it waits for the next turn, unless that was its last."""
        if conversation.turns < self._turns:
            self._waiting.append(conversation)
