"""Parses HTTP/1.1 answers: a head, and a body by length, in chunks, or up to the connection's end.

Written for clients that time tokens: what has arrived is passed on in as few steps as it has pieces. Only what
an answer may contain is accepted; anything else is `NotHttp`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST_HEAD = 64 << 10
_NO_BODY = (204, 304)


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

    __slots__ = ("_body", "_head", "_left", "_pending", "_state", "chunked", "done", "keep", "reply")

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
        self._left = 0
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
        if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdigit():
            raise NotHttp(f"it begins with {first[:40]!r}")
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise NotHttp(f"a header is {line[:40]!r}")
            headers[name.lower()] = value.strip()
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
        elif headers.get("transfer-encoding", "").lower().endswith("chunked"):
            self._state, self.chunked = "size", True
        elif "content-length" in headers:
            if not headers["content-length"].isdigit():
                raise NotHttp(f"its length is {headers['content-length'][:20]!r}")
            self._left, self._state = int(headers["content-length"]), "length"
            self.done = self._left == 0
        else:
            self._state, self.keep = "rest", False

    def _by_length(self, data: bytes) -> bytes:
        piece, rest = data[: self._left], data[self._left :]
        self._left -= len(piece)
        self.done = self._left == 0
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
                self._left, self._state, at = size + 2, "chunk", begin
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
        left = self._left
        if len(data) < left:
            inside = min(len(data), left - 2)
            if inside <= 0:
                return self._wait(data)
            self._left -= inside
            self._body(data[:inside])
            return self._wait(data[inside:]) if inside < len(data) else b""
        if data[left - 2 : left] != b"\r\n":
            raise NotHttp("a chunk is longer than it says")
        self._state = "size"
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
    try:
        size = int(line.partition(b";")[0] if b";" in line else line, 16)
    except ValueError:
        size = -1
    if size < 0:
        raise NotHttp(f"a chunk has the size {line[:20]!r}")
    return size
