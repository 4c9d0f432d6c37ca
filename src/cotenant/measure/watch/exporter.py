"""What is watched as metrics of our own: who slows whom, and what each tenant used and costs, for Prometheus."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

from cotenant.analyse.neighbours import CPU_S, ENERGY_J, GPU_S
from cotenant.clients.address import LOCAL
from cotenant.clients.exposition import KIND, PATH, MetricsPage
from cotenant.errors import WatchError
from cotenant.opening import why
from cotenant.tenancy.interval import Estimate

if TYPE_CHECKING:
    from cotenant.analyse.neighbours import Influence
    from cotenant.measure.watch.track import Track
    from cotenant.measure.watch.watch_session import WatchSession

VERDICTS = {"slows": 1.0, "hardly": 0.0}


class Exporter:
    """A context manager; serves metrics from `start` on, while a session goes on.

    Args:
        where: `9109` or `0.0.0.0:9109`.
        price: Of the device per hour.

    Raises:
        WatchError: That isn't an address of this machine, or it is taken.
    """

    def __init__(self, where: str, price: float | None = None) -> None:
        host, _, port = where.rpartition(":")
        if not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise WatchError(f"`{where}` isn't a port", hint="write --export 9109, or --export 0.0.0.0:9109")
        self.price = price
        self.session: WatchSession | None = None
        try:
            self._server = _Server((host.strip("[]") or LOCAL, int(port)), self)
        except OSError as error:
            raise WatchError(f"metrics can't be served at `{where}`: {why(error)}") from None

    def __enter__(self) -> Self:
        """Nothing is answered yet."""
        return self

    def start(self, session: "WatchSession") -> None:
        """Answer with what this session learns."""
        self.session = session
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        """Close."""
        if self.session is not None:
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], exporter: Exporter) -> None:
        self.exporter = exporter
        super().__init__(address, _Handler)

    def handle_error(self, *_: object) -> None:
        """Ignore clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """The metrics."""
        exporter = self.server.exporter
        known = self.path.partition("?")[0] == PATH
        assert exporter.session is not None, "it answers since there is one"
        body = page(exporter.session, exporter.price) if known else f"metrics are at {PATH}\n"
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", KIND if known else "text/plain")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


def page(session: "WatchSession", price: float | None) -> str:
    """The metrics now."""
    latest = session.latest()
    pairs = () if latest is None else latest.influences
    known = [(pair, pair.busy) for pair in pairs if isinstance(pair.busy, Estimate)]
    found = MetricsPage()
    about = "Time of a request or token while the neighbour is busy, over that while it isn't"
    found.put("cotenant_watch_slowdown", "gauge", f"{about}.", ((_pair(pair), busy.est) for pair, busy in known))
    for bound, limit in (("low", "lower"), ("high", "upper")):
        found.put(f"cotenant_watch_slowdown_{bound}", "gauge", f"{about}: {limit} end of its 95 % interval.",
                  ((_pair(pair), end) for pair, busy in known
                   if (end := busy.lo if bound == "low" else busy.hi) is not None))  # fmt: skip
    found.put("cotenant_watch_slows", "gauge", "1: the neighbour slows the tenant; 0: hardly; absent: not decided.",
              ((_pair(pair), VERDICTS[pair.verdict]) for pair in pairs if pair.verdict in VERDICTS))  # fmt: skip
    tracks = session.targets.tracks
    totals = [({"tenant": track.tenant, "device": session.device}, _used(track)) for track in tracks]
    for role, name, of in (
        (CPU_S, "cotenant_watch_cpu_seconds_total", "CPU time used."),
        (GPU_S, "cotenant_watch_device_seconds_total", "Time in which any of the tenant's kernels ran."),
        (ENERGY_J, "cotenant_watch_energy_joules_total",
         "Energy of the GPU while kernels ran, divided by their time."),
    ):  # fmt: skip
        found.put(name, "counter", of, ((labels, used[role]) for labels, used in totals if role in used))
    if price is not None:
        busy, parts = (GPU_S, 1) if any(GPU_S in used for _, used in totals) else (CPU_S, session.cores)
        each_s = price / 3600 / parts
        found.put("cotenant_watch_cost_total", "counter", "Price of the device for the time that the tenant used it.",
                  ((labels, each_s * used[busy]) for labels, used in totals if busy in used))  # fmt: skip
    return found.text()


def _pair(influence: "Influence") -> dict[str, str]:
    return {"tenant": influence.tenant, "neighbour": influence.neighbour, "measure": influence.measure}


def _used(track: "Track") -> dict[str, float]:
    return {role: value for role, (_, value) in track.latest().items()}
