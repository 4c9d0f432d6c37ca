"""Requests from bytes, read strictly: whatever two servers could understand in two ways is refused.

Proxies, caches and servers that disagree about where a request ends, or to whom it goes, can be used to smuggle one
request inside another. So there is no tolerance here for what RFC 9112 lets a server tolerate: no bare line feeds, no
folded headers, no second `Host` or `Content-Length`, no length beside chunks. One exception: a single empty line before
a request is skipped, since some clients send it behind a body (RFC 9112, section 2.2).
"""

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from cotenant.serving.http.messages import HttpLimits, HttpRequest, Status

HEADERS_MOST = 256
LINE_MOST = 1024
"""Bytes in the line of a chunk's size, extensions included."""
TRAILERS_MOST = 8192
SMALL = 4096
"""Shorter pieces of a body are collected in one buffer, so that a byte at a time costs a byte."""
FREE = 1 << 16
"""Bodies up to this size are outside the common limit."""
EMPTY_LINE = (b"\r", b"\r\n")
"""A skipped line, as far as it has arrived."""
CODINGS = "gzip, deflate"
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""By content coding, what zlib calls it: `deflate` has zlib's header (RFC 9110, section 8.4.1.2)."""
_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rf"({_NAME}) ([!-~]+) HTTP/1\.([01])\r\n")
_FIELD = re.compile(rf"({_NAME}):[ \t]*([\t -~\x80-\xff]*)\r\n")
_HOST = re.compile(r"(?:[A-Za-z0-9\-._~%!$&'()*+,;=]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_ABSOLUTE = re.compile(r"https?://([^/?]+)(/[^?]*)?(?:\?(.*))?", re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,20}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~\x80-\xff]*)?")
_TRAILER = re.compile(rb"(?!(?i:content-length|transfer-encoding):)[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*")
_FIRST = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def head_ends(data: bytes | bytearray, begin: int = 0) -> int:
    """Where the head ends, behind its empty line; -1 if that hasn't arrived; ``begin``: bytes looked at before.

    Raises:
        Status: What has arrived can't become a head.
    """
    end = data.find(b"\r\n\r\n", max(0, begin - 3))
    if end >= 0:
        return end + 4
    if data and data[0] not in _FIRST:
        raise Status(400, "This isn't HTTP.")
    if data.count(b"\n", begin) != data.count(b"\r\n", max(0, begin - 1)):
        raise Status(400, "A line ends without a carriage return.")
    return -1


def complete_head(data: bytearray, scanned: int, limits: HttpLimits) -> tuple[HttpRequest | None, int]:
    """The head that begins these bytes, or None if more of it must arrive; and how many of them were looked at.

    One empty line before it is removed once more follows, so that empty lines don't keep a connection open.

    Raises:
        Status: It is too long, or wrong.
    """
    if data in EMPTY_LINE:
        return None, 0
    if scanned == 0 and data.startswith(b"\r\n"):
        del data[:2]
    end = head_ends(data, scanned)
    if end > limits.head or (end < 0 and len(data) > limits.head):
        within = b"\r\n" in data[: limits.head]
        raise Status(431, "The headers are too long.") if within else Status(414, "The path is too long.")
    return (None if end < 0 else read_head(bytes(data[:end]), longest_path=limits.path)), len(data)


def read_head(raw: bytes, *, longest_path: int) -> HttpRequest:
    """Parse a complete head, its empty line included.

    Raises:
        Status: It is malformed, ambiguous, or asks for what isn't offered.
    """
    text = raw.decode("latin-1")
    line = _REQUEST_LINE.match(text)
    if line is None:
        raise Status(400, "The first line isn't a request in HTTP/1.1 or HTTP/1.0.")
    method, target, minor = line[1], line[2], int(line[3])
    headers = _headers(text, line.end())
    path, query, authority = _target(method, target)
    host = headers.get("host")
    if host is None and minor:
        raise Status(400, "The header Host is missing.")
    if authority is not None:
        if host is not None and host.lower() != authority.lower():
            raise Status(400, "The target and the header Host name different servers.")
        headers["host"] = authority
    if len(path) > longest_path:
        raise Status(414, "The path is too long.")
    length, chunked = _framing(headers, minor)
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    keep = "close" not in options and (minor == 1 or "keep-alive" in options)
    expects = _expects(headers, minor)
    return HttpRequest(method, path, headers, b"", query, minor, length, chunked, keep, expects, raw)


def _headers(text: str, at: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    count, end = 0, len(text) - 2
    while at < end:
        field = _FIELD.match(text, at)
        if field is None:
            raise Status(400, "A line of the head isn't a header.")
        at, count = field.end(), count + 1
        name, value = field[1].lower(), field[2].rstrip(" \t")
        if name not in headers:
            headers[name] = value
        elif name in ("host", "content-length", "transfer-encoding", "content-type", "expect"):
            raise Status(400, f"The header {name} is repeated.")
        else:
            headers[name] = f"{headers[name]}, {value}"
    if count > HEADERS_MOST:
        raise Status(431, f"A request has at most {HEADERS_MOST} headers.")
    host = headers.get("host")
    if host is not None and _HOST.fullmatch(host) is None:
        raise Status(400, "The header Host isn't the name of a server.")
    return headers


def _target(method: str, target: str) -> tuple[str, str, str | None]:
    """Path, query and, if it names one, server of a request's target."""
    if "#" not in target:
        if target[0] == "/":
            path, _, query = target.partition("?")
            return path, query, None
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is not None and _HOST.fullmatch(absolute[1]) is not None:
            return absolute[2] or "/", absolute[3] or "", absolute[1]
        if target == "*" and method == "OPTIONS":
            return "*", "", None
    raise Status(400, "The target isn't a path.")


def _framing(headers: Mapping[str, str], minor: int) -> tuple[int, bool]:
    """Length of the body, and whether it comes in chunks."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None or minor == 0:
            raise Status(400, "The body has two lengths, or chunks in HTTP/1.0.")
        if coding.lower() != "chunked":
            raise Status(501, "The only transfer encoding here is chunked.")
        return 0, True
    if length is None:
        return 0, False
    if _LENGTH.fullmatch(length) is None:
        raise Status(400, "The header Content-Length isn't a number.")
    return int(length), False


def _expects(headers: Mapping[str, str], minor: int) -> bool:
    expected = headers.get("expect")
    if expected is None or minor == 0:
        return False
    if expected.lower() != "100-continue":
        raise Status(417, "The only expectation that can be met is 100-continue.")
    return True


class ArrivingBody:
    """The body of a request, as it arrives."""

    __slots__ = ("_chunks", "_length", "_pieces", "announced", "done", "size")

    def __init__(self, head: HttpRequest) -> None:
        self.done = False
        self.size = 0
        self.announced = head.length
        """How long it will be at least."""
        self._length = head.length
        self._chunks = Chunks() if head.chunked else None
        self._pieces: list[bytes | bytearray] = []

    def feed(self, data: bytes, at: int) -> int:
        """Read on from a position. Returns the position behind what belongs to the body. Raises Status."""
        if self._chunks is not None:
            at = self._chunks.feed(data, at, self._take)
            self.done, self.announced = self._chunks.done, self.size + self._chunks.left
            return at
        end = min(len(data), at + self._length - self.size)
        self._take(data[at:end] if at or end < len(data) else data)
        self.done = self.size == self._length
        return end

    def joined(self) -> bytes:
        """The complete body."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def _take(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(piece) >= SMALL:
            self._pieces.append(piece)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))


