"""`cotenant plan`: which tenant or job runs where, beside which others, and how."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cotenant.cli.options import duration, power
from cotenant.cli.output import Exit, as_json, console, show_elements, show_json
from cotenant.planning.exports import TARGETS

if TYPE_CHECKING:
    from cotenant.api.plan import Plan

EPILOG = """\b
Examples:  cotenant plan tenants.yaml --devices "sim:a100-sxm4-80gb*4"
           cotenant plan tenants.yaml --devices "sim:a100-sxm4-80gb*2,sim:t4*4" --minimise energy
           cotenant plan tenants.yaml --devices "sim:a100-sxm4-80gb*4" --export out --for kubernetes
           cotenant plan tenants.yaml --devices cpu --study measure.yaml
           cotenant plan tenants.yaml --devices cpu --from RUN --out plan.yaml
           cotenant plan --check plan.yaml
           cotenant plan plan.yaml --export out --for vllm,triton
           cotenant plan jobs.yaml --work sgemm --power-budget 2kW

\b
tenants.yaml: tenants:
                embed: {workload: bert-base, rate: 300/s, at_once: 1..16, slo: {p99: 30ms}}
                chat: {workload: llama-3.2-3b, mode: generate, tokens: 64, rate: 1/s, at_once: 1..8,
                       slo: {ttft p95: 500ms, tpot p95: 60ms}}
jobs.yaml:    tenants:
                train: {job: {like: bert, gpus: 4, time: 2h}}
                embed: {job: {core_share: 0.3, activity: 0.5, time: 30min, beside: true}}

