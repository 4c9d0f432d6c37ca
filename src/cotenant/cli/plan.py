"""`cotenant plan`: which tenant or job runs where, beside which others, and how."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from cotenant.cli.options import duration, power
from cotenant.cli.output import Exit, as_json, console, show_elements, show_json
from cotenant.planning.exports import TARGETS

if TYPE_CHECKING:
    from cotenant.api.plan import Plan
    from cotenant.planning.assignment import Objective
    from cotenant.planning.mixes.judge import Minimise

EPILOG = """\b
Examples:  cotenant plan tenants.yaml --devices "sim:a100-sxm4-80gb*4"
           cotenant plan tenants.yaml --devices "sim:a100-sxm4-80gb*2,sim:t4*4" --minimise energy
           cotenant plan tenants.yaml --devices "sim:a100-sxm4-80gb*4" --export out --for kubernetes
           cotenant plan tenants.yaml --devices cpu --study measure.yaml
           cotenant plan tenants.yaml --devices cpu --from RUN --out plan.yaml
           cotenant plan --check plan.yaml
           cotenant plan plan.yaml --export out --for vllm,triton
           cotenant plan jobs.yaml --objective energy --power-budget 2kW
           cotenant plan --compare --work sgemm

\b
tenants.yaml: tenants:
                embed: {workload: bert-base, rate: 300/s, at_once: 1..16, slo: {p99: 30ms}}
                chat: {workload: llama-3.2-3b, mode: generate, tokens: 64, rate: 1/s, at_once: 1..8,
                       slo: {ttft p95: 500ms, tpot p95: 60ms}}
jobs.yaml:    - {name: train, class: bert, gpus: 4, time: 2h}
              - {name: embed, core_share: 0.3, activity: 0.5, time: 30min, share: true}

Plans for tenants use the simulation on GPUs and runs on CPUs; plans for jobs use measured profiles of
the GPUs in the database (`cotenant db`). The exit code is 3 if an objective can't be kept, and 2 if a
check can't tell.
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
@click.option("--risk", type=click.FloatRange(0, 0.5, min_open=True, max_open=True), default=0.1, show_default=True,
              help="For tenants: how often a kept objective may turn out missed.")  # fmt: skip
@click.option("--from", "runs", metavar="RUN", multiple=True, type=click.Path(path_type=Path),
              help="For tenants: a run whose measurements correct the predictions, or served traffic, whose rates "
              "replace the file's; repeatable.")  # fmt: skip
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True,
              help="For tenants: change a key of the file, e.g. tenants.embed.rate=20/s; repeatable.")  # fmt: skip
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
@click.option("--compare", "comparing", is_flag=True, help="Replay random jobs under every policy instead.")
@click.option("--draws", type=click.IntRange(min=2), default=20, show_default=True, help="For --compare.")
@click.option("--drawn-jobs", "count", type=click.IntRange(min=1), default=2000, show_default=True,
              help="For --compare: jobs per draw.")  # fmt: skip
@click.option("--load", type=click.FloatRange(min=0, min_open=True), default=0.9, show_default=True,
              help="For --compare: GPU time requested over GPU time available.")  # fmt: skip
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
    comparing: bool,
    draws: int,
    count: int,
    load: float,
    work: str | None,
    db: Path | None,
    as_json: bool,
) -> None:
    """Plan for the tenants or jobs of a YAML FILE, check or export a plan, or compare ways of placing jobs."""
    from cotenant.study.files import contents

    if sum([comparing, checking is not None, file is not None]) != 1:
        raise click.UsageError("Name a file of tenants or jobs, or --check PLAN, or --compare.")
    if checking is not None:
        context.exit(_check(checking, as_json=as_json))
    if file is not None and not file.exists():
        raise click.UsageError(f"There is no file {file}. Write one: cotenant init --out {file}")
    holds = contents(file) if file is not None else "other"
    if file is not None and folder is not None and devices is None and holds == "plan":
        from cotenant.api.plan import Plan

        _export(Plan.read(file), target, folder)
        context.exit(Exit.OK)
    if file is not None and (holds != "other" or devices is not None):
        if study is not None:
            _study(file, devices, study)
            context.exit(Exit.OK)
        wanted = cast("Minimise", minimise)
        context.exit(
            _tenants(
                file, devices, wanted, seconds, risk,
                power_budget_w=power_budget_w, runs=runs, overrides=overrides, was=was, out=out, html=html,
                folder=folder, target=target, everything=everything, as_json=as_json,
            )
        )  # fmt: skip
    if file is not None:
        _jobs(file, cast("Objective", objective), power_budget_w, work, db, as_json=as_json)
    else:
        _compare(draws, count, load, work, db, as_json=as_json)