class HoldsBodies(Protocol):
    """What has bodies of many requests in memory."""

    body_bytes: int


class BodyShare:
    """A connection's part of the memory for the bodies of all; small ones are free."""

    __slots__ = ("_bodies", "_charged", "_limits")

    def __init__(self, bodies: HoldsBodies, limits: HttpLimits) -> None:
        self._bodies, self._limits, self._charged = bodies, limits, 0

    def check(self, size: int) -> None:
        """Raises Status if a body is too large by itself."""
        if size > self._limits.body:
            raise Status(413, f"A body has at most {self._limits.body} bytes.")

    def charge(self, size: int) -> None:
        """Count its body against the limit of all. Raises Status if it is too large, or all are together."""
        self.check(size)
        if size <= FREE:
            return
        if self._bodies.body_bytes + size - self._charged > self._limits.bodies:
            raise _no_room()
        self._take(size)

    def release(self) -> None:
        """The body is gone."""
        self._take(0)

    def decompressed(self, body: bytes, coding: str) -> bytes:
        """A body without its compression, if there is room for it. Raises Status."""
        if coding.lower() == "identity":
            return body
        room = max(FREE, self._limits.bodies - self._bodies.body_bytes)
        try:
            body = decompressed(body, coding, min(self._limits.body, room))
        except Status as problem:
            raise _no_room() if problem.status == 413 and room < self._limits.body else problem from None
        if len(body) > FREE:
            self._take(len(body))
        return body

    def _take(self, size: int) -> None:
        self._bodies.body_bytes += size - self._charged
        self._charged = size


