# ruff: noqa: T201 - a user's script
"""A user's script that uses only the public API. It is checked by mypy in strict mode and never run."""

from pathlib import Path

import cotenant


def worst_slowdown(result: cotenant.Run) -> float:
    """The largest slowdown of any tenant, of those that could be estimated."""
    known = [
        slowdown.est
        for mix in result.mixes
        for slowdown in mix.slowdown.values()
        if isinstance(slowdown, cotenant.types.Estimate)
    ]
    return max(known, default=1.0)


def share_or_not(study: str, runs: Path) -> str:
    """Measure, compare with a saved run, explain."""
    try:
        forecast: cotenant.types.Forecast = cotenant.dry_run(study, device="sim:t4")
        result = cotenant.run(study, device="sim:t4", out=runs)
    except cotenant.CotenantError as error:
        return f"{error.message}: {error.hint}"
    number: cotenant.types.Number = result.mixes[0].slowdown[result.mixes[0].tenants[0]]
    changed: cotenant.Comparison = cotenant.compare(["main", result.folder])
    why: cotenant.types.Explanation | cotenant.types.WatchedExplanation = result.explain()
    rows: cotenant.types.Table = result.sql("select mix from trials")
    return f"{forecast} {worst_slowdown(result)} {number.est} {changed.regression} {why} {rows.columns}"


def everything_else(runs: list[Path]) -> None:
    """Each remaining verb once, with its return type."""
    batches: tuple[cotenant.types.BatchAnswer, ...] = cotenant.batch(["bert-base-mini"], device="sim:t4")
    findings: tuple[cotenant.types.Finding, ...] = cotenant.doctor()
    studies: tuple[cotenant.types.StudyInfo, ...] = cotenant.list_studies()
    devices: tuple[cotenant.types.DeviceInfo, ...] = cotenant.list_devices()
    workloads: tuple[cotenant.types.WorkloadInfo, ...] = cotenant.list_workloads("bert")
    jobs: cotenant.Plan | cotenant.types.JobPlan = cotenant.plan(Path("jobs.yaml"), objective="energy")
    plan: cotenant.Plan = cotenant.plan("tenants.yaml", "sim:t4*2", quiet=True)
    kept: bool = plan.check().keeps_all and not plan.export("compose,vllm", "out").notes
    page: Path = cotenant.predict("tenancy", device="sim:t4").page("prediction.html")
    profile: cotenant.types.Profile = cotenant.profile("pairs", device="cpu")
    written: cotenant.types.Written = cotenant.report(runs, markdown="report.md")
    found: cotenant.types.SearchOutcome = cotenant.search("embedded:fashion", ["resnet18-mini"])
    checked: cotenant.types.SelfTest = cotenant.selftest("cpu")
    stored: cotenant.types.Contents = cotenant.db.contents()
    cotenant.export(runs, "requests", "-", "csv")
    cotenant.view(Path("runs"), port=0)
    print(
        batches, findings, studies, devices, workloads, plan, jobs, kept, page, profile, written, found, checked, stored
    )
    print(cotenant.schema()["title"], cotenant.__version__)
