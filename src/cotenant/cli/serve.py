"""`cotenant serve`: several models on a device, each with an objective."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.options import on_cluster
from cotenant.cli.output import Exit, as_json, console, show_elements, show_json

EPILOG = """\b
Examples:  cotenant serve tenants.yaml
           cotenant serve tenants.yaml --dry-run
           cotenant serve tenants.yaml --device sim:a100-sxm4-40gb
           cotenant serve plan.yaml --on ray
           curl localhost:8700/v2/models/bert

\b
tenants.yaml:  tenants:
                 bert: {workload: bert-base-mini, slo: 50ms, share: 40%, batch: 4}
                 gpt: {workload: gpt2-mini, mode: generate, tokens: 24, slo: {ttft: 200ms, tpot: 30ms}}

Listens on this machine only, unless every tenant has a key and TLS is configured. On SIGTERM or Ctrl-C it
finishes accepted requests; a second signal ends it at once.
"""

if TYPE_CHECKING:
    from cotenant.fleet.serving import OnCluster, Opened
    from cotenant.serving.server import Listening
    from cotenant.serving.service import Service


@click.command("serve", epilog=EPILOG)
@click.argument("tenants", required=False, type=click.Path(path_type=Path))
@click.option("--device", metavar="NAME", help="Overrides the file's device: cpu, cpu:1, cuda:0, sim:NAME.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=8700, show_default=True,
              help="0 picks a free port.")  # fmt: skip
@click.option("--grpc-port", metavar="N", type=click.IntRange(0, 65535),
              help="Also serve the Open Inference Protocol over gRPC on this port (cotenant[grpc]).")  # fmt: skip
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Its private key, PEM.")
@click.option("--drain", "drain_s", metavar="SECONDS", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="How long accepted requests may take to finish after SIGTERM.")  # fmt: skip
@click.option("--record", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
              help="Record served traffic as runs in this folder: `cotenant show` reads them.")  # fmt: skip
@click.option("--record-most", metavar="GIB", type=click.FloatRange(min=0.01), default=1.0, show_default=True,
              help="Disk space for recorded traffic; the oldest is deleted first.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Simulate the stated loads, and report which objectives are kept.")
@on_cluster
@click.option("--devices", metavar="LIST", help="With --on: which devices, as for `run`; default: those of the plan.")
@click.option("--when-full", metavar="COMMAND",
              help="With --on: run this when a tenant has no headroom left, with the next step as JSON.")  # fmt: skip
@click.option("--new-key", is_flag=True, help="Print a new API key and its hash, and exit.")
@as_json
def command(
    *,
    tenants: Path | None,
    device: str | None,
    host: str,
    port: int,
    grpc_port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    drain_s: float,
    record: Path | None,
    record_most: float,
    dry_run: bool,
    on: str | None,
    insecure: bool,
    devices: str | None,
    when_full: str | None,
    new_key: bool,
    as_json: bool,
) -> int | None:
    """Serve the models of TENANTS (YAML) on one device: each keeps its objective or refuses requests early."""
    if new_key:
        _show_new_key(as_json=as_json)
        return None
    if tenants is None:
        raise click.UsageError("Name the file of tenants.")
    if on is not None:
        only_here = {"--device": device, "--grpc-port": grpc_port, "--record": record, "--dry-run": dry_run or None}
        _refuse(only_here, "can't be used with --on")
        from cotenant.fleet.serving import OnCluster
        from cotenant.serving.server import Listening

        listening = Listening(host, port, tls_cert, tls_key, drain_s)
        _on_cluster(tenants, OnCluster(on, devices, insecure, shlex.split(when_full or "")), listening, as_json=as_json)
        return None
    _refuse({"--devices": devices, "--when-full": when_full}, "needs --on")
    if dry_run:
        return _simulated(tenants, device, as_json=as_json)

    from cotenant.serving.server import Listening

    listening = Listening(host, port, tls_cert, tls_key, drain_s, record, round(record_most * 2**30),
                          grpc_port=grpc_port)  # fmt: skip
    _here(tenants, device, listening, as_json=as_json)
    return None


def _simulated(tenants: Path, device: str | None, *, as_json: bool) -> int:
    from cotenant.api.serve import promise
    from cotenant.reporting.results import check_elements

    checked = promise(tenants, device=device, say=console(talk=True).print)
    if as_json:
        rows = [tenant.to_json() | {"verdict": tenant.verdict} for tenant in checked.tenants]
        show_json({"kept": checked.keeps_all, "device": checked.source, "basis": checked.basis, "tenants": rows})
    else:
        show_elements(check_elements(checked.tenants, checked.basis))
    if checked.misses:
        return Exit.BREACH
    return Exit.OK if checked.keeps_all else Exit.NOT_READY


def _here(tenants: Path, device: str | None, listening: "Listening", *, as_json: bool) -> None:
    from cotenant.api.serve import serve
    from cotenant.reporting.elements import to_terminal
    from cotenant.reporting.results import judged_elements
    from cotenant.reporting.terminal import closing_lines, opening_lines

    talk = console(talk=True)

    def ready(address: str, service: "Service") -> None:
        if as_json:
            show_json(
                {
                    "url": address,
                    "grpc": service.grpc,
                    "device": service.device,
                    "basis": service.basis,
                    "tenants": list(service.tenants),
                    "workers": service.workers(),
                }
            )
        else:
            click.echo(address)
        badge = " SIMULATED: zeros after predicted times" if service.basis != "measured" else ""
        talk.print(f"Live: {address}/ui{badge}", soft_wrap=True)
        for line in opening_lines(service):
            talk.print(line, soft_wrap=True)

    def ended(service: "Service") -> None:
        for line in closing_lines(service):
            talk.print(line, soft_wrap=True)
        for part in to_terminal(judged_elements(service.judged(), simulated=service.basis == "simulated")):
            talk.print(part)

    talk.print("Starting workers and measuring the cost of requests.")
    serve(tenants, device=device, listening=listening, ready=ready, ended=ended, say=talk.print)


def _on_cluster(tenants: Path, where: "OnCluster", listening: "Listening", *, as_json: bool) -> None:
    from cotenant.api.serve import serve_on_cluster
    from cotenant.text import milliseconds

    talk = console(talk=True)

    def ready(opened: "Opened") -> None:
        if as_json:
            show_json({"urls": dict(opened.urls), "devices": dict(opened.devices)})
        else:
            click.echo("\n".join(opened.urls.values()))
        for name, device in opened.devices.items():
            costs = (f"{tenant} {milliseconds(1e3 * cost)} alone" for tenant, cost in device["tenants"].items())
            talk.print(f"{name}: {', '.join(costs)}", soft_wrap=True)

    serve_on_cluster(
        tenants, where, listening=listening, ready=ready, say=lambda text: talk.print(text, soft_wrap=True)
    )


def _refuse(given: Mapping[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"{name} {why}.")


def _show_new_key(*, as_json: bool) -> None:
    from cotenant.serving.http import new_key

    key, hashed = new_key()
    if as_json:
        show_json({"key": key, "hash": hashed})
    else:
        click.echo(f"{key}\n{hashed}")
        console(talk=True).print("The first line is the key, shown once; the second goes into the file.")
