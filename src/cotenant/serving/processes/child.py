"""The worker process: a station behind a socket. Started by `remote`; ends with its parent."""

import os
import signal
import socket
import sys
import threading
from typing import Any

from cotenant.errors import BadInput
from cotenant.scheduling import RequestId
from cotenant.serving.engines.protocol import Call, Prompt
from cotenant.serving.processes.arena import INLINE, Arena
from cotenant.serving.processes.frames import Reader, frame
from cotenant.serving.processes.orders import TenantOrder, WorkerOrder
from cotenant.serving.processes.parcel import label, unpack
from cotenant.serving.processes.written import chunk_in, costs_out
from cotenant.serving.worker.place import Place, find_place
from cotenant.serving.worker.station import Ended, Station


class Child:
    """One worker: reads messages in the main thread, runs chunks in the station's."""

    def __init__(self, connection: socket.socket, inbox: Arena, outbox: Arena) -> None:
        self._connection = connection
        self._inbox = inbox
        self._outbox = outbox
        self._read: list[int] = []
        self._lock = threading.Lock()
        self._station: Station | None = None

    def live(self) -> None:
        """Serve until the parent closes the connection."""
        reader = Reader()
        while piece := self._connection.recv(1 << 18):
            for content, data in reader.feed(piece):
                self._obey(content, data)

    def _obey(self, content: list[Any], data: bytes) -> None:
        kind, *rest = content
        station = self._station
        if kind == "order":
            self._open(WorkerOrder.model_validate(rest[0]))
            return
        assert station is not None, "the first message is the order"
        match kind:
            case "take":
                request, tenant, labels, at, size = rest
                station.take(request, tenant, Call(kwargs=self._tensors(labels, at, size, data)))
            case "prompt":
                request, tenant, prompt = rest
                station.take(request, tenant, _prompt(prompt))
            case "start":
                station.start(chunk_in(rest[0]))
            case "queue":
                station.queue(rest[0], None if rest[1] is None else chunk_in(rest[1]))
            case "free":
                station.free(rest[0])
            case "read":
                with self._lock:
                    for at in rest[0]:
                        self._outbox.release(at)

    def _open(self, order: WorkerOrder) -> None:
        place = find_place(order.device, order.cores, order.threads)
        self._station = station = Station(place, self._report)
        station.call(lambda: self._build(order, place, station))

    def _build(self, order: WorkerOrder, place: Place, station: Station) -> None:
        """In the station's thread, so that the models' memory is where they run."""
        for tenant in order.tenants:
            try:
                ready = _admitted(order, tenant, place, station)
            except Exception as error:  # noqa: BLE001 - whatever stops a tenant is said in the parent's words
                hint = getattr(error, "hint", None)
                self._send(frame(["failed", tenant.name, getattr(error, "message", None) or _said(error), hint]))
                continue
            self._send(frame(["admitted", tenant.name, *ready]))
        self._send(frame(["ready"]))

    def _tensors(self, labels: list[Any], at: int | None, size: int, data: bytes) -> dict[str, Any]:
        from cotenant.serving.models.tensors import tensors_of

        if at is None:
            return tensors_of(unpack(labels, data))
        tensors = tensors_of(unpack(labels, self._inbox.view(at, size)))
        with self._lock:
            self._read.append(at)
        return tensors

    def _report(self, end: Ended) -> None:
        """Results first, so that they precede the end of the chunk at the parent."""
        failures = [[request, *_failure(error)] for request, error in end.progress.failures.items()]
        messages = [self._result(request, result) for request, result in end.progress.results.items()]
        with self._lock:
            read, self._read = self._read, []
        tokens = list(end.progress.tokens.items())
        messages.append(frame(["ended", end.version, end.began, end.ended, end.started, failures, tokens, read]))
        self._send(b"".join(messages))

    def _result(self, request: RequestId, result: Any) -> bytes:
        from cotenant.serving.models.tensors import parcel_of

        if isinstance(result, list):
            return frame(["tokens", request, result])
        parcel = parcel_of(result)
        parts = [one.data for one in parcel.tensors]
        if parcel.size > INLINE:
            with self._lock:
                at = self._outbox.put(parts, parcel.size)
            if at is not None:
                return frame(["result", request, label(parcel), at, parcel.size])
        return frame(["result", request, label(parcel), None, parcel.size], b"".join(parts))

    def _send(self, message: bytes) -> None:
        try:
            self._connection.sendall(message)
        except OSError:
            os._exit(0)  # the parent is gone: no one waits for an answer


def _admitted(order: WorkerOrder, tenant: TenantOrder, place: Place, station: Station) -> tuple[Any, Any]:
    from cotenant.serving.admission import admit
    from cotenant.serving.costs import Effort
    from cotenant.serving.models.servable import build_servable

    dtype = "float32" if place.torch_device == "cpu" else "float16"
    built = build_servable(tenant.workload, device=place.torch_device, dtype=dtype)
    largest = tenant.largest if built.batches else 1
    found = admit(
        built.model,
        built.sample,
        wait=place.wait,
        largest=largest,
        chunk_s=order.chunk_s,
        effort=Effort(budget_s=order.budget_s),
    )
    station.install(tenant.name, found.engine)
    return costs_out(found.costs), built.signature.to_json()


def _prompt(data: dict[str, Any]) -> Prompt:
    return Prompt(**{**data, "ids": tuple(data["ids"]), "stop": tuple(data["stop"])})


def _failure(error: Exception) -> tuple[bool, str]:
    """Whether the client caused it, and a sentence."""
    return isinstance(error, BadInput), error.message if isinstance(error, BadInput) else _said(error)


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def main() -> None:
    """Process entry point: descriptors of the socket and the two arenas, and the arenas' size."""
    connection_fd, inbox_fd, outbox_fd, size = (int(argument) for argument in sys.argv[1:5])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches the entire group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = socket.socket(fileno=connection_fd)
    connection.setblocking(True)
    Child(connection, Arena(inbox_fd, size), Arena(outbox_fd, size)).live()
    os._exit(0)


if __name__ == "__main__":
    main()
