"""`watch`: servers that already run, without touching them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant import interruption
from cotenant.paths import AnyPath, Runs, run_paths

if TYPE_CHECKING:
    from cotenant.analyse.neighbours import Watched
    from cotenant.clients.prometheus import PrometheusServer
    from cotenant.measure.watch import WatchSession

OUT = "runs"
EVERY_S = 2.0


def watch(
    *targets: str | int,
    device: str | None = None,
    seconds: float | None = None,
    every_s: float = EVERY_S,
    histograms: Sequence[str] = (),
    prometheus: str | None = None,
    since_s: float | None = None,
    where: str = "",
    probe: str | None = None,
    export: str | None = None,
    price: float | None = None,
    out: AnyPath = OUT,
    progress: "Callable[[WatchSession], None] | None" = None,
) -> "Watched":
    """Watch servers that already run: rates, times, parts of the device, and who slows whom. Read-only.

    Args:
        targets: Processes and addresses, each optionally with a name: `4711`, `http://localhost:8000`,
            `chat=localhost:8000`. Without any: every server of this machine that publishes known metrics, and the
            processes on the GPU.
        device: What they share: `cpu`, `cuda:0`; by default the first GPU, or the CPU if there is none.
        seconds: How long; None: until interrupted. With ``prometheus``: how far back, by default an hour.
        every_s: Between two readings; at least a second.
        histograms: Histograms of other servers, by name: `http_request_duration_seconds`.
        prometheus: Read what this Prometheus server recorded, instead of the servers themselves.
        since_s: With ``prometheus``: start of the period, in seconds since 1970; by default it ends now.
        where: With ``prometheus``: further matchers, such as `namespace="prod"`.
        probe: Pause this tenant several times, for seconds each, and end when that tells whom it slows; its clients
            wait meanwhile. Without it nothing is touched.
        export: Serve what is learnt as metrics for Prometheus meanwhile: a port of this machine, `9109`, or an
            address, `0.0.0.0:9109`.
        price: Of the device per hour, in any currency: with ``export``, each tenant's cost.
        out: The folder below which the run is stored.
        progress: Called every few seconds with the session.

    Raises:
        WatchError: Nothing can be watched there.
        DeviceError: There is no such device, or it can't be watched.
        RunFolderError: The run can't be written.
    """
    from cotenant.clients.published import named_histogram

    named = [named_histogram(histogram) for histogram in histograms]
    if prometheus is not None:
        from cotenant.measure.watch import read_history

        found, folder = read_history(
            _prometheus(prometheus), since_s=since_s, seconds=seconds or 3600.0, where=where, histograms=named,
            device=device or "shared", root=Path(out),
        )  # fmt: skip
        return replace(found, folder=folder)
    from cotenant.measure.watch import Exporter, WatchSession

    with ExitStack() as stack:
        exporter = None if export is None else stack.enter_context(Exporter(export, price))  # refused before all else
        session = stack.enter_context(
            WatchSession(
                [str(target) for target in targets], device=device or _usual_device(), every_s=every_s,
                histograms=named, root=Path(out),
            )
        )  # fmt: skip
        if exporter is not None:
            exporter.start(session)
        left = seconds
        try:
            if probe is not None:
                from cotenant.measure.watch import probe_tenant as run_probe

                if progress is not None:
                    progress(session)
                run_probe(session, probe)
                left = 0.0
            while left is None or left > 0:
                pause = every_s if left is None else min(every_s, left)
                session.wait(pause)
                left = None if left is None else left - pause
                if progress is not None:
                    progress(session)
        except KeyboardInterrupt:
            if not interruption.ended():
                raise
    return replace(session.watched(), folder=session.folder)


def show_watched(runs: Runs) -> "Watched":
    """What watched runs tell, again.

    Args:
        runs: A run folder of `watch`, or several of the same tenants.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
        WatchError: None of them was watched.
    """
    from cotenant.store.watched import read_watched

    return read_watched(run_paths(runs))


def _usual_device() -> str:
    """The first GPU, or the CPU."""
    from cotenant.devices.nvidia import gpus
    from cotenant.errors import DeviceError

    try:
        return "cuda:0" if gpus() else "cpu"
    except DeviceError:
        return "cpu"


def _prometheus(address: str) -> "PrometheusServer":
    from cotenant.clients.address import read_address
    from cotenant.clients.prometheus import PrometheusServer
    from cotenant.errors import WatchError, WorkloadError

    try:
        return PrometheusServer(read_address(address if "://" in address else f"http://{address}"))
    except WorkloadError as error:
        raise WatchError(error.message, hint=error.hint) from None
