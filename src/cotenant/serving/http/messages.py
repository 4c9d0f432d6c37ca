"""Requests and replies as values, and the head of a reply as bytes."""

import http
import json
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pydantic_core

from cotenant.errors import BadInput

JSON = "application/json"
RETRY_AFTER_S = "1"
"""When a refused client may come back, where nothing better is known."""
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in http.HTTPStatus}


class Request(NamedTuple):
    """One HTTP request; header names are lower case, the path is as it was sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: str = ""

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
        raise BadInput(f"The body isn't valid JSON: {_said(body) or error}.") from None
    if not isinstance(data, dict):
        raise BadInput("The body must be a JSON object.")
    return data


def _said(body: bytes | memoryview) -> str | None:
    """What Python's own decoder, which is slower, says is wrong; None if it finds nothing."""
    try:
        _DECODER.decode(str(body, "utf-8"))
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
