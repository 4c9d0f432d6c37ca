# ruff: noqa: T201 - a user's script
"""A user's script that uses only the public API. It is checked by mypy in strict mode and never run."""

from pathlib import Path

import cotenant


def worst_slowdown(result: cotenant.Result) -> float:
    """The largest slowdown of any tenant, of those that could be estimated."""
    known = [
        slowdown.est
        for mix in result.mixes
        for slowdown in mix.slowdown.values()
        if isinstance(slowdown, cotenant.Estimate)
    ]
    return max(known, default=1.0)


def share_or_not(study: str, runs: Path) -> str:
    """Measure, compare with a saved run, explain."""
    try:
        forecast: cotenant.Forecast = cotenant.dry_run(study, device="sim:t4")
        result = cotenant.run(study, device="sim:t4", out=runs)
    except cotenant.CotenantError as error:
        return f"{error.message}: {error.hint}"
    number: cotenant.Number = result.mixes[0].slowdown[result.mixes[0].tenants[0]]
    changed = cotenant.compare(["main", result.folder])
    why: cotenant.Explanation = cotenant.explain(result.folder)
    rows: cotenant.Table = cotenant.sql("select mix from trials", "runs/pairs")
    return f"{forecast} {worst_slowdown(result)} {number.est} {changed.regression} {why} {rows.columns}"


def everything_else(runs: list[Path]) -> None:
    """Each remaining verb once, with its return type."""
    batches: tuple[cotenant.BatchAnswer, ...] = cotenant.batch(["bert-base-mini"], device="sim:t4")
    findings: tuple[cotenant.Finding, ...] = cotenant.doctor()
    studies: tuple[cotenant.StudyInfo, ...] = cotenant.list_studies()
    devices: tuple[cotenant.DeviceInfo, ...] = cotenant.list_devices()
    workloads: tuple[cotenant.WorkloadInfo, ...] = cotenant.list_workloads("bert")
    plan: cotenant.Plan = cotenant.plan(Path("jobs.yaml"), objective="energy")
    profile: cotenant.Profile = cotenant.profile("pairs", device="cpu")
    written: cotenant.Written = cotenant.report(runs, markdown="report.md")
    found: cotenant.SearchOutcome = cotenant.search("embedded:fashion", ["resnet18-mini"])
    checked: cotenant.SelfTest = cotenant.selftest("cpu")
    stored: cotenant.Contents = cotenant.db_contents()
    cotenant.export(runs, "requests", "-", "csv")
    cotenant.view(Path("runs"), port=0)
    print(batches, findings, studies, devices, workloads, plan, profile, written, found, checked, stored)
    print(cotenant.schema()["title"], cotenant.__version__)
