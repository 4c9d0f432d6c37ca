"""What passes between a server and its worker processes: frames on a socket, orders, costs, chunks, shared memory."""

import contextlib
import ctypes
import mmap
import os
import select
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import Field
from pydantic_core import from_json, to_json

from cotenant.scheduling import BatchCurve, Chunk, ChunkCost, TenantCosts
from cotenant.tenancy.values import Frozen
from cotenant.workloads.protocol import WorkloadSpec

_HEAD = struct.Struct("<II")
LARGEST = 1 << 30

Message = list[Any]
Bytes: TypeAlias = bytes | bytearray | memoryview


class FrameWriter:
    """Collects messages and the bytes that belong to them, to be sent together: the other side is woken once."""

    __slots__ = ("_data", "_messages")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._data: list[Bytes] = []

    def add(self, message: Message, data: list[Bytes] | None = None) -> None:
        """Add a message; its data follows that of earlier ones."""
        self._messages.append(message)
        if data:
            self._data += data

    def frame(self) -> bytes:
        """Everything collected so far, ready to be sent."""
        messages, data = self._messages, self._data
        self._messages, self._data = [], []
        return _framed(messages, data)


def frame(message: Message, data: list[Bytes] | None = None) -> bytes:
    """A single message and its bytes, ready to be sent."""
    return _framed([message], data or [])


def _framed(messages: list[Message], data: list[Bytes]) -> bytes:
    text, joined = to_json(messages), b"".join(data)
    return b"".join((_HEAD.pack(len(text), len(joined)), text, joined))


class FrameReader:
    """Reassembles frames from arriving pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: "bytes | memoryview") -> list[tuple[list[Message], bytes]]:
        """The messages of each frame completed by this data, and the bytes that belong to them in their order."""
        if self._buffer:
            self._buffer += piece
            piece, self._buffer = bytes(self._buffer), bytearray()
        frames: list[tuple[list[Message], bytes]] = []
        at, size = 0, len(piece)
        while size - at >= _HEAD.size:
            text_size, data_size = _HEAD.unpack_from(piece, at)
            if text_size + data_size > LARGEST:
                raise ValueError(f"a message of {text_size + data_size} bytes")
            text_at = at + _HEAD.size
            data_at = text_at + text_size
            end = data_at + data_size
            if size < end:
                break
            frames.append((from_json(bytes(piece[text_at:data_at])), bytes(piece[data_at:end])))
            at = end
        if at < size:
            self._buffer += piece[at:]
        return frames


# The configuration of a worker process: plain data, sent once at its start.

BETWEEN = "+"
"""Separates a worker's arguments from those of the next worker in the same process."""


class TenantOrder(Frozen):
    """One tenant of a worker."""

    name: str
    workload: WorkloadSpec
    largest: int = Field(default=1, ge=1)
    """Maximum requests that run together."""


class WorkerOrder(Frozen):
    """A complete worker."""

    device: str
    cores: tuple[int, ...] | None = None
    threads: int | None = None
    seat: Mapping[str, Any] | None = None
    """Its part of the device, as the sharing lays it out; None: the device as it is, or ``cores`` of it."""
    chunk_s: float = 5e-3
    budget_s: float = 1.0
    tenants: tuple[TenantOrder, ...]


# Costs and chunks as plain data, for messages and files.


def costs_out(costs: TenantCosts) -> dict[str, Any]:
    """A tenant's costs as plain data."""
    return {
        "chunks": [_cost_out(chunk) for chunk in costs.chunks],
        "curve": list(costs.curve.factors),
        "step": _cost_out(costs.step) if costs.step else None,
        "step_curve": list(costs.step_curve.factors),
        "steps": costs.steps,
        "cache_bytes": costs.cache_bytes,
    }


def costs_in(data: Mapping[str, Any]) -> TenantCosts:
    """The costs that `costs_out` wrote."""
    return TenantCosts(
        tuple(ChunkCost(*chunk) for chunk in data["chunks"]),
        BatchCurve(tuple(data["curve"])),
        ChunkCost(*data["step"]) if data["step"] else None,
        BatchCurve(tuple(data["step_curve"])),
        data["steps"],
        data.get("cache_bytes", 0),
    )


