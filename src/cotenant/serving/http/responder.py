"""What answers the requests of a server, and the limits of its clients."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from cotenant.serving.http.messages import Reply, Request
from cotenant.serving.http.parsing import RequestHead
from cotenant.serving.http.problems import reply_to, status_of

log = logging.getLogger(__name__)

Answer = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits per client and of all clients together. They apply while bytes arrive, before memory is used."""

    body: int = 64 * 2**20
    bodies: int = 512 * 2**20
    """Of all bodies in flight together. Bodies of up to 64 KiB don't count: they always get in."""
    head: int = 64 * 2**10
    path: int = 2048
    connections: int = 1024
    per_address: int = 768
    """Connections of one address, so that no client can take them all."""
    idle_s: float = 75.0
    """Time limit of a connection between two requests."""
    head_s: float = 15.0
    """Time limit for sending the entire head."""
    body_s: float = 30.0
    """Time limit for sending the entire body."""
    send_s: float = 60.0
    """Time limit of a client that doesn't read its answer."""


class Responder(ABC):
    """Answers requests."""

    @abstractmethod
    def find(self, head: RequestHead) -> Answer:
        """What will answer a request, by its head alone. Raises to refuse it before its body is read."""

    def problem(self, error: Exception, head: RequestHead | None) -> Reply:
        """The answer to a request that failed; without a head it could not even be read."""
        path = "" if head is None else head.path
        if status_of(error) == 500:
            log.error("%s %s failed", "" if head is None else head.method, path[:200], exc_info=error)
        return reply_to(error, openai=path.startswith("/v1/"))

    def marks(self) -> Mapping[str, str]:
        """Headers of every answer."""
        return {}