Plans use the simulation on GPUs and runs on CPUs. A file of nothing but jobs, without devices, is placed
by measured profiles of the GPUs in the database (`cotenant db`). The exit code is 3 if an objective
can't be kept, and 2 if a check can't tell.
"""


@click.command("plan", epilog=EPILOG)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--devices", metavar="LIST", help="For tenants: available devices, e.g. sim:t4*4,cuda:0, cpu or fleet.yaml."
)
@click.option("--minimise", type=click.Choice(["cost", "devices", "energy", "latency"]), default="cost",
              show_default=True, help="For tenants: what to minimise.")  # fmt: skip
@click.option("--time", "seconds", metavar="TIME", type=duration, default="30s", show_default=True,
              help="For tenants: time limit; time that others use on a busy machine counts for a third.")  # fmt: skip
@click.option("--risk", metavar="SHARE", type=click.FloatRange(0, 0.5, min_open=True, max_open=True), default=0.1,
              show_default=True, help="For tenants: how often a kept objective may turn out missed.")  # fmt: skip
@click.option("--from", "runs", metavar="RUN", multiple=True, type=click.Path(path_type=Path),
              help="For tenants: a run whose measurements correct the predictions, or served traffic, whose rates "
              "replace the file's; repeatable.")  # fmt: skip
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True,
              help="For tenants: change a key of the file, e.g. tenants.embed.rate=20/s; repeatable.")  # fmt: skip
@click.option("--sharing", metavar="LIST", default="",
              help="For tenants: ways to share that may be chosen, e.g. processes,mps.  [default: all that the devices "
              "have and --for can express]")  # fmt: skip
@click.option("--was", metavar="PLAN", type=click.Path(path_type=Path),
              help="For tenants: also show the moves that lead from this plan to the new one.")  # fmt: skip
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), help="For tenants: write the plan to this file."
)
@click.option("--page", "html", metavar="FILE", type=click.Path(path_type=Path),
              help="For tenants: write the plan as an HTML page.")  # fmt: skip
@click.option("--study", "study", metavar="FILE", type=click.Path(path_type=Path),
              help="For tenants: only write the study that a plan for a real device needs.")  # fmt: skip
@click.option("--export", "folder", metavar="DIR", type=click.Path(path_type=Path),
              help="For tenants or a plan: write configuration files to this folder.")  # fmt: skip
@click.option("--for", "target", metavar="TOOL", default="cotenant", show_default=True,
              help=f"For --export: {', '.join(TARGETS)}; or several servers, each tenant in the first that can run it "
              "(vllm,triton), and what keeps them running (compose,vllm).")  # fmt: skip
@click.option("--check", "checking", metavar="PLAN", type=click.Path(path_type=Path),
              help="Simulate a plan under its arrivals instead.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Show all rejected alternatives.")
@click.option("--objective", type=click.Choice(["time", "energy", "fairness"]), default="time", show_default=True,
              help="For jobs: what to optimise.")  # fmt: skip
@click.option("--power-budget", "power_budget_w", metavar="POWER", type=power,
              help="All GPUs together, e.g. 2kW; for tenants, in any state.")  # fmt: skip
@click.option("--work", metavar="TEXT", help="For jobs: the work in the database that describes the GPUs.")
@click.option("--db", metavar="DIR", type=click.Path(path_type=Path), help="For jobs: the database's folder.")
@as_json
@click.pass_context
def command(
    context: click.Context,
    *,
    file: Path | None,
    devices: str | None,
    minimise: str,
    seconds: float,
    risk: float,
    runs: tuple[Path, ...],
    overrides: tuple[str, ...],
    sharing: str,
    was: Path | None,
    out: Path | None,
    html: Path | None,
    study: Path | None,
    folder: Path | None,
    target: str,
    checking: Path | None,
    everything: bool,
    objective: str,
    power_budget_w: float | None,
    work: str | None,
    db: Path | None,
    as_json: bool,
) -> None:
    """Plan for the tenants or jobs of a FILE, or check or export a plan."""
    from cotenant.study.files import holds_plan

    if (checking is None) == (file is None):
        raise click.UsageError("Name a file of tenants or jobs, or --check PLAN.")
    if checking is not None:
        context.exit(_check(checking, as_json=as_json))
    assert file is not None
    if not file.exists():
        raise click.UsageError(f"There is no file {file}. Write one: cotenant init --out {file}")
    if folder is not None and devices is None and holds_plan(file):
        from cotenant.api.plan import Plan

        _export(Plan.read(file), target, folder)
        context.exit(Exit.OK)
    if study is not None:
        _study(file, devices, study)
        context.exit(Exit.OK)
    context.exit(
        _plan(
            file, devices, was=was, out=out, html=html, folder=folder, target=target, everything=everything,
            as_json=as_json, minimise=minimise, seconds=seconds, risk=risk, power_budget_w=power_budget_w, runs=runs,
            overrides=overrides, sharing=_ways(sharing, folder, target), objective=objective, work=work, db=db,
        )
    )  # fmt: skip


def _ways(listed: str, folder: Path | None, target: str) -> tuple[str, ...]:
    """A plan that is exported is made of what the tool can express."""
    from cotenant.planning.exports import SHARED

    if listed or folder is None or target == "cotenant":
        return tuple(word.strip() for word in listed.split(",") if word.strip())
    return tuple(SHARED)


def _plan(
    file: Path, devices: str | None, *, was: Path | None, out: Path | None, html: Path | None, folder: Path | None,
    target: str, everything: bool, as_json: bool, **asked: Any,
) -> int:  # fmt: skip
    """Files are written before anything is printed: the reader of the output may leave early."""
    from cotenant.api.plan import Plan, plan
    from cotenant.reporting.results import job_elements, moves_elements, plan_elements
    from cotenant.tenancy.plan_document import read_plan

    talk = console(talk=True)
    if was is not None:
        read_plan(was)  # refused now rather than after planning
    planned = plan(file, devices, say=talk.print, **asked)
    if not isinstance(planned, Plan):
        show_json(planned) if as_json else show_elements(job_elements(planned))
        return Exit.OK
    moves = () if was is None else planned.moves_from(was)
    if out is not None:
        planned.write(out)
        talk.print(f"wrote {out}; check it with: cotenant plan --check {out}")
    if html is not None:
        planned.page(html)
        talk.print(f"wrote {html}")
    if folder is not None:
        _export(planned, target, folder)
    if as_json:
        show_json(planned if was is None else {"plan": planned, "moves": moves})
    else:
        moved = [] if was is None else moves_elements(moves)
        show_elements([*plan_elements(planned, everything=everything), *moved])
    return Exit.OK if planned.keeps_all else Exit.BREACH


def _export(planned: "Plan", target: str, folder: Path) -> None:
    talk = console(talk=True)
    written = planned.export(target, folder)
    for path in written.paths:
        talk.print(f"wrote {path}")
    for note in written.notes:
        talk.print(f"note: {note}")


def _study(file: Path, devices: str | None, out: Path) -> None:
    from cotenant.planning.inputs import write_study

    files = [str(path) for path in write_study(file, devices, out)]
    commands = ", ".join(f"cotenant run {name}" for name in files)
    runs = " ".join(["--from RUN"] * len(files))
    console(talk=True).print(f"wrote {' and '.join(files)}; then: {commands}, and plan again with {runs}")


def _check(path: Path, *, as_json: bool) -> int:
    from cotenant.planning.check import check_plan
    from cotenant.reporting.results import check_elements

    found = check_plan(path, say=console(talk=True).print)
    if as_json:
        show_json(found)
    else:
        show_elements(check_elements(found.tenants, found.basis))
    if found.misses:
        return Exit.BREACH
    return Exit.OK if found.keeps_all else Exit.NOT_READY
