"""Conversations: each request is a turn that carries everything said before it."""

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
        """End the turn."""
        self.messages.append({"role": "assistant", "content": text})
        self.turns += 1


class Conversations:
    """The conversations of one tenant: a request continues the one that has waited longest, or starts a new one.

    The load decides when requests come, so there are as many conversations as requests in flight, plus those waiting
    for their next turn. A conversation whose turn failed is over.
    """

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._waiting: deque[Conversation] = deque()

    def take(self) -> Conversation:
        """Take one for a request, exclusively until it is returned."""
        return self._waiting.popleft() if self._waiting else Conversation()

    def give_back(self, conversation: Conversation) -> None:
        """Return it after its answer: it waits for its next turn, unless that was the last."""
        if conversation.turns < self._turns:
            self._waiting.append(conversation)
