"""A worker process as its parent sees it: start, instructions, reports, end."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from cotenant.errors import BadInput, ServingError
from cotenant.scheduling import Chunk, RequestId, TenantCosts
from cotenant.serving.tensors import Parcel, Signature, label, signature_in, unpack
from cotenant.serving.workers.station import Ended
from cotenant.serving.workers.wire import (
    BETWEEN,
    INLINE,
    SENTINELS,
    FrameReader,
    FrameWriter,
    SharedArena,
    WorkerOrder,
    chunk_out,
    costs_in,
)
from cotenant.serving.workers.work import Call, ChunkProgress, Prompt, ScoredToken
from cotenant.workloads.protocol import WorkloadSpec

CHILD = (sys.executable, "-P", "-m", "cotenant.serving.workers.child")
"""Command of a worker process; descriptors follow."""
ARENA = 256 * 2**20
"""Address space for tensors in each direction; only filled pages use memory."""


class ModelFailed(ServingError):
    """A model raised in its worker."""


class Remote(asyncio.Protocol):
    """One worker process. Call every method from the loop's thread."""

    def __init__(
        self,
        *,
        ended: Callable[[Ended], None],
        lost: Callable[["Remote"], None] | None = None,
        env: Mapping[str, str] | None = None,
        arena: int = ARENA,
    ) -> None:
        self.order: WorkerOrder | None = None
        self.lost = lost
        """Called when the process has died, once its tenants were ready."""
        self.admitted: dict[str, tuple[TenantCosts, Signature]] = {}
        self.failed: dict[str, ServingError] = {}
        self.observed: Mapping[str, Any] | None = None
        """What it was given of the device, as read back in the process; None if it has no seat."""
        self.mates: Sequence[Remote] = (self,)
        """All workers of the process, each in a thread of its own."""
        self.starting = asyncio.Lock()
        """Held while the process starts; mates share it."""
        self.running_since: float | None = None
        self.expected_s = 0.0
        self.ended = ended
        """Called with each ended chunk."""
        self.told: Callable[[ChunkProgress, float], None] = lambda *_: None
        """Called with tokens that come before the end of their chunk, and their time."""
        self._env = dict(env or {})
        self._inbox, self._outbox = SharedArena.create(arena), SharedArena.create(arena)
        self._reader = FrameReader()
        self._chunks: dict[int, float] = {}
        self._writer = FrameWriter()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sentinels: list[int] = []
        self._closing = self._dead = False

    @property
    def alive(self) -> bool:
        """Whether the process runs and can be given work."""
        return self._transport is not None and not self._dead

    @property
    def dead(self) -> bool:
        """Whether the process has ended."""
        return self._dead

    @property
    def pid(self) -> int | None:
        """The process."""
        return self._process.pid if self._process else None

    async def spawn(self) -> None:
        """Start the process, for all mates; done if one of them has."""
        async with self.starting:
            if self._process is not None:
                return
            ends = [mate._ends() for mate in self.mates]  # noqa: SLF001 - remotes like this one
            arguments = [str(argument) for _, group in ends for argument in (BETWEEN, *group)][1:]
            fds = [fd for _, (connection, inbox, outbox, _, *held) in ends for fd in (connection, inbox, outbox, *held)]
            process = subprocess.Popen(
                [*CHILD, *arguments],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                env={**os.environ, **self._env},
            )
            for mate, (ours, (connection, _, _, _, *held)) in zip(self.mates, ends, strict=True):
                for fd in (connection, *held):
                    os.close(fd)
                await mate._connect(process, ours)  # noqa: SLF001

    def _ends(self) -> tuple[socket.socket, tuple[int, ...]]:
        """Our end of the connection, and what the process gets: its end, the arenas and their size, the pipes."""
        ours, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(SENTINELS)]
        self._sentinels += [read for read, _ in pipes]
        held = (write for _, write in pipes)
        return ours, (theirs.detach(), self._inbox.fd, self._outbox.fd, self._inbox.size, *held)

    async def _connect(self, process: "subprocess.Popen[bytes]", ours: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._process = process
        for read in self._sentinels:
            loop.add_reader(read, self._died)
        await loop.create_connection(lambda: self, sock=ours)

    def prepare(self, workloads: Iterable[WorkloadSpec]) -> None:
        """Let the process import what these workloads need, before it has an order."""
        self._send(["prepare", [workload.model_dump(mode="json") for workload in workloads]])

    async def launch(self, order: WorkerOrder, *, within_s: float) -> None:
        """Give the process its order, starting it if need be, and wait until its tenants are ready.

        Raises:
            ServingError: It died, or it took too long.
        """
        self.order = order
        await self.spawn()
        self._send(["order", order.model_dump(mode="json")])
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), within_s)
        except TimeoutError:
            self.kill()
            raise ServingError(
                f"The worker of {self._names()} wasn't ready within {within_s:.0f} s.",
                hint="Serve smaller models, or allow more time.",
            ) from None

    def take(self, request: RequestId, tenant: str, work: "Call | Prompt | Parcel") -> None:
        """Pass a request: tensors through shared memory if there is room, prompts in the message.

        It is sent with the next chunk, before which the worker has no use for it: one frame wakes the worker once.
        """
        if isinstance(work, Prompt):
            self._writer.add(["prompt", request, tenant, asdict(work)])
            return
        assert isinstance(work, Parcel)
        parts = [tensor.data for tensor in work.tensors]
        size = work.size
        at = self._inbox.put(parts, size) if size > INLINE else None
        self._writer.add(["take", request, tenant, label(work), at, size], parts if at is None else None)

    def free(self, requests: Iterable[RequestId]) -> None:
        """Forget requests."""
        self._send(["free", list(requests)])

    def start(self, chunk: Chunk) -> None:
        """Run a chunk now."""
        self._expect(chunk)
        self.running_since, self.expected_s = time.monotonic(), chunk.predicted_s
        self._send(["start", chunk_out(chunk)])

    def queue(self, after: int, chunk: Chunk | None) -> None:
        """Run a chunk when ``after`` ends."""
        if chunk is not None:
            self._expect(chunk)
        self._send(["queue", after, None if chunk is None else chunk_out(chunk)])

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)

    async def close(self) -> None:
        """End the process; nothing is reported any more."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()
        self.kill()
        self._forget_sentinels()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
        self._inbox.close()
        self._outbox.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport is not a subclass

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended."""
        del exc
        self._died()

    def _died(self) -> None:
        """A sentinel or the connection is gone, whichever was noticed first."""
        if self._dead:
            return
        self._dead = True
        self._forget_sentinels()
        self.running_since = None
        if not self._ready.done():
            self._ready.set_exception(ServingError(f"The worker of {self._names()} died while it started."))
            self._ready.exception()  # mark as retrieved: there may be no waiter
        elif not self._closing and self.lost is not None:
            self.lost(self)

    def _forget_sentinels(self) -> None:
        for read in self._sentinels:
            asyncio.get_running_loop().remove_reader(read)
            os.close(read)
        self._sentinels.clear()

    def data_received(self, data: bytes) -> None:
        """Data arrived from the process; what a dead process still sent is of no use."""
        if self._dead:
            return
        for messages, payload in self._reader.feed(data):
            for kind, *rest in messages:
                match kind:
                    case "ended":
                        self._chunk_ended(rest, payload)
                    case "told":
                        self.told(_made(*rest[1:]), rest[0])
                    case "admitted":
                        self.admitted[rest[0]] = costs_in(rest[1]), signature_in(rest[2])
                    case "failed":
                        self.failed[rest[0]] = ServingError(f"Tenant {rest[0]}: {rest[1]}", hint=rest[2])
                    case "ready" if not self._ready.done():
                        self.observed = rest[0]
                        self._ready.set_result(None)

    def _chunk_ended(self, fields: list[Any], payload: bytes) -> None:
        version, began, ended, started, results, failures, tokens, scores, read = fields
        progress, place = _made(tokens, scores) if tokens or scores else ChunkProgress(), 0
        for request, labels, at, size in results:
            if size is None:
                progress.results[request] = labels  # a decoder's tokens
            elif at is None:
                progress.results[request] = unpack(labels, payload[place : place + size])
                place += size
            else:
                progress.results[request] = unpack(labels, bytes(self._outbox.view(at, size)))
                self._writer.add(["read", [at]])  # sent with the next chunk, which may need the space
        for request, theirs, sentence in failures:
            error = BadInput(sentence) if theirs else ModelFailed(f"The model failed: {sentence}.")
            progress.failures[request] = error
        for at in read:
            self._inbox.release(at)
        if started is None:
            self.running_since = None
        else:
            self.running_since, self.expected_s = ended, self._chunks.get(started, 0.0)
        for earlier in [earlier for earlier in self._chunks if earlier <= version]:
            del self._chunks[earlier]
        self.ended(Ended(version, began, ended, started, progress))

    def _expect(self, chunk: Chunk) -> None:
        self._chunks[chunk.version] = chunk.predicted_s

    def _send(self, message: list[Any]) -> None:
        self._writer.add(message)
        unsent = self._writer.frame()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(unsent)

    def _names(self) -> str:
        return ", ".join(tenant.name for tenant in self.order.tenants) if self.order else "no tenant"


