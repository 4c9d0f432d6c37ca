"""Requests and replies as values, errors as replies, and who answers."""

import http
import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import pydantic_core

from cotenant.errors import BackendTimeout, BadInput, CotenantError, Refused, RequestFailed
from cotenant.scheduling import Why

JSON = "application/json"
RETRY_AFTER_S = "1"
"""When a refused client may come back, where nothing better is known."""
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in http.HTTPStatus}


ID_MOST = 128
"""Characters of a client's name for its request."""


class ConnectionPhase(Enum):
    """What a connection waits for."""

    HEAD = 1
    BODY = 2
    ANSWER = 3
    CLOSING = 4
    """What still arrives is dropped."""


class HttpRequest(NamedTuple):
    """A request: first its head and how its body is framed; for whoever answers, the body without the framing."""

    method: str
    path: str
    """As sent, still quoted: `%2f` belongs to a name and doesn't separate two."""
    headers: Mapping[str, str]
    """By lower-case name; the values of a repeated header are joined by commas."""
    body: bytes = b""
    query: str = ""
    minor: int = 1
    """0 or 1, of HTTP/1.x."""
    length: int = 0
    chunked: bool = False
    keep: bool = True
    """Whether the client lets the connection stay open."""
    expects: bool = False
    """Whether the client waits for `100 Continue` before it sends the body."""
    raw: bytes = b""
    """The head as it was sent."""

    def json(self) -> dict[str, Any]:
        """The body as a mapping. Raises BadInput."""
        return read_json(self.body)


class Reply(NamedTuple):
    """One answer: a body, or a stream of pieces."""

    status: int = 200
    body: bytes = b""
    kind: str = JSON
    headers: Mapping[str, str] = MappingProxyType({})
    pieces: AsyncIterator[bytes] | None = None


def write_head(reply: Reply, own: Mapping[str, str], *, old: bool, keep: bool) -> bytes:
    """The head of an answer.

    Args:
        reply: The answer; its headers take precedence.
        own: Headers of the server.
        old: The client speaks HTTP/1.0, which has no chunks.
        keep: The connection stays open.

    Raises:
        ValueError: A header contains a line break, or characters that can't be sent.
    """
    status = reply.status
    headers = {"content-type": reply.kind, **own, **reply.headers}
    if status == 503:
        headers.setdefault("retry-after", RETRY_AFTER_S)
    if reply.pieces is None:
        if status not in (204, 304):
            headers["content-length"] = str(len(reply.body))
    else:
        headers["cache-control"] = "no-store"
        if not old:
            headers["transfer-encoding"] = "chunked"
    if old or not keep:
        headers["connection"] = "keep-alive" if keep else "close"
    lines = [
        _STATUS_LINES.get(status) or f"HTTP/1.1 {status} ",
        *[f"{name}: {value}" for name, value in headers.items()],
    ]
    head = "\r\n".join(lines)
    if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1:
        raise ValueError("a header contains a line break")
    return (head + "\r\n\r\n").encode("latin-1")


def request_id(head: HttpRequest | None) -> str | None:
    """The client's own name for its request, if it is a harmless one."""
    given = head.headers.get("x-request-id") if head is not None else None
    return given if given and len(given) <= ID_MOST and given.isascii() and given.isprintable() else None


def in_json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer in JSON."""
    return Reply(status, to_json(data), headers=headers or {})


def to_json(data: Any) -> bytes:
    """Compact JSON."""
    return pydantic_core.to_json(data)


def read_json(body: bytes | memoryview) -> dict[str, Any]:
    """Parse a JSON object strictly: no NaN, no deep nesting. Raises BadInput."""
    try:
        data = pydantic_core.from_json(bytes(body), allow_inf_nan=False)
    except ValueError as error:
        raise BadInput(f"The body isn't valid JSON: {_reason(body) or error}.") from None
    if not isinstance(data, dict):
        raise BadInput("The body must be a JSON object.")
    return data


def _reason(body: bytes | memoryview) -> str | None:
    """What Python's own decoder, which is slower, says is wrong; None if it finds nothing."""
    try:
        _DECODER.decode(str(body, "utf-8"))
    except json.JSONDecodeError as error:
        return str(error)
    except UnicodeDecodeError:
        return "it isn't UTF-8"
    except ValueError as error:
        return "a number has too many digits" if "digits" in str(error) else str(error)
    except RecursionError:
        return "it is nested too deeply"
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


# Errors as a status, headers and each protocol's own error object.

_STATUS: dict[str, int] = {
    Why.PAUSED: 503,
    Why.WORKER_LOST: 503,
    "draining": 503,
    Why.TOO_LARGE: 413,
    Why.UNKNOWN_TENANT: 404,
    Why.REMOVED: 404,
}
"""Statuses of refusals; the others are 429."""
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""OpenAI's types of errors, besides those of all 4xx and all 5xx."""


class Status(CotenantError):
    """A plain HTTP status with a sentence; ``param`` and ``code`` as in OpenAI's errors."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str | None = None,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers or {}


def reply_to(error: Exception, *, openai: bool) -> Reply:
    """The error answer."""
    status = status_of(error)
    headers = dict(error.headers) if isinstance(error, Status) else {}
    message = error.message if isinstance(error, CotenantError) else "Internal server error; see the server's log."
    if isinstance(error, CotenantError) and error.hint:
        message = f"{message} {error.hint}"
    if isinstance(error, Refused | BackendTimeout) and error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
        headers["retry-after-ms"] = str(max(1, math.ceil(error.retry_after_s * 1e3)))
    if isinstance(error, Refused):
        headers["x-cotenant-why"] = error.why.replace(" ", "-")
        headers["x-cotenant-predicted-wait-ms"] = f"{error.predicted_wait_s * 1e3:.1f}"
    return in_json(_openai(error, message, status) if openai else {"error": message}, status, headers)


def status_of(error: Exception) -> int:
    """The HTTP status of an error."""
    match error:
        case Status():
            return error.status
        case BadInput():
            return 400
        case BackendTimeout():
            return 504
        case RequestFailed():
            return 502
        case Refused():
            return _STATUS.get(error.why, 429)
    return 500


def _openai(error: Exception, message: str, status: int) -> dict[str, Any]:
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    param, code = getattr(error, "param", None), getattr(error, "code", None)
    if isinstance(error, Refused):
        code = error.why.replace(" ", "_")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


# What answers the requests of a server, and the limits of its clients.

log = logging.getLogger(__name__)

Answer = Callable[[HttpRequest], Awaitable[Reply]]


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
    """Connections of an address, so that no client can take them all."""
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
    def find(self, head: HttpRequest) -> Answer:
        """What will answer a request, by its head alone. Raises to refuse it before its body is read."""

    def problem(self, error: Exception, head: HttpRequest | None) -> Reply:
        """The answer to a request that failed; without a head it could not even be read."""
        path = "" if head is None else head.path
        if status_of(error) == 500:
            log.error("%s %s failed", "" if head is None else head.method, path[:200], exc_info=error)
        return reply_to(error, openai=path.startswith("/v1/"))

    def marks(self) -> Mapping[str, str]:
        """Headers of every answer."""
        return {}
