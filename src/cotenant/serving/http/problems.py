"""Errors as a status, headers and each protocol's own error object."""

import math
from collections.abc import Mapping
from typing import Any

from cotenant.errors import BackendTimeout, BadInput, CotenantError, Refused, RequestFailed
from cotenant.scheduling import Why
from cotenant.serving.http.messages import Reply, in_json

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