def _no_room() -> Status:
    return Status(503, "All requests together are too large at the moment.")


def decompressed(body: bytes, coding: str, most: int) -> bytes:
    """A body without its compression; never makes more than ``most`` bytes.

    Raises:
        Status: It isn't compressed that way, in a way that isn't offered, or too large.
    """
    kind = coding.strip().lower()
    if kind not in _WINDOWS:
        raise Status(415, "A body may be compressed by gzip or deflate.", headers={"accept-encoding": CODINGS})
    decoder = zlib.decompressobj(_WINDOWS[kind])
    try:
        text = decoder.decompress(body, most + 1)
    except zlib.error:
        raise Status(400, f"The body isn't compressed by {kind}.") from None
    if len(text) > most:
        raise Status(413, f"A body has at most {most} bytes, decompressed.")
    if not decoder.eof or decoder.unused_data:
        raise Status(400, "The compressed body is cut off, or something follows it.")
    return text


class Chunks:
    """The chunks of a body, as they arrive. Trailers are checked and dropped."""

    __slots__ = ("_behind", "_last", "_line", "_trailers", "done", "left")

    def __init__(self) -> None:
        self.done = False
        self.left = 0
        """Bytes of the current chunk still to come."""
        self._behind = False
        """Whether the line end behind a chunk comes next."""
        self._last = False
        self._line = bytearray()
        self._trailers = 0

    def feed(self, data: bytes, at: int, take: Callable[[bytes], None]) -> int:
        """Read on from a position; pass on pieces of the body. Returns the position behind what was read.

        Raises:
            Status: The chunks are malformed.
        """
        end = len(data)
        while at < end and not self.done:
            if self.left:
                piece = data[at : at + self.left]
                at += len(piece)
                self.left -= len(piece)
                self._behind = self.left == 0
                take(piece)
            else:
                at = self._read_line(data, at)
        return at

    def _read_line(self, data: bytes, at: int) -> int:
        held = len(self._line)
        self._line += data[at : at + LINE_MOST + 2 - held]
        end = self._line.find(b"\r\n", max(0, held - 1))
        if end < 0:
            if len(self._line) > LINE_MOST or (self._behind and self._line != b"\r"):
                raise Status(400, "A chunk of the body is malformed.")
            return len(data)
        line = bytes(self._line[:end])
        self._line.clear()
        self._on_line(line)
        return at + end + 2 - held

    def _on_line(self, line: bytes) -> None:
        if self._behind:
            self._behind = False
            if line:
                raise Status(400, "A chunk of the body is longer than announced.")
        elif self._last:
            self._trailers += len(line)
            self.done = not line
            if line and (_TRAILER.fullmatch(line) is None or self._trailers > TRAILERS_MOST):
                raise Status(400, "The trailers behind the body are malformed or too long.")
        else:
            size = _CHUNK.fullmatch(line)
            if size is None:
                raise Status(400, "The size of a chunk is malformed.")
            self.left = int(size[1], 16)
            self._last = self.left == 0
