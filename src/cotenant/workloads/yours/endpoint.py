"""`http://host:port/path`: any server, as a black box under our load."""

import json
import mimetypes
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from cotenant import opening
from cotenant.clients.address import read_address, unreachable
from cotenant.clients.http11 import AnswerTiming, refused
from cotenant.clients.openai_stream import AnswerTokens
from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import SENT, Built, Mark, Place, WorkloadSpec
from cotenant.workloads.servers.client import HttpClient, ServerOptions, ServerPlace, built, check_start, running, stand
from cotenant.workloads.spec_options import Opaque, StatedOptions, read_options, refuse_unused

PREFIX = "http:"
NUMBER = "{{number}}"
"""In a body: replaced by the number of the request, so that all differ."""
LARGEST_BODY = 64 << 20
_REACH_LIMIT_S = 3.0
_WITH_BODY = ("POST", "PUT", "PATCH")


class EndpointOptions(ServerOptions):
    """The request that is repeated, and what counts as an answer."""

    method: str = Field(default="POST", pattern=r"^[A-Za-z]{1,20}$")
    body: str | dict[str, Any] | list[Any] | None = None
    """Text as it is; a mapping or list as JSON; None: for POST, PUT and PATCH a JSON object with batch and seq."""
    body_file: str | None = None
    """The body in a file, as it is; the suffix of its name determines the content type."""
    timeout_s: float = Field(default=30.0, gt=0)
    """Timeout of a request, from connecting to the end of its answer."""
    expect_status: int | None = Field(default=None, ge=100, le=599)
    """None for any 2xx."""

    @field_validator("method")
    @classmethod
    def _upper(cls, method: str) -> str:
        return method.upper()

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if self.body is not None and self.body_file is not None:
            raise ValueError("give `body` or `body_file`, not both")
        return self


@dataclass(frozen=True, slots=True)
class Endpoint(Opaque):
    """The same request repeatedly, several at once if the load says so."""

    options: ClassVar[type[StatedOptions]] = EndpointOptions
    about: str = "an HTTP server as a black box"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse a malformed address, and an address where nothing is listening."""
        self.check_unexecuted(spec)
        if spec.server is not None:
            check_start(spec)
            return
        address = read_address(self.name)
        try:
            socket.create_connection((address.host, address.port), timeout=_REACH_LIMIT_S).close()
        except (OSError, UnicodeError) as error:
            raise unreachable(address, error) from error

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Refuse a malformed address; return what is unknown without connecting."""
        refuse_unused(spec, used={"seq", "dtype", "server"})
        _body(spec, read_options(spec, EndpointOptions))
        if spec.server is not None:
            self._path()
            return f"{self.name}: its server was not started, so whether it answers is unknown"
        read_address(self.name)
        return f"{self.name} was not contacted: whether anything listens there is unknown"

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (a server has its own device)
        """Have the server ready; the first request is sent during warm-up."""
        self.check_unexecuted(spec)
        options = read_options(spec, EndpointOptions)
        body = _body(spec, options)
        standing, target = self._stand(spec)
        client = EndpointClient(standing, spec, options, target, body)
        facts = {
            "method": options.method,
            "request_bytes": len(body or b""),
        }
        return built(spec, options, standing, client, facts)

    def _stand(self, spec: WorkloadSpec) -> tuple[ServerPlace, str]:
        if spec.server is None:
            address = read_address(self.name)
            return running(spec, address, None), address.target
        return stand(spec.model_copy(update={"name": PREFIX}), PREFIX), self._path()

    def _path(self) -> str:
        path = self.name.removeprefix(PREFIX)
        if not path.startswith("/") or path.startswith("//") or not path.isascii() or " " in path:
            raise WorkloadError(
                f"`{self.name}` names an address, but `server` starts one on a port that cotenant chooses",
                hint="write only the path: `workload: http:/predict`",
            )
        return path


class EndpointClient(HttpClient):
    """Sends a request, and accepts any answer with the expected status."""

    slots: tuple[str, ...] = ("send", "wait", "receive")
    first_output: int | None = 1

    def __init__(
        self, standing: ServerPlace, spec: WorkloadSpec, options: EndpointOptions, target: str, body: bytes | None
    ) -> None:
        kind = _content_type(options)
        headers = {} if kind is None else {"Content-Type": kind}
        super().__init__(standing, options, spec.server.warm if spec.server else 0, headers)
        self._options, self._target, self._body = options, target, body
        self._numbered = body is not None and NUMBER.encode() in body
        self._sent = 0

    async def request(self, number: int, mark: Mark) -> AnswerTokens:  # noqa: ARG002 (counted over windows)
        """Send it, wait for the first bytes, receive the rest."""
        body, timing, heard = self._body, AnswerTiming(), False
        if self._numbered and body is not None:
            body = body.replace(NUMBER.encode(), str(self._sent).encode())
        self._sent += 1

        def hear(_: bytes) -> None:
            nonlocal heard
            if not heard:
                heard = True
                mark(1, timing.arrived_ns)

        def sent() -> None:
            mark(SENT, timing.sent_ns)
            mark(0, time.monotonic_ns())

        reply = await self.connections.send(self._options.method, self._target, body, hear, sent=sent, timing=timing)
        if not heard:
            mark(1, timing.arrived_ns)
        mark(2, timing.arrived_ns)
        expected = self._options.expect_status
        if reply.status != expected if expected else not reply.ok:
            raise refused(self.standing.address.name, reply)
        return AnswerTokens()


def _content_type(options: EndpointOptions) -> str | None:
    """None where only the user knows: text, and files without a known suffix."""
    if options.body_file is not None:
        kind, packed = mimetypes.guess_type(options.body_file)
        return None if packed else kind
    return None if isinstance(options.body, str) or options.method not in _WITH_BODY else "application/json"


def _body(spec: WorkloadSpec, options: EndpointOptions) -> bytes | None:
    if options.body_file is not None:
        path = Path(options.body_file).expanduser()
        try:
            return opening.read_bytes(path, most=LARGEST_BODY)
        except OSError as error:
            raise WorkloadError(f"the body in {path} can't be read: {opening.why(error)}") from None
    if isinstance(options.body, str):
        return options.body.encode()
    if options.body is not None:
        return json.dumps(options.body).encode()
    if options.method in _WITH_BODY:
        return json.dumps({"batch": spec.batch, "seq": spec.seq, "dtype": spec.dtype, "seed": spec.seed}).encode()
    return None
