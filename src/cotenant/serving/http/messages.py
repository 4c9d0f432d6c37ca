"""Requests and replies as values."""

import json
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pydantic_core

from cotenant.errors import BadInput

JSON = "application/json"


class Request(NamedTuple):
    """One HTTP request; header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

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
