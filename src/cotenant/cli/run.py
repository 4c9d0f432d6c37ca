"""`cotenant run`: run a study."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cotenant.cli.failures import Interrupted
from cotenant.cli.options import on_cluster, percent
from cotenant.cli.output import Exit, as_json, console, show, show_json, show_next, show_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cotenant.study.active_rounds import ActiveResult

EPILOG = """\b
Examples:  cotenant run quick
           cotenant run mine.yaml --device cpu --set budget=5min
           cotenant run quick --dry-run
           cotenant run variability-mini --devices all
           cotenant run tenancy --devices sim:rtx-2080,sim:v100-sxm2-32gb,sim:a100-sxm4-40gb
           cotenant run capacity --tenants mine.yaml
           cotenant run mine.yaml --active --width 10%
           cotenant run mine.yaml --on ray --devices "cuda:*"
           cotenant run --resume RUN

The exit code is 2 if fewer than half of the trials are valid, and 130 after Ctrl-C. Records are written
to disk about every second: after any interruption, `--resume` continues where the run stopped.
"""


@click.command("run", epilog=EPILOG)
@click.argument("study", required=False)
@click.option("--device", metavar="DEVICE", help="Overrides the study's device.")
@click.option(
    "--devices",
    metavar="LIST",
    help="A group to spread the study over: all, cuda:0,1, cpu:each, sim:GPU*4; or a list of different devices.",
)
@click.option("--tenants", "tenants_of", metavar="FILE",
              help="Run STUDY with the tenants, mixes and sharing of this file.")  # fmt: skip
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a key of the study; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only list the trials, and the time and memory they need.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Parent folder of the run folder.")  # fmt: skip
@click.option("--resume", metavar="RUN", type=click.Path(path_type=Path), help="Resume an interrupted run.")
@click.option("--active", is_flag=True, help="Measure the most informative mixes, and predict the others.")
@click.option("--width", metavar="PERCENT", type=percent, default="10%", show_default=True,
              help="With --active: half-width at which a slowdown is known.")  # fmt: skip
@click.option("--report", "with_report", is_flag=True, help="Also write report.html into the run's folder.")
@click.option("--calibrate", metavar="RUN|CSV", type=click.Path(path_type=Path),
              help="Measured solo times, for a simulated device.")  # fmt: skip
@on_cluster
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
@click.option("--all", "everything", is_flag=True, help="Print every table at the end, not only the answer.")
@as_json
def command(
    *,
    study: str | None,
    device: str | None,
    devices: str | None,
    tenants_of: str | None,
    overrides: tuple[str, ...],
    dry_run: bool,
    out: Path,
    resume: Path | None,
    active: bool,
    width: float,
    with_report: bool,
    calibrate: Path | None,
    on: str | None,
    insecure: bool,
    quiet: bool,
    everything: bool,
    as_json: bool,
) -> int:
    """Run STUDY: the name of a built-in study (`cotenant studies`) or a YAML file."""
    _require_study(study, tenants_of, needed=resume is None or dry_run, active=active)
    if study is not None and dry_run:
        where = {"device": device, "devices": devices, "tenants": tenants_of, "overrides": overrides, "out": out}
        return _forecast(study, where, as_json=as_json)

    if active:
        options = {"device": device, "overrides": overrides, "width": width, "out": out}
        known = _actively(study, devices, options, quiet=quiet)
        _show_known(known, everything=everything, as_json=as_json)
        if with_report:
            _write_report(known.folders, known.folders[-1] / "report.html")
        return Exit.OK

    from cotenant.api.run import run
    from cotenant.measure.events import Event, RunStarted, silent
    from cotenant.reporting.terminal import watch
    from cotenant.store.folder import resume_command

    folder = resume

    with nullcontext(silent) if quiet else watch(console(talk=True)) as watcher:

        def listener(event: Event) -> None:
            nonlocal folder
            if isinstance(event, RunStarted):
                folder = event.folder
            watcher(event)

        try:
            result = run(
                study,
                device=device,
                devices=devices,
                tenants=tenants_of,
                overrides=overrides,
                out=out,
                resume=resume,
                calibrate=calibrate,
                on=on,
                insecure=insecure,
                listener=listener,
            )
        except KeyboardInterrupt:
            if folder is None:
                raise
            raise Interrupted(resume_command(folder)) from None
    if as_json:
        show_json({"folder": result.folder, "why": result.why, **result.to_json()})
    else:
        show_result(result, everything=everything)
        show_next(result.folders)
    if with_report:
        _write_report([result.folder])
    return Exit.OK if result.usable else Exit.NOT_READY


def _require_study(study: str | None, tenants_of: str | None, *, needed: bool, active: bool) -> None:
    if study is None and needed:
        raise click.UsageError("Name a study, e.g. `cotenant run quick`; `cotenant studies` lists the built-in ones.")
    if tenants_of is not None and (study is None or active):
        raise click.UsageError("--tenants requires a study, e.g. `cotenant run capacity --tenants mine.yaml`.")


def _actively(study: str | None, devices: str | None, options: dict[str, Any], *, quiet: bool) -> "ActiveResult":
    if study is None or devices is not None:
        raise click.UsageError("--active takes a study and one device.")

    from cotenant.api.run import run_active
    from cotenant.measure.events import silent
    from cotenant.reporting.terminal import watch

    with nullcontext(silent) if quiet else watch(console(talk=True)) as watcher:
        return run_active(study, **options, listener=watcher)


def _write_report(folders: "Sequence[Path]", out: Path | None = None) -> None:
    from cotenant.api.report import report

    console(talk=True).print(f"report: {report(folders, out=out).html}", soft_wrap=True, highlight=False)


def _show_known(known: "ActiveResult", *, everything: bool, as_json: bool) -> None:
    from cotenant.reporting.elements import to_terminal
    from cotenant.reporting.results import prediction_elements

    if as_json:
        show_json(known)
    else:
        show(
            f"{known.measured} of {known.mixes} mixes were measured: {known.why}.",
            *to_terminal(prediction_elements(known.prediction, everything=everything)),
        )
        show_next(known.folders)


def _forecast(study: str, options: dict[str, Any], *, as_json: bool) -> int:
    from cotenant.api.run import dry_run, forecasts_on_each
    from cotenant.devices.group_names import each_of
    from cotenant.reporting.terminal import forecast_tables

    if named := each_of(options["devices"]):
        found = forecasts_on_each(study, named, options["overrides"])
        if as_json:
            show_json(found)
        else:
            show(*(part for forecast in found for part in forecast_tables(forecast)[:1]))
        return Exit.OK
    forecast = dry_run(study, **options)
    if as_json:
        show_json(forecast)
    else:
        show(*forecast_tables(forecast))
    return Exit.OK
