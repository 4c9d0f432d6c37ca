"""`http://host:port/path`: any server, as a black box under our load."""

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator

from cotenant.errors import WorkloadError
from cotenant.workloads.options import read_options, refuse_unused
from cotenant.workloads.protocol import Built, Place, Properties, Stage, WorkloadSpec
from cotenant.workloads.yours.stated import FAMILY, UNKNOWN_DTYPE, StatedOptions

_REACH_LIMIT_S = 3.0
_CHUNK = 1 << 16
_DROPPED = (ConnectionError, http.client.BadStatusLine)
"""How a server that has closed an idle connection shows; RemoteDisconnected is a BadStatusLine too."""


class EndpointOptions(StatedOptions):
    """The request that is sent again and again, and what counts as an answer."""

    method: str = Field(default="POST", pattern=r"^[A-Za-z]{1,20}$")
    body: str | dict[str, Any] | list[Any] | None = None
    """Text as it is; a mapping or list as JSON; None: for POST, PUT and PATCH a JSON object with batch and seq."""
    headers: dict[str, str] = Field(default_factory=dict)
    timeout_s: float = Field(default=30.0, gt=0)
    """For connecting and for each wait for more bytes."""
    expect_status: int | None = Field(default=None, ge=100, le=599)
    """None: any 2xx."""

    @field_validator("method")
    @classmethod
    def _upper(cls, method: str) -> str:
        return method.upper()

    @field_validator("headers")
    @classmethod
    def _plain(cls, headers: dict[str, str]) -> dict[str, str]:
        for key, value in headers.items():
            if not key or not (key + value).isascii() or not (key + value).isprintable() or ":" in key:
                raise ValueError(f"the header {key!r} is not plain text on one line")
        return headers


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One request after the other over one kept connection."""

    name: str
    family: str = FAMILY
    dtype: None = None
    about: str = "an HTTP server as a black box"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse a malformed address, and one where nothing listens now."""
        self.check_unexecuted(spec)
        address = self._address()
        try:
            socket.create_connection((address.hostname or "", _port(address)), timeout=_REACH_LIMIT_S).close()
        except (OSError, UnicodeError) as error:
            raise _unreachable(self.name, error) from error

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Refuse a malformed address; gives what can't be known without connecting to it."""
        refuse_unused(spec, used={"seq", "dtype"})
        read_options(spec, EndpointOptions)
        self._address()
        return f"{self.name} was not contacted: whether anything listens there is not known"

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Only what the user states."""
        return read_options(spec, EndpointOptions).stated.properties()

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (a server has its own device)
        """Connect, and see one request through."""
        refuse_unused(spec, used={"seq", "dtype"})
        options = read_options(spec, EndpointOptions)
        client = Client(self.name, self._address(), options, _body(spec, options))
        try:
            client.send(None)
            answer = client.receive(client.wait(None))
        except OSError as error:
            client.close()
            raise _unreachable(self.name, error) from error
        except BaseException:
            client.close()
            raise
        return Built(
            stages=(
                Stage("send", client.send),
                Stage("wait", client.wait, first_output=True),
                Stage("receive", client.receive),
            ),
            dtype=spec.dtype or UNKNOWN_DTYPE,
            weights=UNKNOWN_DTYPE,
            seq=spec.seq,
            facts={
                "address": self.name,
                "method": options.method,
                "request_bytes": len(client.body or b""),
                "answer_bytes": len(answer),
                "server": client.server,
                "stated": options.stated.model_dump(exclude_none=True),
            },
            close=client.close,
        )

    def _address(self) -> SplitResult:
        try:
            address = urlsplit(self.name)
            _port(address)
        except ValueError as error:
            raise WorkloadError(f"`{self.name}` is not an address: {str(error).lower()}") from None
        if not address.hostname or not self.name.isascii() or not self.name.isprintable() or " " in self.name:
            raise WorkloadError(
                f"`{self.name}` is not an address", hint="write it as `http://host:port/path`, without spaces"
            )
        if address.username is not None:
            raise WorkloadError(
                "an address with a user name or password in it would be written into every record",
                hint="use `params: {headers: {Authorization: ...}}`",
            )
        return address


class Client:
    """A kept connection, one request at a time."""

    def __init__(self, name: str, address: SplitResult, options: EndpointOptions, body: bytes | None) -> None:
        self._name = name
        self._options = options
        self.body = body
        self._target = (address.path or "/") + (f"?{address.query}" if address.query else "")
        self._headers = {**_default_headers(options), **options.headers}
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(address.hostname or "", _port(address), timeout=options.timeout_s)
        self._answered = 0
        """Requests that this connection has already answered."""
        self.server: str | None = None

    def send(self, _: Any) -> None:
        """Write the request, over a new connection where the server has closed the last one."""
        try:
            self._write()
        except _DROPPED:
            if not self._answered:
                self.close()
                raise
            self.close()
            self._write()
        except BaseException:
            self.close()
            raise

    def wait(self, _: Any) -> tuple[http.client.HTTPResponse, bytes]:
        """Until the first bytes of the answer's body are here (its end, if it has none)."""
        try:
            try:
                response = self._connection.getresponse()
            except _DROPPED:
                # A server may close an idle connection just as we write: only then is the request sent once more.
                if not self._answered:
                    raise
                self.close()
                self._write()
                response = self._connection.getresponse()
            return response, response.read1(_CHUNK)
        except TimeoutError:
            self.close()
            raise WorkloadError(
                f"`{self._name}` sent no answer within {self._options.timeout_s:g} s",
                hint="`params: {timeout_s: ...}` waits longer",
            ) from None
        except http.client.HTTPException as error:
            self.close()
            raise WorkloadError(f"`{self._name}` does not answer in HTTP: {_said(error)}") from error
        except BaseException:
            self.close()
            raise

    def receive(self, begun: tuple[http.client.HTTPResponse, bytes]) -> bytes:
        """The rest of the answer; a status that is not expected fails the request."""
        response, first = begun
        try:
            answer = first + response.read()
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError | http.client.HTTPException):
                raise WorkloadError(f"`{self._name}` broke off in the middle of an answer: {_said(error)}") from error
            raise
        # The library closes a connection that the server does not keep, and the next request opens a new one.
        self._answered = self._answered + 1 if self._connection.sock else 0
        self.server = response.headers.get("Server")
        expected = self._options.expect_status
        if response.status != expected if expected else not 200 <= response.status < 300:
            excerpt = answer[:200].decode(errors="replace").strip().splitlines()
            raise WorkloadError(
                f"`{self._name}` answered {response.status} {response.reason}{f': {excerpt[0]}' if excerpt else ''}",
                hint=f"it redirects to {response.headers['Location']}: name that address"
                if response.headers.get("Location")
                else "look at the server's log, or set `params: {method, body, headers, expect_status}`",
            )
        return answer

    def close(self) -> None:
        """Drop the connection; the next request would open a new one."""
        self._answered = 0
        self._connection.close()

    def _write(self) -> None:
        self._connection.request(self._options.method, self._target, body=self.body, headers=self._headers)


def _body(spec: WorkloadSpec, options: EndpointOptions) -> bytes | None:
    if isinstance(options.body, str):
        return options.body.encode()
    if options.body is not None:
        return json.dumps(options.body).encode()
    if options.method in ("POST", "PUT", "PATCH"):
        return json.dumps({"batch": spec.batch, "seq": spec.seq, "dtype": spec.dtype, "seed": spec.seed}).encode()
    return None


def _default_headers(options: EndpointOptions) -> Mapping[str, str]:
    sends_json = not isinstance(options.body, str) and options.method in ("POST", "PUT", "PATCH")
    return {"User-Agent": "cotenant", **({"Content-Type": "application/json"} if sends_json else {})}


def _port(address: SplitResult) -> int:
    return address.port or (443 if address.scheme == "https" else 80)


def _unreachable(name: str, error: Exception) -> WorkloadError:
    return WorkloadError(
        f"nothing answers at `{name}`: {_said(error)}", hint="start the server first, and check host and port"
    )


def _said(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:].rstrip(".")
