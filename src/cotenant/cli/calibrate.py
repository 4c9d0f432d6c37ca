"""`cotenant calibrate`: fit a simulated GPU to measured solo times, or an engine to what its clients see."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.options import duration
from cotenant.cli.output import as_json, console, show_elements, show_json

if TYPE_CHECKING:
    from cotenant.devices.simulated import Calibration, EngineCalibration, KernelCalibration

EPILOG = """\b
Examples:  cotenant calibrate runs/on-my-a100 --device sim:a100-sxm4-40gb --out mine.csv
           cotenant calibrate measured.csv --device sim:a100-sxm4-80gb
           cotenant calibrate http://127.0.0.1:8000 --workload llama-3.2-3b --for 3min \\
               --device sim:a100-sxm4-40gb --out mine.csv
           cotenant calibrate mine.csv --predict '512/64 closed(16)' --predict '128/64 2/s'
           cotenant calibrate --tables DIR --device sim:a100-sxm4-80gb --out mine-a100.yaml
           cotenant run mine.yaml --device sim:a100-sxm4-40gb --calibrate mine.csv
           cotenant plan mine.yaml --devices sim:mine-a100.yaml

A CSV file has the columns workload and ms (milliseconds per request, alone on the whole GPU) and,
where they matter, batch, seq, dtype, mode, software and train. Two batch sizes, or a column utilisation (0 to 1),
separate host from device. A server is probed with prompts of two lengths
and up to --in-flight requests: give the load that you intend.
"""


@click.command("calibrate", epilog=EPILOG)
@click.argument("source", metavar="[RUN|CSV|URL]", required=False)
@click.option("--tables", metavar="DIR", type=click.Path(path_type=Path),
              help="Fit kernels of engines to measured tables of them, instead.")  # fmt: skip
@click.option("--device", metavar="DEVICE", help="The simulated GPU to fit.")
@click.option(
    "--workload", metavar="NAME", help="Of a server: its model in `cotenant workloads`, unless it is called so there."
)
@click.option("--model", metavar="NAME", help="Of a server: its model's name there.")
@click.option("--api", type=click.Choice(["chat", "completions"]), default="chat", show_default=True,
              help="Of a server: the endpoint that your clients use.")  # fmt: skip
@click.option("--prompt", metavar="TOKENS", type=click.IntRange(8, 1 << 20), default=512, show_default=True,
              help="Of a server: length of your prompts.")  # fmt: skip
@click.option("--tokens", metavar="TOKENS", type=click.IntRange(4, 2048), default=32, show_default=True,
              help="Of a server: length of your answers.")  # fmt: skip
@click.option("--in-flight", metavar="N", type=click.IntRange(2, 1024), default=16, show_default=True,
              help="Of a server: requests in flight under your load.")  # fmt: skip
@click.option("--for", "seconds", metavar="TIME", type=duration, default="3min", show_default=True,
              help="Of a server: how long to probe it.")  # fmt: skip
@click.option("--key-env", metavar="NAME", help="The environment variable that holds the server's key.")
@click.option("--predict", "loads", metavar="LOAD", multiple=True,
              help="Of a calibrated server: times at another load, '256/32 closed(8)' or '128/64 2/s'; repeatable.",
              )  # fmt: skip
@click.option("--beside", metavar="SHARE", type=click.FloatRange(0, 1), default=0.0,
              help="With --predict, on a CPU: share of the server's cores that a neighbour keeps busy.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Don't ask before probing another machine.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the times for `run --calibrate`; as .yaml, a GPU for every verb: --device sim:FILE.",
)
@as_json
def command(
    *,
    source: str | None,
    tables: Path | None,
    device: str | None,
    workload: str | None,
    model: str | None,
    api: str,
    prompt: int,
    tokens: int,
    in_flight: int,
    seconds: float,
    key_env: str | None,
    loads: tuple[str, ...],
    beside: float,
    yes: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Fit host and device of each tenant to its measured solo times, or of a running engine to its clients' times."""
    from cotenant.api.calibrate import calibrate_server, predict_server
    from cotenant.devices.simulated import calibration_text
    from cotenant.reporting.results import calibrated_elements, predicted_elements

    if (source is None) == (tables is None):
        raise click.UsageError("Name what to calibrate by: a run, a CSV file, a server's URL, or --tables DIR.")
    if device is None and out is not None and out.suffix.lower() in (".yaml", ".yml"):
        raise click.UsageError(f"{out} would describe a GPU: name it with --device sim:..., or write a .csv file.")
    server = source is not None and source.startswith(("http://", "https://"))
    if loads and source is not None and not server:
        predicted = predict_server(source, loads, beside=beside)
        show_json(predicted) if as_json else show_elements(predicted_elements(predicted))
        return
    found: Calibration | EngineCalibration | KernelCalibration
    if source is not None and server:
        if key_env is not None and not os.environ.get(key_env):
            raise click.UsageError(f"The environment has no {key_env}.")
        found = calibrate_server(
            source,
            workload=workload,
            device=device,
            model=model,
            api=api,
            key=None if key_env is None else os.environ[key_env],
            prompt=prompt,
            tokens=tokens,
            in_flight=in_flight,
            seconds=seconds,
            agree=lambda question: yes or click.confirm(question, err=True),
            say=console(talk=True).print,
        )
    else:
        found = _of_files(source, tables, device)
    if out is not None:
        out.write_text(calibration_text(found, out), encoding="utf-8")
        console(talk=True).print(f"Written: {out}")
    if as_json:
        show_json(found)
    else:
        show_elements(calibrated_elements(found))


def _of_files(
    source: str | None, tables: Path | None, device: str | None
) -> "Calibration | EngineCalibration | KernelCalibration":
    from cotenant.api.calibrate import calibrate, calibrate_tables
    from cotenant.measure.fitting import fit_probes, measured_solos

    if device is None and source is not None and any(time.probe for time in measured_solos(Path(source))):
        return fit_probes(Path(source))
    if device is None:
        raise click.UsageError("Name the simulated GPU to fit: --device sim:...")
    return calibrate_tables(tables, device=device) if tables else calibrate(str(source), device=device)
