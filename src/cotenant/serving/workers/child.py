"""The worker process: a workbench behind a socket. Started by `remote`; ends with its parent."""

import gc
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

from cotenant.errors import BadInput, CotenantError
from cotenant.scheduling import Chunk, RequestId
from cotenant.serving.tensors import label, unpack
from cotenant.serving.workers.place import SeatPlace, Workplace, find_place, find_recorder, seated
from cotenant.serving.workers.station import Ended, Workbench
from cotenant.serving.workers.wire import (
    BETWEEN,
    INLINE,
    Bytes,
    FrameReader,
    SharedArena,
    TenantOrder,
    WorkerOrder,
    chunk_in,
    costs_out,
    frame,
    post_sentinels,
)
from cotenant.serving.workers.work import Call, ChunkProgress, Prompt
from cotenant.workloads.protocol import WorkloadSpec

PIECE = 1 << 18


class Child:
    """One worker. Its only busy thread reads messages between chunks.

    A second thread that read them as they come would hold the interpreter's lock on a core that front ends share, and
    the device would wait until that thread was scheduled again.
    """

    def __init__(
        self, connection: socket.socket, inbox: SharedArena, outbox: SharedArena, held: tuple[int, ...]
    ) -> None:
        self._connection = connection
        self._inbox = inbox
        self._outbox = outbox
        self._held = held
        self._reader = FrameReader()
        self._piece = memoryview(bytearray(PIECE))
        self._arrival = select.poll()
        self._arrival.register(connection, select.POLLIN)
        self._place = 0
        """Where the next input begins in the bytes of a frame."""
        self._read: list[int] = []
        self._next: Chunk | None = None
        self._running: int | None = None
        self._queued: Chunk | None = None

    def live(self) -> None:
        """Serve until the parent closes the connection."""
        post_sentinels(self._connection.fileno(), self._held)
        order = self._order()

        from cotenant.serving.workers import servable  # after the order: it imports torch

        self._codec = servable
        try:
            place = _place(order)
        except CotenantError as error:
            for tenant in order.tenants:
                self._send(frame(["failed", tenant.name, error.message, error.hint]))
            self._send(frame(["ready", None]))
            self._receive(wait=True)  # until the parent closes the connection
            return
        self._bench = Workbench(place)
        with place.settled():
            self._build(order, place)
            self._send(frame(["ready", place.observed() if isinstance(place, SeatPlace) else None]))
            while True:
                if self._next is None:
                    self._receive(wait=True)
                else:
                    self._carry_out(self._next)

    def _order(self) -> WorkerOrder:
        """The order, after any preparations."""
        while True:
            for messages, _ in self._reader.feed(self._connection.recv(PIECE)):
                for kind, content in messages:
                    if kind == "order":
                        return WorkerOrder.model_validate(content)
                    _prepare(content)

    def _receive(self, *, wait: bool) -> None:
        """Obey the messages that have arrived; ``wait``: at least a piece of a message."""
        size = PIECE
        # A blocking `recv` would also be woken each time the parent has read an answer.
        while size == PIECE and self._arrival.poll(None if wait else 0):
            size, wait = self._connection.recv_into(self._piece, PIECE), False
            if not size:
                os._exit(0)
            for messages, data in self._reader.feed(self._piece[:size]):
                self._place = 0
                for message in messages:
                    self._obey(message, data)

    def _obey(self, message: list[Any], data: bytes) -> None:
        kind, *rest = message
        match kind:
            case "take":
                request, tenant, labels, at, size = rest
                self._bench.take(request, tenant, Call(kwargs=self._tensors(labels, at, size, data)))
            case "prompt":
                request, tenant, prompt = rest
                self._bench.take(request, tenant, _prompt(prompt))
            case "start":
                self._next, self._queued = chunk_in(rest[0]), None
                self._running = self._next.version
            case "queue":
                if rest[0] == self._running:
                    self._queued = None if rest[1] is None else chunk_in(rest[1])
            case "free":
                self._bench.free(rest[0])
            case "read":
                for at in rest[0]:
                    self._outbox.release(at)

    def _carry_out(self, chunk: Chunk) -> None:
        """Run a chunk; what was queued meanwhile is next."""
        began = time.monotonic()
        progress = self._bench.run(chunk, self._tell)
        ended = time.monotonic()
        self._receive(wait=False)
        following = self._next = self._queued
        self._queued = None
        self._running = following.version if following else None
        self._report(Ended(chunk.version, began, ended, self._running, progress))

    def _tell(self, progress: ChunkProgress) -> None:
        """Tokens before the end of their chunk."""
        self._send(frame(["told", time.monotonic(), *_tokens(progress)]))

    def _build(self, order: WorkerOrder, place: Workplace) -> None:
        for tenant in order.tenants:
            try:
                ready = _admitted(order, tenant, place, self._bench)
            except Exception as error:  # noqa: BLE001 - whatever stops a tenant is said in the parent's words
                hint = getattr(error, "hint", None)
                self._send(frame(["failed", tenant.name, getattr(error, "message", None) or _said(error), hint]))
                continue
            self._send(frame(["admitted", tenant.name, *ready]))
        gc.collect()
        gc.freeze()  # models and modules stay: keep the collector from walking them between chunks

    def _tensors(self, labels: list[Any], at: int | None, size: int, data: bytes) -> dict[str, Any]:
        if at is None:
            place, self._place = self._place, self._place + size
            return self._codec.tensors_of(unpack(labels, memoryview(data)[place : place + size]))
        tensors = self._codec.tensors_of(unpack(labels, self._inbox.view(at, size)))
        self._read.append(at)
        return tensors

    def _report(self, end: Ended) -> None:
        version, began, ended, started, progress = end
        data: list[Bytes] = []
        results = [self._result(request, result, data) for request, result in progress.results.items()]
        failures = [[request, *_failure(error)] for request, error in progress.failures.items()]
        read, self._read = self._read, []
        report = ["ended", version, began, ended, started, results, failures, *_tokens(progress), read]
        self._send(frame(report, data))

    def _result(self, request: RequestId, result: Any, data: list[Bytes]) -> list[Any]:
        """A result as plain data: tokens, or the labels of tensors whose bytes follow (``data``) or are shared."""
        if isinstance(result, list):
            return [request, result, None, None]
        parcel = self._codec.parcel_of(result)
        parts, size = [tensor.data for tensor in parcel.tensors], parcel.size
        at = self._outbox.put(parts, size) if size > INLINE else None
        if at is None:
            data += parts
        return [request, label(parcel), at, size]

    def _send(self, message: bytes) -> None:
        try:
            self._connection.sendall(message)
        except OSError:
            os._exit(0)  # the parent is gone: no one waits for an answer


