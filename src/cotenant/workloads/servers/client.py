"""Common part of server workloads: where the server is, who starts it, and its cleanup."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, field_validator

from cotenant.clients.address import Address, read_address
from cotenant.clients.exposition import PATH, page_of, read_metrics, read_sizes
from cotenant.clients.http11 import Connections
from cotenant.clients.openai_stream import AnswerTokens
from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import Built, Client, Mark, WorkloadSpec
from cotenant.workloads.servers.process import ServerProcess, listening, program_of
from cotenant.workloads.spec_options import UNKNOWN_DTYPE, StatedOptions

LAST_MOMENT_S = 0.3


class ServerOptions(StatedOptions):
    """The `params` common to all server workloads."""

    headers: dict[str, str] = Field(default_factory=dict)
    timeout_s: float = Field(default=60.0, gt=0)
    """Timeout of a request, from connecting to the end of its answer."""
    ramp_s: float = Field(default=0.0, ge=0, le=600)
    """A closed load starts its requests spread over this time, at most the lead, instead of all at once."""

    @field_validator("headers")
    @classmethod
    def _plain(cls, headers: dict[str, str]) -> dict[str, str]:
        for key, value in headers.items():
            if not key or not (key + value).isascii() or not (key + value).isprintable() or ":" in key:
                raise ValueError(f"the header {key!r} is not plain text on one line")
        return headers


@dataclass(slots=True)
class ServerPlace:
    """A server that can be talked to, ours or not."""

    address: Address
    process: ServerProcess | None
    ready_s: float | None
    metrics: str | None = None
    """Path or address of the metrics; None: it isn't asked for them."""

    def pids(self) -> tuple[int, ...]:
        """The processes that serve."""
        return (self.process.pid,) if self.process is not None else listening(self.address)

    def gone(self) -> str | None:
        """How our server ended; its connections break a moment before."""
        how = None if self.process is None else self.process.gone(within_s=LAST_MOMENT_S)
        return None if how is None else f"the server {how}"

    def stop(self) -> None:
        """Stop it if it is ours."""
        if self.process is not None:
            self.process.stop()

    def facts(self) -> Mapping[str, object]:
        """What is recorded of it, with what it reports now that it is up."""
        if self.process is None:
            return {"server": "was running", **self._metrics()}
        return {
            "server": "started by cotenant",
            "ready_s": self.ready_s,
            "server_pid": self.process.pid,
            "start": self.process.started_as,
            "resolved": self.process.resolved(),
            **self._metrics(),
        }

    def page(self) -> tuple[Address, str, str] | None:
        """The server with its metrics, their path, and what it publishes there; None if it publishes nothing."""
        if self.metrics is None:
            return None
        address, path = self.address if self.process is None else self.process.metrics_address, self.metrics
        if not path.startswith("/"):
            address = read_address(path)
            path = address.target
        page = None if address.scheme == "grpc" else page_of(address, path)
        return None if page is None else (address, path, page)

    def _metrics(self) -> Mapping[str, object]:
        """Where its metrics are and which are known, and the size of its cache."""
        published = self.page()
        if published is None:
            return {}
        address, path, page = published
        names = [reading.metric for reading in read_metrics(page)]
        url = f"{'https' if address.tls else 'http'}://{address.authority}{path}"
        sizes = read_sizes(page)
        return {"metrics": {"url": url, "names": names}, **({"cache": sizes} if sizes else {})}


def address_in(spec: WorkloadSpec, prefix: str) -> Address | None:
    """The address named by the workload; None if cotenant starts the server and chooses the port.

    Raises:
        WorkloadError: It is invalid, missing, or given although cotenant chooses it.
    """
    text = spec.name.removeprefix(prefix).strip()
    if spec.server is not None:
        if text:
            raise WorkloadError(
                f"`{spec.name}` names an address, but `server` starts one on a port that cotenant chooses",
                hint=f"write `workload: '{prefix}'`, or leave `server` out",
            )
        return None
    if not text:
        raise WorkloadError(
            f"`{spec.name}` has no address",
            hint=f"write `workload: {prefix}http://127.0.0.1:8000`, or say how to start it: `server: {{start: ...}}`",
        )
    return read_address(text)


