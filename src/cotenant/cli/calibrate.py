"""`cotenant calibrate`: fit a simulated GPU to measured solo times."""

from pathlib import Path

import click

from cotenant.cli.output import as_json, console, show, show_json

EPILOG = """\b
Examples:  cotenant calibrate runs/on-my-a100 --device sim:a100-sxm4-40gb --out mine.csv
           cotenant calibrate measured.csv --device sim:a100-sxm4-80gb
           cotenant run mine.yaml --device sim:a100-sxm4-40gb --calibrate mine.csv

A CSV file has the columns workload and ms (milliseconds per request, alone on the whole GPU) and,
where they matter, batch, seq, dtype, mode, software and train. It takes at least three batch sizes to
separate host from device.
"""


@click.command("calibrate", epilog=EPILOG)
@click.argument("source", metavar="RUN|CSV", type=click.Path(path_type=Path))
@click.option("--device", metavar="DEVICE", required=True, help="The simulated GPU to fit.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the times for `run --calibrate`.")
@as_json
def command(*, source: Path, device: str, out: Path | None, as_json: bool) -> None:
    """Fit host cost and efficiency of each tenant to its measured solo times."""
    from cotenant.api.calibrate import calibrate
    from cotenant.reporting.terminal.calibration import calibration_table

    found = calibrate(source, device=device)
    if out is not None:
        out.write_text(found.to_csv(), encoding="utf-8")
        console(talk=True).print(f"Written: {out}")
    if as_json:
        show_json(found)
    else:
        show(calibration_table(found))