def _place(order: WorkerOrder) -> Workplace:
    return seated(order.device, order.seat) if order.seat else find_place(order.device, order.cores, order.threads)


def _admitted(order: WorkerOrder, tenant: TenantOrder, place: Workplace, bench: Workbench) -> tuple[Any, Any]:
    from cotenant.serving.workers.admission import Effort, admit
    from cotenant.serving.workers.servable import build_servable, with_cache

    dtype = "float32" if place.torch_device == "cpu" else "float16"
    built = build_servable(tenant.workload, device=place.torch_device, dtype=dtype)
    largest = tenant.largest if built.batches else 1
    admitted = admit(
        built.model,
        built.sample,
        wait=place.wait,
        largest=largest,
        chunk_s=order.chunk_s,
        effort=Effort(budget_s=order.budget_s),
        recorder=find_recorder(place, tenant.workload.software),
    )
    bench.install(tenant.name, admitted.engine)
    return costs_out(with_cache(admitted.costs, built)), built.signature.to_json()


def _prepare(workloads: list[Any]) -> None:
    """Import everything that these workloads need, by building them without weights."""
    from cotenant.serving.workers.servable import build_servable

    for workload in workloads:
        with suppress(Exception):  # whatever is wrong with it is said when it is ordered
            build_servable(WorkloadSpec.model_validate(workload), device="meta", dtype="float32")


def _prompt(data: dict[str, Any]) -> Prompt:
    bias = tuple((token, by) for token, by in data["logit_bias"])
    return Prompt(**{**data, "ids": tuple(data["ids"]), "stop": tuple(data["stop"]), "logit_bias": bias})


def _tokens(progress: ChunkProgress) -> tuple[list[Any], list[Any]]:
    """New tokens and their scores, by request."""
    return list(progress.tokens.items()), list(progress.scores.items())


def _failure(error: Exception) -> tuple[bool, str]:
    """Whether the client caused it, and a sentence."""
    return isinstance(error, BadInput), error.message if isinstance(error, BadInput) else _said(error)


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def _live(arguments: list[int]) -> None:
    """One worker; its end is the end of the process."""
    connection_fd, inbox_fd, outbox_fd, size, *held = arguments
    connection = socket.socket(fileno=connection_fd)
    connection.setblocking(True)
    try:
        Child(connection, SharedArena(inbox_fd, size), SharedArena(outbox_fd, size), tuple(held)).live()
    except BaseException:  # noqa: BLE001 - in any of its threads
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Process entry point.

    The arguments of a worker are the descriptors of its socket and its two arenas, the arenas' size, and the sentinels'
    pipes; a `+` separates them from those of the next worker.
    """
    workers: list[list[int]] = [[]]
    for argument in sys.argv[1:]:
        if argument == BETWEEN:
            workers.append([])
        else:
            workers[-1].append(int(argument))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches the entire group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for descriptors in workers[1:]:
        threading.Thread(target=_live, args=(descriptors,), daemon=True).start()
    _live(workers[0])


if __name__ == "__main__":
    main()
