"""The gRPC server: dispatch by name, errors as statuses, client deadlines."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cotenant.errors import BadInput, Refused, ServingError
from cotenant.serving.grpc.parcels import SERVICE, methods
from cotenant.serving.grpc.servicer import Asking, Method, Servicer, Stream, code_of
from cotenant.serving.http.messages import status_of
from cotenant.serving.service import Service
from cotenant.serving.tickets import TRACEPARENT

log = logging.getLogger(__name__)

OVERHEAD = 64 * 2**10
"""Bytes of a message besides its tensors."""


@asynccontextmanager
async def listening(
    service: Service, host: str, port: int, *, body: int, calls: int, tls: tuple[str, str] | None
) -> AsyncIterator[str]:
    """Serve over gRPC while the context is open; yields the address.

    Args:
        service: The service.
        host: Address to listen on.
        port: 0 takes a free one.
        body: Maximum bytes of a request.
        calls: Maximum concurrent calls.
        tls: Certificate and key files.

    Raises:
        ServingError: The package isn't installed, or the port is unavailable.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # or whatever a client sends may write lines of its own to stderr
    try:
        from grpc import aio
    except ImportError:
        raise ServingError("gRPC needs the package grpcio.", hint="Install it: pip install 'cotenant[grpc]'") from None
    server = aio.server(
        options=[
            ("grpc.max_receive_message_length", body + OVERHEAD),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ],
        maximum_concurrent_rpcs=calls,
    )
    server.add_generic_rpc_handlers((_handlers(Servicer(service)),))
    name = f"[{host}]" if ":" in host else host
    try:
        bound = _bind(server, f"{name}:{port}", tls)
    except RuntimeError:
        raise ServingError(
            f"{host}:{port} can't be listened on for gRPC.", hint="Choose another port; --grpc-port 0 finds a free one."
        ) from None
    await server.start()
    try:
        yield f"{name}:{bound}"
    finally:
        await server.stop(grace=0.1)


def _bind(server: Any, address: str, tls: tuple[str, str] | None) -> int:
    if tls is None:
        return int(server.add_insecure_port(address))
    import grpc

    chain, key = (Path(part).read_bytes() for part in tls)
    return int(server.add_secure_port(address, grpc.ssl_server_credentials([(key, chain)])))


def _handlers(servicer: Servicer) -> Any:
    import grpc

    known = methods()
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            name: grpc.unary_unary_rpc_method_handler(_answering(method, known[name][0]))
            for name, method in servicer.methods().items()
        }
        | {
            name: grpc.stream_stream_rpc_method_handler(_streaming(stream, known[name][0]))
            for name, stream in servicer.streams().items()
        },
    )


def _asking(context: Any) -> Asking:
    metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
    TRACEPARENT.set(metadata.get("traceparent"))
    return Asking(metadata, context.time_remaining())


def _read(kind: Any, data: bytes) -> Any:
    """A message; here and not in grpc, which would answer UNKNOWN with the name of a Python class."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError:
        raise BadInput(f"This is not a {kind.DESCRIPTOR.name}.", hint="Check the client's version.") from None


def _streaming(stream: Stream, kind: Any) -> Any:
    async def answer(requests: Any, context: Any) -> Any:
        async def read() -> AsyncIterator[Any]:
            async for data in requests:
                yield _read(kind, data)

        try:
            async for response in stream(read(), _asking(context)):
                yield response.SerializeToString()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - outermost handler
            await _abort(context, error)

    return answer


def _answering(method: Method, kind: Any) -> Any:
    async def answer(data: bytes, context: Any) -> Any:
        try:
            return (await method(_read(kind, data), _asking(context))).SerializeToString()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - outermost handler
            await _abort(context, error)

    return answer


async def _abort(context: Any, error: BaseException) -> None:
    """Every failure becomes an answer: a status of ours with a sentence."""
    import grpc

    if isinstance(error, asyncio.CancelledError):
        if context.cancelled():  # the client is gone
            raise error
        error = Refused("this server", "draining", retry_after_s=1.0, predicted_wait_s=0.0)
    assert isinstance(error, Exception)
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if status_of(error) == 500:
        log.error("a call over gRPC failed", exc_info=error)
    code, sentence, trailing = code_of(error)
    await context.abort(grpc.StatusCode[code], sentence, tuple(trailing))