def chunk_out(chunk: Chunk) -> list[Any]:
    """A chunk as plain data."""
    return [*chunk[:3], list(chunk.requests), *chunk[4:]]


def chunk_in(data: Sequence[Any]) -> Chunk:
    """The chunk that `chunk_out` wrote."""
    version, slot, tenant, requests, stage, steps, predicted_s = data
    return Chunk(version, slot, tenant, tuple(requests), stage, steps, predicted_s)


def _cost_out(cost: ChunkCost) -> list[float]:
    return [cost.p50_s, cost.p90_s, cost.spaced_s]


# Shared memory between two processes: one side allocates and writes; the other reads and releases.

PAGE = 4096
INLINE = 4096
"""Smaller data is sent in the message itself."""


class SharedArena:
    """Anonymous memory behind a file descriptor; freed with the last process that holds it."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self._memory = mmap.mmap(fd, size)
        self._free: list[tuple[int, int]] = [(0, size)]
        self._taken: dict[int, int] = {}

    @classmethod
    def create(cls, size: int) -> "SharedArena":
        """Create an arena; pages are only used once written."""
        fd = os.memfd_create("cotenant", os.MFD_CLOEXEC)
        os.ftruncate(fd, size)
        return cls(fd, size)

    def put(self, parts: Iterable["bytes | bytearray | memoryview"], size: int) -> int | None:
        """Write the parts consecutively; returns their location, or None if full."""
        at = self._allocate(max(PAGE, -(-size // PAGE) * PAGE))
        if at is None:
            return None
        place = at
        for part in parts:
            self._memory[place : place + len(part)] = bytes(part) if isinstance(part, memoryview) else part
            place += len(part)
        return at

    def view(self, at: int, size: int) -> memoryview:
        """Data written by the other side; release it before closing the arena."""
        return memoryview(self._memory)[at : at + size]

    def release(self, at: int) -> None:
        """Reuse the space: the other side has read it."""
        size = self._taken.pop(at)
        self._free.append((at, size))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for start, length in self._free:
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._free = merged

    @property
    def used(self) -> int:
        """Bytes in use."""
        return sum(self._taken.values())

    def close(self) -> None:
        """Unmap the memory."""
        with contextlib.suppress(BufferError):  # a view still exists; the memory goes with the last one
            self._memory.close()
        os.close(self.fd)

    def _allocate(self, size: int) -> int | None:
        for place, (start, length) in enumerate(self._free):
            if length >= size:
                self._free[place] = (start + size, length - size)
                if length == size:
                    del self._free[place]
                self._taken[start] = size
                return start
        return None


# Threads of a worker that report its death at once, and end it with its parent.

SENTINELS = 2
_CLONE_FILES = 0x400
_MOST_DESCRIPTORS = 1 << 20


def post_sentinels(connection: int, held: tuple[int, ...]) -> None:
    """Start a thread for each descriptor in ``held``; the other end sees it closed when the thread ends.

    All of them end this process when the parent closes ``connection``, whatever a model is doing.
    """
    for pipe in held:
        apart = threading.Event()
        threading.Thread(target=_stand, args=(connection, pipe, apart), daemon=True).start()
        apart.wait()
        os.close(pipe)


def _stand(connection: int, held: int, apart: threading.Event) -> None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_FILES) == 0:
            low, high = sorted((connection, held))
            os.closerange(0, low)
            os.closerange(low + 1, high)
            os.closerange(high + 1, _MOST_DESCRIPTORS)
        else:  # forbidden here: deaths are noticed when the connection closes
            held = os.dup(held)
    finally:
        apart.set()  # without a thread the pipe is closed, and the parent starts another worker
    hung_up = select.poll()
    hung_up.register(connection, 0)
    hung_up.poll()
    os._exit(0)
