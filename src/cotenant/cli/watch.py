"""`cotenant watch`: servers that already run, without touching them."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.options import duration
from cotenant.cli.output import Exit, as_json, console, show, show_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from cotenant.analyse.neighbours import Watched
    from cotenant.measure.watch import WatchSession

EPILOG = """\b
Examples:  cotenant watch
           cotenant watch http://localhost:8000 http://localhost:8001 --for 1h
           cotenant watch chat=localhost:8000 train=4711 --device cuda:0
           cotenant watch localhost:8080 --histogram http_request_duration_seconds
           cotenant watch chat=localhost:8000 train=4711 --probe train
           cotenant watch --export 9109 --price 2.50
           cotenant watch --prometheus http://localhost:9090 --for 6h

\b
It only reads: /metrics at most once a second, /proc, and the driver; only --probe pauses something. The exit
code is 2 if whether some tenant slows another isn't decided.
"""


@click.command("watch", epilog=EPILOG)
@click.argument("targets", metavar="[PID|URL]...", nargs=-1)
@click.option("--prometheus", metavar="URL", help="Read what this Prometheus server recorded instead, back in time.")
@click.option("--device", metavar="NAME", help="The device they share; by default the first GPU, or the CPU.")
@click.option("--for", "seconds", metavar="TIME", type=duration, help="How long, or how far back: 30min, 6h.")
@click.option("--since", metavar="DATE", type=click.DateTime(),
              help="With --prometheus: start of the period, such as 2026-11-19T08:00:00, in local time.")  # fmt: skip
@click.option("--histogram", "histograms", metavar="NAME", multiple=True,
              help="A histogram of request times that a server publishes; repeatable.")  # fmt: skip
@click.option("--where", metavar="MATCHERS", default="", help="With --prometheus: e.g. 'namespace=\"prod\"'.")
@click.option("--probe", metavar="TENANT", help="Pause this tenant for some seconds, six times or so, to learn whom it "
              "slows; its clients wait meanwhile.")  # fmt: skip
@click.option("--every", "every_s", metavar="SECONDS", type=click.FloatRange(min=1), default=2.0, show_default=True,
              help="Between two readings.")  # fmt: skip
@click.option("--export", metavar="[HOST:]PORT", help="Serve what is learnt as metrics for Prometheus meanwhile.")
@click.option("--price", metavar="PER-HOUR", type=click.FloatRange(min=0),
              help="Of the device: with --export, each tenant's cost.")  # fmt: skip
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default="runs", show_default=True,
              help="Where the run is stored.")  # fmt: skip
@as_json
@click.pass_context
def command(
    context: click.Context,
    *,
    targets: tuple[str, ...],
    prometheus: str | None,
    device: str | None,
    seconds: float | None,
    since: datetime | None,
    histograms: tuple[str, ...],
    where: str,
    probe: str | None,
    every_s: float,
    export: str | None,
    price: float | None,
    out: Path,
    as_json: bool,
) -> None:
    """Watch servers that already run: what each gets of the device, and who slows whom."""
    from cotenant.api.watch import watch
    from cotenant.reporting.elements import to_terminal
    from cotenant.reporting.results import watched_elements

    if prometheus is None and (where or since):
        raise click.UsageError("--where and --since belong to --prometheus.")
    if prometheus is not None and probe:
        raise click.UsageError("--probe needs servers that run on this machine, not --prometheus.")
    if prometheus is not None and export:
        raise click.UsageError("--export tells what is watched now; with --prometheus, servers are read back in time.")
    if price is not None and not export:
        raise click.UsageError("--price belongs to --export.")
    if prometheus is not None and targets:
        raise click.UsageError("Name servers or --prometheus, not both.")
    screen = console()
    live = _Live(screen.is_terminal and not as_json)
    with live:
        found = watch(
            *targets, device=device, seconds=seconds, every_s=every_s, histograms=histograms, prometheus=prometheus,
            since_s=None if since is None else since.timestamp(), where=where, probe=probe, export=export,
            price=price, out=out, progress=live.progress,
        )  # fmt: skip
    if as_json:
        show_json(found)
    else:
        show(*to_terminal(watched_elements(found, everything=False)))
    _next(found)
    context.exit(Exit.OK if found.decided and found.influences else Exit.NOT_READY)


class _Live:
    """The view while it goes on: on a terminal refreshed in place, elsewhere a line at the start."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._said = False
        self._notes = 0
        self._began = 0.0
        self._update: Callable[[object], None] | None = None
        self._close: Callable[[], None] | None = None

    def __enter__(self) -> None:
        """Nothing yet: what is wrong with the command line is said without a screen."""

    def __exit__(self, *_: object) -> None:
        """Restore the terminal."""
        if self._close is not None:
            self._close()

    def progress(self, session: "WatchSession") -> None:
        """Called every few seconds."""
        import time

        now = time.monotonic()
        if not self._said:
            self._said, self._began = True, now
            names = ", ".join(track.tenant for track in session.targets.tracks)
            console(talk=True).print(f"watching {names}; Ctrl-C ends it. Records: {session.folder}", soft_wrap=True)
            self._open()
        self._warn(session)
        if self._update is None:
            return
        from rich.console import Group

        from cotenant.reporting.results import live_parts

        self._update(Group(*live_parts(session, session.latest(), now - self._began)))

    def _warn(self, session: "WatchSession") -> None:
        """New notes go to stderr as they arise; on a terminal they are part of the view."""
        notes = session.notes()
        if self._update is None:
            for note in notes[self._notes :]:
                click.echo(f"{click.style('warning:', fg='yellow')} {note}", err=True)
        self._notes = len(notes)

    def _open(self) -> None:
        if not self._terminal:
            return
        from rich.console import Group
        from rich.live import Live

        view = Live(Group(), console=console(), screen=True, auto_refresh=False)
        view.start()
        self._update = lambda group: view.update(group, refresh=True)  # type: ignore[arg-type]
        self._close = view.stop


def _next(found: "Watched") -> None:
    """Suggest next commands, on stderr."""
    import shlex

    if found.folder is not None:
        where = shlex.quote(str(found.folder))
        console(talk=True).print(
            f"\nagain: cotenant show {where}\npage:  cotenant report {where}\n"
            f"plan:  cotenant plan tenants.yaml --devices {found.device} --from {where}",
            style="dim", soft_wrap=True,
        )  # fmt: skip
