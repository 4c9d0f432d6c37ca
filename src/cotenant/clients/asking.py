"""One request to a server before anything is measured, to check that it is there and of the right kind."""

import http.client
import json
from contextlib import suppress
from typing import Any

from cotenant.clients.address import Address
from cotenant.errors import WorkloadError

LIMIT_S = 5.0
_LARGEST = 8 << 20


class UnexpectedAnswer(WorkloadError):
    """Something answers, but not as a server of this kind should."""

    def __init__(self, status: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def ask(
    address: Address,
    path: str,
    headers: dict[str, str] | None = None,
    *,
    within_s: float = LIMIT_S,
    post: bytes | None = None,
    most: int = _LARGEST,
) -> tuple[int, bytes]:
    """Status and body of a GET, or of a POST with this body. Raises OSError or http.client.HTTPException.

    Of a longer body than ``most`` bytes, only so much is read.
    """
    kind = http.client.HTTPSConnection if address.tls else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=within_s)
    try:
        connection.request("GET" if post is None else "POST", path, body=post, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read(most)
    finally:
        connection.close()


def ask_json(address: Address, path: str, headers: dict[str, str] | None, *, what: str) -> Any:
    """The JSON a server of this kind returns there.

    Raises:
        WorkloadError: Nothing answers, or it is another kind of server.
    """
    try:
        status, body = ask(address, path, headers)
    except (OSError, UnicodeError) as error:
        raise unreachable(address, error) from None
    except http.client.HTTPException:
        raise WorkloadError(f"`{address.name}` does not answer in HTTP", hint=f"expected {what}") from None
    with suppress(ValueError):
        if 200 <= status < 300:
            return json.loads(body)
    raise UnexpectedAnswer(
        status,
        f"`{address.name}` is not {what}: GET {path} returns status {status} instead of the expected JSON",
        hint="check host, port and path; `http://...` drives any other server",
    )


def unreachable(address: Address, error: Exception) -> WorkloadError:
    """Nothing listens there."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    said = text[:1].lower() + text[1:].rstrip(".")
    return WorkloadError(
        f"nothing answers at `{address.name}`: {said}",
        hint="start the server first, or let cotenant start it: `server: {start: ...}`",
    )