def _made(tokens: list[Any], scores: list[Any]) -> ChunkProgress:
    """New tokens, and the scores of those whose requests want them."""
    scored = {request: [ScoredToken(own, tuple(map(tuple, top))) for own, top in some] for request, some in scores}
    return ChunkProgress(tokens=dict(tokens), scores=scored)


def _has_descriptor(stream: Any) -> bool:
    try:
        return os.fstat(stream.fileno()) is not None
    except (AttributeError, OSError, ValueError):
        return False


# One process for several workers, each in a thread of its own with its part of a GPU: they start and end together.


class SharedProcess:
    """Hands out the workers of a process; starts another once a worker was handed out before or has died."""

    def __init__(self, places: int, env: Mapping[str, str]) -> None:
        self._places = places
        self._env = env
        self._free: dict[int, Remote] = {}
        self._changing = asyncio.Lock()

    async def hire(self, place: int, ended: Callable[[Ended], None]) -> Remote:
        """The worker of this place, which reports ended chunks to the function."""
        async with self._changing:
            remote = self._free.pop(place, None)
            if remote is None or remote.dead:
                await self._renew()
                remote = self._free.pop(place)
        remote.ended = ended
        return remote

    async def close(self) -> None:
        """End the process, if workers are left that were never handed out."""
        left, self._free = self._free, {}
        for remote in left.values():
            await remote.close()

    async def _renew(self) -> None:
        await self.close()  # what is left of a process that is gone, or ends with a worker that was handed out
        mates = tuple(Remote(ended=_nobody_yet, env=self._env) for _ in range(self._places))
        for mate in mates:
            mate.mates, mate.starting = mates, mates[0].starting
        self._free = dict(enumerate(mates))


def _nobody_yet(end: Ended) -> None:
    raise AssertionError(f"chunk {end.version} ended before its worker had a post")
