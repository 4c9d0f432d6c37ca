"""One request on its way to a backend, and what comes back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cotenant.workloads.servers.framing import Reply

Piece = Reply | bytes


@dataclass(frozen=True, slots=True)
class Errand:
    """What is sent; ``take`` gets the head of the answer, then its body as it comes."""

    target: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    take: Callable[[Piece], None] = lambda _: None