def check_start(spec: WorkloadSpec) -> None:
    """Refuse a server that can't be started here, before anything is measured."""
    if spec.server is not None:
        program_of(spec.server)


def not_asked(spec: WorkloadSpec, prefix: str) -> str:
    """What stays unknown of a server that was not contacted."""
    address = address_in(spec, prefix)
    where = "its server was not started" if address is None else f"{address.name} was not contacted"
    return f"{where}: whether it serves the model is not known"


def stand(spec: WorkloadSpec, prefix: str, *, grpc: bool = False) -> ServerPlace:
    """The server of this workload: started now and ready, or running at its address; its port for HTTP or gRPC."""
    address = address_in(spec, prefix)
    if spec.server is None:
        assert address is not None
        return running(spec, address, PATH)
    process = ServerProcess(spec.server)
    try:
        ready_s = process.wait_until_ready()
        return ServerPlace(process.grpc_address if grpc else process.address, process, ready_s, spec.server.metrics)
    except BaseException:
        process.stop()
        raise


def running(spec: WorkloadSpec, address: Address, usual: str | None) -> ServerPlace:
    """A server that runs already, with its metrics where the tenant says or at the usual path.

    Raises:
        WorkloadError: It has no metrics where the tenant says.
    """
    place = ServerPlace(address, None, None, spec.metrics if spec.metrics != "" else usual)
    if spec.metrics and place.page() is None:
        raise WorkloadError(f"there are no metrics at `{spec.metrics}`", hint="correct `server: {metrics: ...}`")
    return place


def built(
    spec: WorkloadSpec, options: ServerOptions, standing: ServerPlace, client: Client, facts: Mapping[str, Any]
) -> Built:
    """A workload served by a running server, recorded with these facts and those of the server."""
    return Built(
        stages=(),
        dtype=spec.dtype or UNKNOWN_DTYPE,
        weights=UNKNOWN_DTYPE,
        seq=spec.seq,
        facts={
            "address": standing.address.name,
            **facts,
            **standing.facts(),
            "stated": options.stated.model_dump(exclude_none=True),
        },
        close=standing.stop,
        client=client,
    )


class ServerClient:
    """The part of a client that depends on neither the requests nor the protocol."""

    slots: tuple[str, ...] = ("answer",)
    first_output: int | None = None

    def __init__(self, standing: ServerPlace, options: ServerOptions, warm: int) -> None:
        self.standing, self.warm, self.ramp_s = standing, warm, options.ramp_s

    def begin(self, first_arrival: int) -> None:
        """A no-op: most requests do not depend on their window."""

    def rest(self) -> None:
        """A no-op: a server without requests is idle by itself."""

    def pids(self) -> tuple[int, ...]:
        """The processes that serve."""
        return self.standing.pids()

    def gone(self) -> str | None:
        """How the server ended, if it is ours and has."""
        return self.standing.gone()


class HttpClient(ServerClient):
    """The part of a client over HTTP that does not depend on the requests."""

    slots: tuple[str, ...] = ()

    def __init__(self, standing: ServerPlace, options: ServerOptions, warm: int, headers: Mapping[str, str]) -> None:
        super().__init__(standing, options, warm)
        users = {name.lower() for name in options.headers}
        ours = {name: value for name, value in headers.items() if name.lower() not in users}
        self.connections = Connections(standing.address, options.timeout_s, {**ours, **options.headers})

    async def request(self, number: int, mark: Mark) -> AnswerTokens:
        """Serve a request."""
        raise NotImplementedError

    async def close(self) -> None:
        """Drop every connection."""
        await self.connections.close()