def _tenants(
    file: Path, devices: str | None, minimise: "Minimise", seconds: float, risk: float,
    *, power_budget_w: float | None, runs: tuple[Path, ...], overrides: tuple[str, ...],
    was: Path | None, out: Path | None, html: Path | None,
    folder: Path | None, target: str, everything: bool, as_json: bool,
) -> int:  # fmt: skip
    from cotenant.api.plan import plan
    from cotenant.reporting.results.planned import moves_elements, plan_elements
    from cotenant.tenancy.plan_document import read_plan

    talk = console(talk=True)
    if was is not None:
        read_plan(was)  # refused now rather than after planning
    planned = plan(
        file, devices, minimise=minimise, seconds=seconds, risk=risk, runs=runs, power_budget_w=power_budget_w,
        overrides=overrides, say=talk.print,
    )  # fmt: skip
    moves = () if was is None else planned.moves_from(was)
    if as_json:
        show_json(planned if was is None else {"plan": planned, "moves": moves})
    else:
        moved = [] if was is None else moves_elements(moves)
        show_elements([*plan_elements(planned, everything=everything), *moved])
    if out is not None:
        planned.write(out)
        talk.print(f"wrote {out}; check it with: cotenant plan --check {out}")
    if html is not None:
        planned.page(html)
        talk.print(f"wrote {html}")
    if folder is not None:
        _export(planned, target, folder)
    return Exit.OK if planned.keeps_all else Exit.BREACH


def _export(planned: "Plan", target: str, folder: Path) -> None:
    talk = console(talk=True)
    written = planned.export(target, folder)
    for path in written.paths:
        talk.print(f"wrote {path}")
    for note in written.notes:
        talk.print(f"note: {note}")


def _study(file: Path, devices: str | None, out: Path) -> None:
    from cotenant.planning.inputs.studies import write_study

    files = [str(path) for path in write_study(file, devices, out)]
    commands = ", ".join(f"cotenant run {name}" for name in files)
    runs = " ".join(["--from RUN"] * len(files))
    console(talk=True).print(f"wrote {' and '.join(files)}; then: {commands}, and plan again with {runs}")


def _check(path: Path, *, as_json: bool) -> int:
    from cotenant.planning.check import check_plan
    from cotenant.reporting.results.promised import check_elements

    found = check_plan(path, say=console(talk=True).print)
    if as_json:
        show_json(found)
    else:
        show_elements(check_elements(found.tenants, found.basis))
    if found.misses:
        return Exit.BREACH
    return Exit.OK if found.keeps_all else Exit.NOT_READY


def _jobs(
    file: Path, objective: "Objective", power_budget_w: float | None, work: str | None, db: Path | None,
    *, as_json: bool,
) -> None:  # fmt: skip
    from cotenant.api.plan import plan_jobs
    from cotenant.reporting.results.placed_jobs import job_elements

    found = plan_jobs(file, objective=objective, power_budget_w=power_budget_w, work=work, db=db)
    if as_json:
        show_json(found)
    else:
        show_elements(job_elements(found))


def _compare(draws: int, count: int, load: float, work: str | None, db: Path | None, *, as_json: bool) -> None:
    from cotenant.api.plan import compare_policies
    from cotenant.reporting.results.placed_jobs import policy_elements

    talk = console(talk=True)
    compared = compare_policies(
        work=work,
        db=db,
        jobs=count,
        draws=draws,
        load=load,
        progress=lambda done: talk.print(f"draw {done} of {draws}"),
    )
    if as_json:
        show_json(compared)
    else:
        show_elements(policy_elements(compared))
