"""Parses HTTP/1.1 answers: a head, and a body by length, in chunks, or up to the connection's end.

Written for clients that time tokens: what has arrived is passed on in as few steps as it has pieces. Only what
an answer may contain is accepted; anything else is `NotHttp`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST_HEAD = 64 << 10
_NO_BODY = (204, 304)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~\w-]+):([^\x00-\x08\x0a-\x1f\x7f]*)", re.ASCII)
_STATUS = re.compile(r"[1-5][0-9]{2}")
_ONCE = ("content-length", "transfer-encoding")
"""Headers that decide where an answer ends."""
_LENGTH = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?", re.DOTALL)


class NotHttp(Exception):
    """The bytes are not an HTTP/1.1 answer."""


@dataclass(slots=True)
class HttpReply:
    """The head of an answer, and its body where no sink took it."""

    status: int = 0
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """By lower-case name."""
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Any 2xx."""
        return 200 <= self.status < 300


class Framing:
    """One answer after another on one connection; `begin` before each."""

    __slots__ = ("_body", "_head", "_pending", "_state", "chunked", "done", "keep", "left", "reply")

    def __init__(self, head: Callable[[HttpReply], None], body: Callable[[bytes], None]) -> None:
        self._head, self._body = head, body
        """Called with the complete head, and with each piece of the body."""
        self._pending = b""
        self.begin(to_head=False)

    def begin(self, *, to_head: bool) -> None:
        """A request was sent; the answer to HEAD never has a body."""
        self.reply = HttpReply()
        self.done = self.keep = False
        """True once it is complete and the connection can be reused."""
        self.chunked = False
        """True once its head says that the body comes in chunks."""
        self.left = 0
        """What is announced of the body and hasn't arrived."""
        self._state = "bare head" if to_head else "head"

    def feed(self, data: bytes) -> None:
        """Process the next bytes. Raises NotHttp."""
        data = self._pending + data if self._pending else data
        self._pending = b""
        while data and not self.done:
            match self._state:
                case "length":
                    data = self._by_length(data)
                case "chunk":
                    data = self._in_chunk(data)
                case "size":
                    data = self._chunks(data)
                case "trailer":
                    data = self._trailer(data)
                case "rest":
                    self._body(data)
                    return
                case _:
                    data = self._whole_head(data)

    def end(self) -> bool:
        """The connection has ended: return whether that completes the answer."""
        if self._state == "rest":
            self.done = True
        return self.done

    def _wait(self, data: bytes) -> bytes:
        """Keep incomplete data for the next piece."""
        if len(data) > LONGEST_HEAD:
            raise NotHttp(f"a head or a line of more than {LONGEST_HEAD >> 10} KiB")
        self._pending = data
        return b""

    def _whole_head(self, data: bytes) -> bytes:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if not data.startswith(b"HTTP/1."[: len(data)]):
                raise NotHttp(f"it begins with {data[:24]!r}")
            return self._wait(data)
        first, *lines = data[:end].decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code, _, reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not _STATUS.fullmatch(code):
            raise NotHttp(f"it begins with {first[:40]!r}")
        headers: dict[str, str] = {}
        for line in lines:
            header = _HEADER.fullmatch(line)
            if header is None:
                raise NotHttp(f"a header is {line[:40]!r}")
            name, value = header[1].lower(), header[2].strip(" \t")
            if name in _ONCE and headers.get(name, value) != value:
                raise NotHttp(f"it has two values of {name}")
            headers[name] = value
        if code[0] == "1":
            return data[end + 4 :]  # interim; the answer follows
        self.reply = HttpReply(int(code), reason, headers)
        connection = headers.get("connection", "").lower()
        self.keep = connection != "close" if version == "HTTP/1.1" else connection == "keep-alive"
        self._choose_body(bare=self._state == "bare head")
        self._head(self.reply)
        return data[end + 4 :]

    def _choose_body(self, *, bare: bool) -> None:
        headers = self.reply.headers
        if bare or self.reply.status in _NO_BODY:
            self.done = True
        elif "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                raise NotHttp(f"its transfer encoding is {headers['transfer-encoding'][:20]!r}")
            self._state, self.chunked = "size", True
            self.keep = self.keep and "content-length" not in headers
        elif "content-length" in headers:
            if not _LENGTH.fullmatch(headers["content-length"]):
                raise NotHttp(f"its length is {headers['content-length'][:20]!r}")
            self.left, self._state = int(headers["content-length"]), "length"
            self.done = self.left == 0
        else:
            self._state, self.keep = "rest", False

    def _by_length(self, data: bytes) -> bytes:
        piece, rest = data[: self.left], data[self.left :]
        self.left -= len(piece)
        self.done = self.left == 0
        self._body(piece)
        return rest

    def _chunks(self, data: bytes) -> bytes:
        """Pass on the complete chunks as one piece, since they arrived together, and begin an incomplete one."""
        bodies, at = [], 0
        while at < len(data) and self._state == "size":
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            size = _size(data[at:end])
            begin, after = end + 2, end + 2 + size
            if not size:
                self._state, at = "trailer", begin
            elif len(data) < after + 2:
                self.left, self._state, at = size + 2, "chunk", begin
            elif data[after : after + 2] != b"\r\n":
                raise NotHttp("a chunk is longer than it says")
            else:
                bodies.append(data[begin:after])
                at = after + 2
        if bodies:
            self._body(bodies[0] if len(bodies) == 1 else b"".join(bodies))
        return data[at:] if self._state != "size" else self._wait(data[at:])

    def _in_chunk(self, data: bytes) -> bytes:
        """Pass on the available part of a chunk, without the line end after it."""
        left = self.left
        if len(data) < left:
            inside = min(len(data), left - 2)
            if inside <= 0:
                return self._wait(data)
            self.left -= inside
            self._body(data[:inside])
            return self._wait(data[inside:]) if inside < len(data) else b""
        if data[left - 2 : left] != b"\r\n":
            raise NotHttp("a chunk is longer than it says")
        self._state, self.left = "size", 0
        if left > 2:
            self._body(data[: left - 2])
        return data[left:]

    def _trailer(self, data: bytes) -> bytes:
        end = data.find(b"\r\n")
        if end < 0:
            return self._wait(data)
        self.done = end == 0
        return data[end + 2 :]


def _size(line: bytes) -> int:
    """The length of a chunk, in hexadecimal, before any extensions."""
    size = _SIZE.fullmatch(line)
    if size is None:
        raise NotHttp(f"a chunk has the size {line[:20]!r}")
    return int(size[1], 16)
