"""One request to a backend, and its reply."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cotenant.clients.framing import Reply

Piece = Reply | bytes


@dataclass(frozen=True, slots=True)
class Errand:
    """A request; ``take`` gets the head of the answer, then its body in pieces."""

    target: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    take: Callable[[Piece], None] = lambda _: None
